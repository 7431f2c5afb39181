"""Whether a kernel of the user's own is kept, decided by hand from the intervals."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from modescope.analysis import table
from modescope.analysis.recommend import keeping, wording
from modescope.analysis.recommend.decide import recommend
from modescope.analysis.recommend.types import Outcome, name_with_remark
from modescope.bench.records import parquet
from modescope.bench.records.results import row
from modescope.bench.records.rows import CONFIRMATIONS
from tests.helpers.derivations import table_of
from tests.helpers.drawings import rows_of
from tests.helpers.recommendations import CALL_S, control
from tests.helpers.studies import record, save

MINE: dict[str, Any] = {"axes": '{"kernels":"mine"}', "kernel_use": "called"}


def _answers(folder: Path, speedups: Mapping[str, Any]) -> list[keeping.Answer]:
    records = [control()]
    for mode, given in speedups.items():
        columns = given if isinstance(given, dict) else {"speedup": given}
        records.append(record(mode, CALL_S, **{"spread": 0.005, **_own(mode), **columns}))
    return _answered(rows_of(folder, *records))


def _own(mode: str) -> dict[str, Any]:
    return MINE if mode.endswith("[mine]") else {}


def _answered(rows: pd.DataFrame) -> list[keeping.Answer]:
    return keeping.answers(rows, recommend(rows))


@pytest.mark.parametrize(
    ("speedups", "outcome"),
    [
        ({"compile": 1.5, "eager[mine]": 1.2, "compile[mine]": 2.0}, "keep"),
        ({"compile": 1.5, "eager[mine]": 2.0, "compile[mine]": 1.0}, "keep"),
        ({"compile": 0.9, "eager[mine]": 1.2, "compile[mine]": 0.8}, "keep"),
        # eager alone is faster than the kernel, and than what compiles
        ({"compile": 0.6, "eager[mine]": 0.8, "compile[mine]": 0.7}, "drop"),
        ({"compile": 1.5, "eager[mine]": 0.8, "compile[mine]": 1.2}, "drop"),
        ({"compile": 1.5, "eager[mine]": 1.0, "compile[mine]": 1.2}, "drop"),
        (
            {"compile": 2.0, "eager[mine]": 1.3, "compile[mine]": 1.6},
            "keep only where you do not compile",
        ),
        # uncompiled, inference_mode is faster than what the kernel gains over eager
        (
            {"inference_mode": 1.3, "compile": 2.0, "eager[mine]": 0.95,
             "inference_mode[mine]": 1.2, "compile[mine]": 1.6},
            "drop",
        ),
        (
            {"inference_mode": 1.3, "compile": 2.0, "inference_mode[mine]": 1.5,
             "compile[mine]": 1.6},
            "keep only where you do not compile",
        ),
        # compiling saves nothing, and inference_mode is no reason not to compile
        ({"inference_mode": 1.5, "compile": 1.1, "eager[mine]": 1.2}, "drop"),
        # within what two processes differ
        ({"compile": 1.5, "eager[mine]": 1.2, "compile[mine]": 1.53}, "undecided"),
        ({"compile": 1.5, "eager[mine]": 1.2, "compile[mine]": 1.47}, "undecided"),
        # nothing to compare
        ({"eager[mine]": 1.2}, "undecided"),
        ({"compile": 1.5, "eager[mine]": {"speedup": 2.0, "in_effect": False}}, "undecided"),
        (
            {"compile": 1.5, "eager[mine]": {"status": "wrong_result", "reason": "error 1"}},
            "undecided",
        ),
        (
            {"compile": {"speedup": 3.0, "in_effect": False}, "inference_mode": 1.0,
             "compile[mine]": 1.5},
            "undecided",
        ),
    ],
)  # fmt: skip
def test_each_outcome_follows_from_the_intervals(
    tmp_path: Path, speedups: Mapping[str, Any], outcome: str
) -> None:
    (answer,) = _answers(tmp_path, speedups)
    assert answer.outcome == outcome, answer.text


def test_the_sentence_has_its_modes_ratio_and_bytes(tmp_path: Path) -> None:
    (answer,) = _answers(
        tmp_path,
        {
            "compile": {"speedup": 2.0, "bytes_accessed": 2 * 2**20},
            "eager[mine]": 1.3,
            "compile[mine]": {"speedup": 1.6, "bytes_accessed": 3 * 2**20},
        },
    )
    parts = ("kernels=mine", "compile is 1.25× [", "2.00 MiB", "3.00 MiB", "1.300× [")
    assert re.search(".*".join(map(re.escape, parts)), answer.text)


def test_the_gain_uncompiled_is_over_the_best_uncompiled_mode(tmp_path: Path) -> None:
    speedups = {"inference_mode": 1.25, "compile": 2.0, "inference_mode[mine]": 1.5}
    (answer,) = _answers(tmp_path, speedups)
    assert re.search(r"inference_mode\[.*1\.20× \[.* inference_mode$", answer.text), answer.text


def test_without_own_kernels_nothing_is_said(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, control(), record("compile", CALL_S, 1.5))
    assert _answered(rows) == []
    assert "kernels for" not in table.advice(rows)


def test_each_work_and_precision_has_an_answer(tmp_path: Path) -> None:
    def rows(**columns: Any) -> list[Any]:
        return [
            control(**columns),
            record("compile", CALL_S, 1.5, **columns),
            record("compile[mine]", CALL_S, 2.0, **(MINE | columns)),
        ]

    shape = {"shape": '{"batch":8,"seq":64}', "batch": 8}
    half = {"dtype": "bf16", "baseline_dtype": "bf16"}
    found = rows_of(tmp_path, *rows(), *rows(**shape), *rows(**half))
    told = [(answer.work["batch"], answer.work["dtype"]) for answer in _answered(found)]
    assert sorted(told) == [(4, "bf16"), (4, "fp32"), (8, "fp32")]
    assert table.advice(found).count("kernels=mine: keep") == 3


KEPT = (("compile", 1.5), ("compile[mine]", 2.0))


@pytest.mark.parametrize(
    ("again", "outcome"),
    [
        ({}, "keep"),
        ({"compile[mine]": 1.95}, "keep"),
        ({"compile[mine]": 1.6}, "keep"),  # even so it stays ahead
        ({"compile[mine]": 1.4}, "undecided"),
        ({"compile[mine]": 1.6, "compile": 1.7}, "undecided"),
        ({"compile": 1.9}, "keep"),  # even so it stays behind
        ({"compile": 2.2}, "undecided"),
    ],
)
def test_a_kernel_is_kept_only_if_no_second_process_contradicts(
    tmp_path: Path, again: Mapping[str, float], outcome: str
) -> None:
    first = {mode: record(mode, CALL_S, speedup, **_own(mode)) for mode, speedup in KEPT}
    save([control(), *first.values()], tmp_path)
    for mode, speedup in again.items():
        confirms = {"confirms": first[mode].attempt.run_id, "replicate": 1, **_own(mode)}
        second = record(mode, CALL_S, speedup, **confirms)
        parquet.write(row(second), tmp_path / CONFIRMATIONS)
    rows = table_of(tmp_path)
    (recommended,), (answer,) = recommend(rows), _answered(rows)
    assert answer.outcome == outcome, answer.text
    assert recommended.outcome == Outcome.BETWEEN or outcome == "keep"


@pytest.mark.parametrize(
    ("speedups", "outcome"),
    [
        ({"compile": 1.5, "compile[mine]": 2.0}, "undecided"),
        ({"compile": 1.5, "eager[mine]": 2.0}, "undecided"),
        ({"compile": 1.1, "inference_mode": 1.5, "eager[mine]": 2.0}, "keep"),  # none compiles
    ],
)
def test_a_disturbed_study_leaves_open_what_compiles(
    tmp_path: Path, speedups: Mapping[str, float], outcome: str
) -> None:
    (answer,) = _answers(tmp_path, {"no_grad": {"speedup": 1.1, "spread": 2.0}, **speedups})
    assert answer.outcome == outcome, answer.text
    assert (wording.DISTURBED in answer.text) == (outcome == "undecided")


def test_results_that_were_not_checked_are_marked(tmp_path: Path) -> None:
    unchecked = {"checked": "not", "checked_note": "random numbers"}
    mine = {"speedup": 2.0, **unchecked}
    (answer,) = _answers(tmp_path, {"compile": 1.5, "compile[mine]": mine})
    assert answer.outcome == "keep"
    assert name_with_remark("compile[mine]", "random numbers") in answer.text


def test_a_compiled_mode_that_does_not_count_is_named_with_its_reason(tmp_path: Path) -> None:
    off = {"speedup": 1.5, "in_effect": False, "in_effect_note": "nothing was compiled"}
    (answer,) = _answers(tmp_path, {"compile": off, "eager[mine]": 1.2})
    assert answer.doubt.endswith("(compile: not in effect: nothing was compiled)")
