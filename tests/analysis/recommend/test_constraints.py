"""Constraints on recommendations, from the command line."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable
from pathlib import Path

import pytest

from modescope.analysis import table
from modescope.analysis.recommend.constraints import calls, size
from tests.helpers.recommendations import MIB, control, needs
from tests.helpers.studies import record, save


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (size, "8 gib", 8 * 2**30), (size, ".5MiB", 2**19), (size, "8GB", 8 * 10**9),
        (size, "1000B", 1000), (size, "8", None), (size, "8G", None), (size, "0.1B", None),
        (size, "9" * 400 + "B", None), (calls, "1e6", 10**6), (calls, "0.5", None),
        (calls, "inf", None), (calls, "many", None),
    ],
)  # fmt: skip
def test_sizes_have_a_unit_and_calls_are_finite(
    read: Callable[[str], float], text: str, value: int | None
) -> None:
    if value is None:
        with pytest.raises(ArgumentTypeError):
            read(text)
    else:
        assert read(text) == value


def test_the_table_ends_with_recommendations_within_constraints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        control(**needs(10 * MIB)), record("compile", speedup=1.2, **needs(90 * MIB)),
        record("no_grad", speedup=1.1, first_call_s=0.001, **needs(10 * MIB)),
    ]  # fmt: skip
    save(rows, tmp_path)
    for options, mode in (
        ([], "compile, 1.2"),
        (["--calls", "1e2"], "no_grad, 1.1"),
        (["--memory-limit", "50MiB"], "no_grad, 1.1"),
    ):
        assert table.main([str(tmp_path), *options]) == 0
        below = " ".join(capsys.readouterr().out.partition("\n\n")[2].split())
        assert below.startswith(f"use for transformer, batch 4, seq 64, inference fp32: {mode}")
    assert table.main([str(tmp_path), "--memory-limit", "8GHz"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
