"""Which rows are selected, combined and grouped, and that different cases never look the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from modescope.analysis import table
from modescope.analysis.derive.select import (
    SECTION,
    distinguishing_options,
    is_plain,
    latest,
    split_table,
)
from modescope.analysis.load import read
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import value_of
from modescope.bench.records.results import Record, Work
from tests.helpers.derivations import studies_of
from tests.helpers.drawings import rows_of
from tests.helpers.rows import row_with
from tests.helpers.studies import not_measured, record, save, training

NET: dict[str, Any] = {"model": "custom:net:build"}


@pytest.mark.parametrize(
    ("columns", "runs", "expected"),
    [
        (  # the newest, even if it failed
            ["mode", "status", "measured_times"],
            [record(), record(), not_measured("compile", "oom", "no room"), record("eager")],
            [("compile", "oom", 3), ("eager", "ok", 1)],
        ),
        (
            ["environment", "measured_times"],
            [record(environment_id="old"), record(environment_id="new")],
            [("A", 1), ("B", 1)],
        ),
        (  # a run without an environment counts to the previous one
            ["mode", "environment", "status"],
            [
                record(environment_id="old"),
                not_measured("compile", "crashed", "died", environment_id=None),
                record("eager", environment_id="new"),
            ],
            [("compile", "A", "crashed"), ("eager", "B", "ok")],
        ),
        (  # an edited model; the source includes the user's own loss, and differs between models
            ["model", "environment", "phase"],
            [
                record(**NET, model_source_id="old"),
                record(**NET, model_source_id="new"),
                not_measured("eager", "crashed", "died", **NET, model_source_id=None),
                record(model="mlp", model_source_id="mlp"),
                record(model="mlp", model_source_id="loss", phase="train", training='{"lr":1}'),
            ],
            [
                ("custom:net:build", "A", "inference"),
                *[("custom:net:build", "A.2", "inference")] * 2,
                *[("mlp", "A", phase) for phase in ("inference", "train")],
            ],
        ),
        (  # each process
            ["replicate", "measured_times"],
            [record(replicate=0), record(replicate=1), record(replicate=1)],
            [(0, 1), (1, 2)],
        ),
        *(  # a smoke run never supersedes a real one
            (
                ["budget", "status", "measured_times"],
                [real, record(budget="smoke", status=status)],
                [kept],
            )
            for real, status, kept in (
                (record(budget="quick"), "ok", ("quick", "ok", 1)),
                (record(), "failed", ("standard", "ok", 1)),
                (not_measured("compile", "failed", "why"), "ok", ("standard", "failed", 1)),
                (record(budget="smoke"), "ok", ("smoke", "ok", 2)),
            )
        ),
    ],
)
def test_the_run_that_is_selected(
    tmp_path: Path, columns: list[str], runs: list[Record], expected: list[tuple[Any, ...]]
) -> None:
    rows = latest(read(save(runs, tmp_path)).table)
    assert sorted(rows[columns].itertuples(index=False, name=None)) == expected


def test_only_the_requested_runs_are_selected(tmp_path: Path) -> None:
    runs = [record(environment_id="old"), record(), record("eager"), record()]
    asked = [runs[1].attempt.run_id]
    (row,) = latest(read(save(runs, tmp_path)).table, among=asked).to_dict("records")
    assert (row["run_id"], row["measured_times"], row["environment"]) == (asked[0], 1, "B")


@pytest.mark.parametrize(
    ("column", "make", "ordered_values"),
    [
        ("shape", record, ['{"batch":8}', '{"batch":64}', '{"batch":256}']),
        (
            "training", training,
            ["{}", '{"checkpoint":"model"}', '{"lr":0.1}', '{"checkpoint":"model","lr":0.1}'],
        ),
    ],
)  # fmt: skip
def test_sections_are_sorted_by_numbers_and_plain_training_comes_first(
    tmp_path: Path, column: str, make: Callable[..., Record], ordered_values: list[str]
) -> None:
    records = [make(**{column: value}) for value in sorted(ordered_values)]
    rows = rows_of(tmp_path, *records)
    assert [part[column].iloc[0] for part in split_table(rows, SECTION)] == ordered_values


# For each column that describes a case, a value that a usual row does not have.
OTHER: dict[str, Any] = {
    "model": "custom:net:other", "model_args": '{"width":8}', "model_inputs": "[[2,4]]",
    "model_kernels": '{"mine":"net:mine"}', "fullgraph": False, "batch_dim": None,
    "shape": '{"batch":8,"seq":64}', "phase": "inference",
    "optimizer": "adamw", "training": '{"lr":0.1}', "calls": '{"seq":[8,64]}',
    "calls_pad": '{"seq":[64]}', "data": "cold", "dtype": "tf32", "mode": "compile[grad=no_grad]",
    "grad": "no_grad", "autocast": True, "compile_mode": "max-autotune", "graph": True,
    "compile_options": '{"dynamic":true}', "axes": '{"layout":"tall"}', "quantize": "int8-dynamic",
    "baseline_mode": "no_grad", "baseline_dtype": "bf16",
    "device": "cuda:1", "threads": 2, "compile_cache": "warm",
}  # fmt: skip


def test_every_column_of_a_case_tells_two_lines_of_a_table_apart(tmp_path: Path) -> None:
    assert {*OTHER, "batch", "seq"} == {field.name for field in fields(Work)}
    changed = (training(case_id=name, **{name: value}) for name, value in OTHER.items())
    rows = rows_of(tmp_path, training(case_id="usual"), *changed)
    first, *others = rows.index
    for other in others:
        pair = rows.loc[[first, other]].reset_index(drop=True)
        _, *lines = table.text(pair.assign(apart=distinguishing_options(pair))).splitlines()
        assert len(set(_blocks(lines))) == 2, lines


def _blocks(lines: list[str]) -> list[str]:
    """Each row with its heading."""
    heading, found = "", []
    for line in lines:
        if line.startswith(" "):
            found.append(heading + line)
        else:
            heading = line
    return found


KINDS: list[dict[str, Any]] = [
    {"mode": "compile"}, {"mode": "eager"}, {"dtype": "bf16"}, {"threads": 2},
    {"compile_cache": "warm"}, {"baseline_dtype": "bf16"}, {"environment_id": "env-2"},
]  # fmt: skip


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (  # a difference at one size names the rows of all sizes
            [
                record("compile", case_id=f"{batch}-{fullgraph}", fullgraph=fullgraph, batch=batch,
                       shape=f'{{"batch":{batch},"seq":64}}')
                for batch, fullgraph in ((1, True), (1, False), (8, True))
            ],
            {"fullgraph=true": 2, "fullgraph=false": 1},
        ),
        (  # equal in all columns
            [record(case_id="0123456789ab"), record(case_id="ba98")],
            {"case 01234567": 1, "case ba98": 1},
        ),
        (  # names that differ need no distinction
            [record(**kind, fullgraph=n % 2 == 0, case_id=f"{n}") for n, kind in enumerate(KINDS)],
            {},
        ),
    ],
)  # fmt: skip
def test_rows_of_one_name_are_set_apart(
    tmp_path: Path, records: list[Record], expected: dict[str, int]
) -> None:
    assert Counter(rows_of(tmp_path, *records)["apart"].dropna()) == expected


def _combined(folder: Path, *cases: Iterable[Record]) -> list[Row]:
    """The row of each case, given as its processes."""
    return [row for (row,) in studies_of(folder, cases)]


def _processes(*ratios: float, **columns: Any) -> list[Record]:
    return [record(speedup=r, replicate=n, **columns) for n, r in enumerate(ratios)]


def test_processes_that_disagree_make_a_verdict_inconclusive(tmp_path: Path) -> None:
    ratios = (1.02, 1.10, 1.06)  # each of them is faster by itself
    rows = _combined(tmp_path, *map(_processes, ratios), _processes(*ratios))
    assert [row["verdict"] for row in rows] == ["faster"] * 3 + ["inconclusive"]


def test_processes_that_did_not_end_ok_are_counted_and_excluded(tmp_path: Path) -> None:
    lost = record(speedup=9.0, replicate=0, status="wrong_result", reason="why")
    kept = [record(speedup=1.25, replicate=n) for n in (1, 2)]
    row, alone = _combined(tmp_path, [lost, *kept], [lost])
    assert row["status"] == "ok"
    assert (row["replicates"], row["replicates_not_ok"]) == (2, 1)
    assert row["speedup"].value == pytest.approx(1.25)
    assert (alone["status"], alone["replicates"]) == ("wrong_result", 0)


def test_a_case_is_trusted_only_if_every_process_is(tmp_path: Path) -> None:
    doubts: list[dict[str, Any]] = [
        {"in_effect": False}, {"in_effect": None}, {"checked": "not"},
        {"budget": "smoke", "budget_rank": 0},
    ]  # fmt: skip
    cases = (
        [record(replicate=0), record(replicate=1, **doubt), record(replicate=2)] for doubt in doubts
    )
    for row, doubt in zip(_combined(tmp_path, *cases), doubts, strict=True):
        assert row["replicate"] == 1
        assert {column: value_of(row, column) for column in doubt} == doubt


def test_a_row_with_a_further_axis_is_not_plain_eager() -> None:
    plain = row_with({"autocast": False, "compile_mode": "none", "graph": False, "axes": None})
    assert is_plain(plain)
    assert not is_plain(row_with(plain, axes='{"layout":"tall"}'))
