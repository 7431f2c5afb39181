"""Options of the compiler that changed nothing are told by the hash of the code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modescope.analysis.format import cells
from tests.helpers.derivations import studies_of
from tests.helpers.studies import record

OPTIONS = '{"options":{"cpp.simdlen":1}}'
PLAIN = {"code_hash": "a", "compile_options": None}


def coded(code_hash: str | None, options: str = OPTIONS, **columns: Any) -> dict[str, Any]:
    return {"code_hash": code_hash, "compile_options": options} | columns


@pytest.mark.parametrize(
    ("plain", "other", "changed"),
    [
        (PLAIN, coded("a"), False),
        (PLAIN, coded("b"), True),
        (PLAIN, coded(None), None),
        (PLAIN | {"code_hash": None}, coded("a"), None),
        (PLAIN, coded("a", threads=2), None),
        (PLAIN, coded("a", shape='{"batch":8}'), None),
        (PLAIN, coded("a", axes='{"freezing":true}'), None),
        (PLAIN, coded("a", dtype="bf16"), None),
        (PLAIN, coded("a", options='{"dynamic":true,"options":{"x":1}}'), None),
        (
            PLAIN | {"compile_options": '{"dynamic":true}'},
            coded("a", options='{"dynamic":true,"options":{"x":1}}'),
            False,
        ),
    ],
)
def test_the_same_mode_without_options_tells(
    plain: dict[str, Any], other: dict[str, Any], changed: bool | None, tmp_path: Path
) -> None:
    records = [record("compile", **plain), record("compile[options]", **other)]
    ((without, row),) = studies_of(tmp_path, [records])
    assert row["options_changed_code"] is changed
    assert (cells.NO_EFFECT in cells.remarks(row)) is (changed is False)
    assert without["options_changed_code"] is None
