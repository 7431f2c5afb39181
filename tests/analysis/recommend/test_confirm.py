"""Answers that a second process confirms or contradicts, and those that still need one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from modescope.analysis.estimates import values
from modescope.analysis.format import cells, numbers
from modescope.analysis.recommend.advice import fold
from modescope.analysis.recommend.decide import recommend, to_explain, unconfirmed
from modescope.analysis.recommend.types import Outcome, Recommendation
from modescope.analysis.report import headline
from modescope.analysis.rows.values import as_rows
from modescope.bench.records import parquet
from modescope.bench.records.gap_steps import ELSEWHERE
from modescope.bench.records.results import Record, row
from modescope.bench.records.rows import CONFIRMATIONS
from tests.helpers.derivations import table_of
from tests.helpers.recommendations import control
from tests.helpers.studies import record, replicates, save, stepped

COMPILE = record("compile", speedup=1.13)
NEXT = record("inference_mode", speedup=1.06)
SLOWER = record("no_grad", speedup=0.9)


def study(folder: Path, records: Sequence[Record], *repeated: Mapping[str, Any]) -> Path:
    """A study whose rows of some modes were measured once more; `repeated`: speedups by mode."""
    save(records, folder)
    again = ((each, one[each.work.mode])
             for one in repeated for each in records if each.work.mode in one)  # fmt: skip
    for each, given in again:
        columns: dict[str, Any] = {"speedup": given} if isinstance(given, float) else given
        attempt: dict[str, Any] = {"confirms": each.attempt.run_id, "replicate": 1}
        one = record(each.work.mode, budget="quick", **attempt, **columns)
        parquet.write(row(one), folder / CONFIRMATIONS)
    return folder


def answer(folder: Path) -> Recommendation:
    (only,) = recommend(table_of(folder))
    return only


@pytest.mark.parametrize(
    ("again", "outcome", "disputed"),
    [
        ({"compile": 1.13 / 1.029}, Outcome.MODE, None),
        ({"compile": 1.13 / 1.06}, Outcome.BETWEEN, "compile"),
        ({"compile": 1.3}, Outcome.MODE, None),  # by each of its processes
        ({"compile": 1.3, "inference_mode": 1.13}, Outcome.BETWEEN, "compile"),
        ({"compile": {"speedup": 1.08, "spread": 0.5}}, Outcome.MODE, None),  # intervals overlap
        ({"compile": {"speedup": 0.9, "status": "crashed", "reason": "why"}}, Outcome.MODE, None),
        ({"compile": 1.13, "inference_mode": 1.3}, Outcome.BETWEEN, "inference_mode"),
        ({"inference_mode": {"speedup": 1.13, "spread": 0.04}}, Outcome.BETWEEN, "inference_mode"),
        ({"compile": 1.13, "inference_mode": 0.9}, Outcome.MODE, None),  # cannot become the best
    ],
)
def test_an_answer_is_undecided_where_two_processes_contradict_each_other(
    tmp_path: Path, again: Mapping[str, Any], outcome: str, disputed: str | None
) -> None:
    folder = study(tmp_path, [control(), COMPILE, NEXT, SLOWER], again)
    found = answer(folder)
    assert found.outcome == outcome
    remarks = {row["mode"]: cells.remarks(row) for row in as_rows(table_of(folder))}
    if disputed or again.get("compile") == 1.3:
        assert "in another process" in remarks[disputed or "compile"]
        assert disputed or " to 1.30×" in fold([found])[0].precisions[0].text
    else:
        assert "in another process" not in remarks["compile"]
    assert (found.choice.mode if found.choice else None) == (
        "compile" if outcome == Outcome.MODE else None
    )
    assert (found.disputed.mode if found.disputed else None) == disputed
    for figure in (found.disputed.speedup, found.disputed.again) if found.disputed else ():
        assert figure is not None
        (work,) = fold([found])
        assert numbers.ratio(figure) in work.precisions[0].text
        (line,) = headline.parts(work)
        assert line.lead == ""
        assert f"{disputed} " in line.rest
        assert numbers.factor(figure.value) in line.rest


FAST = {"eager": 100e-6, "code": 40e-6, "entry": 60e-6, "guards": 65e-6, "again": 65.1e-6}
SLOW = {**FAST, "entry": 80e-6, "guards": 90e-6}


def test_steps_of_a_second_process_are_those_of_the_row(tmp_path: Path) -> None:
    again = {"compile": {"speedup": 1.54, **stepped(**FAST)}}
    faster = record("compile", speedup=1.54)
    rows = table_of(study(tmp_path, [control(), faster, NEXT], again)).set_index("mode")
    found = rows.loc["compile"]
    assert found["steps_gap"].value == pytest.approx(0.35, abs=0.01)
    assert (found["measured_cause"], found["steps_note"]) == ("code", ELSEWHERE)
    assert ELSEWHERE in found["cause_text"]
    assert rows.loc["inference_mode"]["steps_gap"] is None


def test_steps_of_its_own_process_stay(tmp_path: Path) -> None:
    own = record("compile", speedup=1.13, **stepped(**SLOW))
    rows = table_of(study(tmp_path, [control(), own], {"compile": stepped(**FAST)}))
    found = rows.set_index("mode").loc["compile"]
    assert found["steps_gap"].value == pytest.approx(0.1, abs=0.01)
    assert found["steps_note"] != ELSEWHERE


def test_the_best_compiled_mode_of_each_work_is_explained_once(tmp_path: Path) -> None:
    best, other = record("compile", speedup=1.3), record("amp-compile", speedup=1.2)
    records = [control(), NEXT, other, best]
    ids = {one.attempt.run_id for one in records}
    table = table_of(study(tmp_path / "without", records))
    assert to_explain(table, ids) == [best.attempt.run_id]
    assert to_explain(table, ids - {best.attempt.run_id}) == []
    trained = [record(mode, speedup=1.3, phase="train") for mode in ("eager", "compile")]
    ids = {one.attempt.run_id for one in trained}
    assert to_explain(table_of(study(tmp_path / "trained", trained)), ids) == []
    for name, again in (
        ("known", stepped(**FAST)),
        ("noted", {"steps_note": "why"}),
    ):
        known = table_of(study(tmp_path / name, records, {"compile": again}))
        assert to_explain(known, {one.attempt.run_id for one in records}) == []


def test_a_second_process_changes_no_figure_of_the_row(tmp_path: Path) -> None:
    alone, confirmed = (
        table_of(study(tmp_path / name, [control(), COMPILE], again)).set_index("mode")
        for name, again in (("alone", {}), ("confirmed", {"compile": 0.9}))
    )
    old, new = (one.loc["compile"].map(repr) for one in (alone, confirmed))
    assert [name for name in alone.columns if old[name] != new[name]] == ["confirming_speedup"]
    (again,) = values(confirmed.loc[["compile"], "confirming_speedup"])
    assert again == pytest.approx(0.9, rel=1e-3)


def test_second_processes_of_replicates_are_combined(tmp_path: Path) -> None:
    for number, again in enumerate((1.0, 1.21)):
        process = record("compile", speedup=1.13, replicate=number)
        study(tmp_path, [process], {"compile": again})
    (row,) = as_rows(table_of(tmp_path))
    assert row["confirming_speedup"].value == pytest.approx(1.1, rel=1e-3)


def test_the_newest_of_several_second_processes_counts(tmp_path: Path) -> None:
    found = answer(study(tmp_path, [control(), COMPILE], {"compile": 0.9}, {"compile": 1.13}))
    assert found.outcome == Outcome.MODE


def test_replicates_overrule_a_second_process(tmp_path: Path) -> None:
    several = replicates(5, speedup=1.13)
    found = answer(study(tmp_path, [control(), *several], {"compile": 0.9}))
    assert found.outcome == Outcome.MODE


@pytest.mark.parametrize(
    ("records", "again", "modes"),
    [
        ([control(), COMPILE, NEXT, SLOWER], {}, ["compile", "inference_mode"]),
        ([control(), COMPILE, NEXT], {"compile": 1.13}, ["inference_mode"]),
        ([control(), record("cuda-graph", speedup=1.3, device="cuda")], {}, ["cuda-graph"]),
        ([control(), record("compile", speedup=1.06), record("no_grad", speedup=1.3)], {}, []),
        ([control(), *replicates(3)], {}, []),
    ],
)
def test_only_an_answer_that_would_switch_to_a_compiled_or_captured_mode_is_confirmed(
    tmp_path: Path, records: Sequence[Record], again: Mapping[str, Any], modes: Sequence[str]
) -> None:
    folder = study(tmp_path, records, again)
    by_id = {each.attempt.run_id: each.work.mode for each in records}
    answers = recommend(table_of(folder))
    assert [by_id[one] for one in unconfirmed(answers, [*by_id])] == modes
    assert unconfirmed(answers, []) == []
