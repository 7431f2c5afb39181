"""Why a mode is preferred to one that cannot be told apart from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modescope.analysis.recommend import ties
from modescope.analysis.recommend.decide import recommend
from modescope.bench.records.results import Record
from tests.helpers.derivations import table_of
from tests.helpers.recommendations import MIB, control, needs
from tests.helpers.studies import record, save


def tied(mode: str, **columns: Any) -> Record:
    return record(mode, speedup=1.3, **{"first_call_s": 7.0, **columns})


@pytest.mark.parametrize(
    ("rows", "chosen", "word"),
    [
        ([tied("no_grad"), tied("inference_mode")], "no_grad", "autograd"),
        ([tied("no_grad"), tied("compile")], "no_grad", "compiles nothing"),
        ([tied("compile"), tied("reduce-overhead")], "compile", "simpler way"),
        ([tied("compile"), tied("cuda-graph")], "compile", "no CUDA graph"),
        ([tied("compile"), tied("max-autotune", first_call_s=31.0)], "compile", "less time"),
        ([tied("compile", first_call_s=None), tied("max-autotune")],
         "max-autotune", "first call is known"),
        ([tied("compile", **needs(90 * MIB)), tied("max-autotune", **needs(50 * MIB))],
         "max-autotune", "less memory"),
        ([tied("compile"), tied("max-autotune", **needs(50 * MIB))],
         "max-autotune", "memory is known"),
        ([tied("compile", checked="not"), tied("max-autotune")], "max-autotune", "were checked"),
    ],
)  # fmt: skip
def test_the_reason_is_what_the_choice_was_made_by(
    tmp_path: Path, rows: list[Record], chosen: str, word: str
) -> None:
    (found,) = recommend(table_of(save([control(), *rows], tmp_path)))
    assert found.choice is not None
    assert found.choice.mode == chosen
    (tie,) = found.tied
    assert word in ties.since(found.choice, tie)
