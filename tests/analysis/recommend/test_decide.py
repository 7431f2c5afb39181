"""Decisions by hand: the recommended mode, and the reason against each other one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from modescope.analysis.derive.registry import derived
from modescope.analysis.recommend.decide import recommend
from modescope.analysis.recommend.sentences import clause, remarks
from modescope.analysis.recommend.types import Recommendation
from modescope.bench.records.results import Record
from tests.helpers.drawings import rows_of
from tests.helpers.recommendations import CALL_S, MIB, control, needs
from tests.helpers.studies import cpu_sweep, not_measured, record, replicates, save


def answers(folder: Path, records: Sequence[Record], **asked: Any) -> tuple[Recommendation, ...]:
    return recommend(rows_of(folder, *records), **asked)


def answer(folder: Path, records: Sequence[Record], **asked: Any) -> Recommendation:
    (only,) = answers(folder, records, **asked)
    return only


@dataclass(frozen=True)
class Decided:
    """The decision that follows from the intervals by hand."""

    name: str
    records: Sequence[Record]
    outcome: str
    mode: str | None
    refused: dict[str, str] = field(default_factory=dict)  # mode -> kind
    tied: Sequence[str] = ()
    asked: dict[str, Any] = field(default_factory=dict)


UNREAL: dict[str, Any] = {"in_effect": False, "in_effect_note": "no graphs"}
UNJUDGED: dict[str, Any] = {"checked": "not", "checked_note": "no switch", "error": None}
NO_SPEEDUP: dict[str, Any] = {"baseline_latency_rounds_s": None, "case_ran_first": None}
# 20 % faster and 7.2 s dearer: pays after 7.198 s / (0.2 * 357 us) = 100,800 calls.
FIFTH = record("compile", CALL_S, 1.2, first_call_s=7.2)

CASES = (
    Decided("a mode is faster", [control(), record("compile", speedup=1.3)], "mode", "compile"),
    Decided(
        "the faster of two",
        [control(), record("compile", speedup=1.3), record("no_grad", speedup=1.1)],
        "mode", "compile", {"no_grad": "less"},
    ),
    Decided(
        "one that is much faster, but so uncertain that its interval touches the next",
        [control(), record("compile", speedup=1.75, spread=1.05), record("no_grad", speedup=1.22)],
        "mode", "compile", {"no_grad": "open"},
    ),
    Decided(
        "one that may be much faster, or slower",
        [control(), record("compile", speedup=1.75, spread=1.3), record("no_grad", speedup=1.22)],
        "mode", "no_grad", {"compile": "open"},
    ),
    Decided("only the baseline was measured", [control()], "nothing", None),
    Decided(
        "nothing ended ok",
        [control(), not_measured("cuda-graph", "skipped", "no GPU"),
         not_measured("compile", "oom", "no room"), not_measured("no_grad", "failed", "it broke")],
        "nothing", None, {"cuda-graph": "skipped", "compile": "failed", "no_grad": "failed"},
    ),
    Decided(
        "only smoke",
        [control(budget="smoke"), record("compile", speedup=2.0, budget="smoke")],
        "nothing", None, {"compile": "smoke"},
    ),
    Decided(
        "a smoke run beside a real one",
        [control(), record("compile", speedup=2.0, budget="smoke"), record("no_grad", speedup=1.1)],
        "mode", "no_grad", {"compile": "smoke"},
    ),
    Decided(
        "faster only where it was not in effect",
        [control(), record("reduce-overhead", speedup=2.0, **UNREAL)],
        "nothing", None, {"reduce-overhead": "not_in_effect"},
    ),
    Decided(
        "the fastest was not in effect",
        [control(), record("reduce-overhead", speedup=2.0, **UNREAL), record("compile")],
        "mode", "compile", {"reduce-overhead": "not_in_effect"},
    ),
    Decided(
        "not known to have been in effect",
        [control(), record("compile", speedup=2.0, in_effect=None)],
        "nothing", None, {"compile": "not_in_effect"},
    ),
    Decided(
        "wrong results",
        [control(), record("compile", speedup=2.0, status="wrong_result", reason="error 0.3")],
        "nothing", None, {"compile": "wrong"},
    ),
    Decided(
        "an error above the accepted one, whatever the status says",
        [control(), record("compile", speedup=2.0, error=1e-2, error_limit=1e-4)],
        "nothing", None, {"compile": "wrong"},
    ),
    Decided(
        "an error above the usual one that was accepted knowingly",
        [control(), record("compile", speedup=2.0, error=1e-2, error_limit=1e-4, max_error=0.05)],
        "mode", "compile", {},
    ),
    Decided(
        "an error that is not known",
        [control(), record("compile", speedup=2.0, error=None)],
        "nothing", None, {"compile": "unchecked"},
    ),
    Decided(
        "results that could not be judged, as nothing switches the randomness off",
        [control(**UNJUDGED), record("compile", speedup=2.0, **UNJUDGED)],
        "mode", "compile", {},
    ),
    Decided(
        "results that could not be judged, as rounding alone explains any error",
        [control(), record("compile", speedup=2.0, **(UNJUDGED | {"error": 0.8}))],
        "mode", "compile", {},
    ),
    Decided(
        "the baseline's result is wrong",
        [record("compile", flags=("baseline_wrong",), **NO_SPEEDUP)],
        "nothing", None, {"compile": "baseline"},
    ),
    Decided(
        "the baseline was not in effect",
        [record("compile", baseline_mode="reduce-overhead", flags=("baseline_not_in_effect",),
                **NO_SPEEDUP)],
        "nothing", None, {"compile": "baseline"},
    ),
    Decided(
        "no baseline",
        [record("compile", baseline_mode=None, baseline_dtype=None, **NO_SPEEDUP)],
        "nothing", None, {"compile": "no_interval"},
    ),
    Decided(
        "too few rounds for an interval",
        [control(), record("compile", speedup=2.0, rounds=11)],
        "nothing", None, {"compile": "no_interval"},
    ),
    Decided(
        "slower, so it never pays",
        [control(), record("compile", speedup=0.8)],
        "baseline", "eager", {"compile": "slower"},
    ),
    Decided(
        "within one percent",
        [control(), record("compile", speedup=1.002, spread=0.01)],
        "baseline", "eager", {"compile": "no_difference"},
    ),
    Decided(
        "slower or equal, and the baseline has no run of its own",
        [record("compile", speedup=1.002, spread=0.01), record("amp", speedup=0.5, dtype="fp32")],
        "baseline", None, {"compile": "no_difference", "amp": "slower"},
    ),
    Decided(
        "the interval holds 1, whatever its middle says",
        [control(), record("compile", speedup=1.3, spread=2.0)],
        "undecided", None, {"compile": "no_difference"},
    ),
    Decided(
        "the interval excludes 1, and not 1.01",
        [control(), record("compile", speedup=1.015, spread=0.02)],
        "undecided", None, {"compile": "no_difference"},
    ),
    Decided(
        "as far from 1 as the baseline is from itself",
        [control(1.05), record("compile", speedup=1.04)],
        "undecided", None, {"compile": "noise"},
    ),
    Decided(
        "as far from 1 as the baseline is from itself, the other way",
        [control(0.95), record("compile", speedup=1.04)],
        "undecided", None, {"compile": "noise"},
    ),
    Decided(
        "further from 1 than the baseline is from itself",
        [control(1.05), record("compile", speedup=1.3)],
        "mode", "compile",
    ),
    Decided(
        "a wide noise floor that holds 1 is no offset",
        [control(1.02, spread=0.5), record("compile", speedup=1.1)],
        "mode", "compile",
    ),
    Decided(
        "a tie: the cheaper first call",
        [control(), record("compile", speedup=1.310, first_call_s=7.2),
         record("max-autotune", speedup=1.312, first_call_s=31.0)],
        "mode", "compile", tied=["max-autotune"],
    ),
    Decided(
        "a tie: a first call of less than twice as long is as cheap, so memory decides",
        [control(), record("compile", speedup=1.31, first_call_s=7.2, **needs(90 * MIB)),
         record("max-autotune", speedup=1.31, first_call_s=9.0, **needs(50 * MIB))],
        "mode", "max-autotune", tied=["compile"],
    ),
    Decided(
        "a tie: what is not known is not known to be cheaper",
        [control(), record("compile", speedup=1.31, first_call_s=None),
         record("max-autotune", speedup=1.31, first_call_s=30.0)],
        "mode", "max-autotune", tied=["compile"],
    ),
    Decided(
        "a tie: the simpler one",
        [control(), record("inference_mode", speedup=1.1), record("no_grad", speedup=1.099)],
        "mode", "no_grad", tied=["inference_mode"],
    ),
    Decided(
        "a tie of intervals that do not overlap and are less than one percent apart",
        [control(), record("inference_mode", speedup=1.106, spread=0.002),
         record("no_grad", speedup=1.1, spread=0.002)],
        "mode", "no_grad", tied=["inference_mode"],
    ),
    Decided(
        "a higher middle with a wide interval is a tie",
        [control(), record("compile", speedup=1.30, spread=0.01),
         record("max-autotune", speedup=1.32, spread=0.2, first_call_s=30.0)],
        "mode", "compile", tied=["max-autotune"],
    ),
    Decided(
        "an interval that holds 1 is tied with nothing",
        [control(), record("compile", speedup=1.3), record("no_grad", speedup=1.3, spread=2.0)],
        "mode", "compile", {"no_grad": "no_difference"},
    ),
    Decided(
        "many calls pay for a first one",
        [control(), FIFTH, record("no_grad", speedup=1.1, first_call_s=0.001)],
        "mode", "compile", {"no_grad": "less"}, asked={"calls": 10_000_000},
    ),
    Decided(
        "few calls do not",
        [control(), FIFTH], "baseline", "eager", {"compile": "unpaid"}, asked={"calls": 50_000},
    ),
    Decided(
        "few calls do not, but for a mode that costs nothing",
        [control(), FIFTH, record("no_grad", speedup=1.1, first_call_s=0.001)],
        "mode", "no_grad", {"compile": "unpaid"}, asked={"calls": 90_000},
    ),
    Decided(
        "as many calls as it takes to pay are too close to call",
        [control(), FIFTH], "undecided", None, {"compile": "unpaid"}, asked={"calls": 104_000},
    ),
    Decided(
        "what is slower per call never pays, however many there are",
        [control(), record("compile", speedup=0.9)],
        "baseline", "eager", {"compile": "slower"}, asked={"calls": 1e12},
    ),
    Decided(
        "a first call that is not known cannot be weighed",
        [control(), record("compile", speedup=1.3, first_call_s=None)],
        "nothing", None, {"compile": "first_call_unknown"}, asked={"calls": 1000},
    ),
    Decided(
        "a first call that is not known is no matter where nobody asks",
        [control(), record("compile", speedup=1.3, first_call_s=None)], "mode", "compile",
    ),
    Decided(
        "memory forbids the fastest",
        [control(**needs(10 * MIB)), record("compile", speedup=1.5, **needs(90 * MIB)),
         record("no_grad", speedup=1.1, **needs(9 * MIB))],
        "mode", "no_grad", {"compile": "memory"}, asked={"memory_limit_bytes": 50 * MIB},
    ),
    Decided(
        "memory forbids the fastest by its first call",
        [control(**needs(10 * MIB)),
         record("compile", speedup=1.5, **needs(10 * MIB, first_call=50 * MIB))],
        "baseline", "eager", {"compile": "memory"}, asked={"memory_limit_bytes": 50 * MIB},
    ),
    Decided(
        "memory that is not known is not known to fit",
        [control(**needs(10 * MIB)), record("compile", speedup=1.5)],
        "baseline", "eager", {"compile": "memory_unknown"},
        asked={"memory_limit_bytes": 50 * MIB},
    ),
    Decided(
        "exactly the limit fits",
        [control(**needs(10 * MIB)), record("compile", speedup=1.5, **needs(50 * MIB))],
        "mode", "compile", asked={"memory_limit_bytes": 50 * MIB},
    ),
    Decided(
        "memory forbids the baseline, so a slower mode that fits will do",
        [control(**needs(90 * MIB)), record("compile", speedup=0.9, **needs(20 * MIB))],
        "mode", "compile", asked={"memory_limit_bytes": 50 * MIB},
    ),
    Decided(
        "memory forbids everything",
        [control(**needs(90 * MIB)), record("compile", speedup=1.5, **needs(91 * MIB))],
        "nothing", None, {"compile": "memory"}, asked={"memory_limit_bytes": 50 * MIB},
    ),
    Decided(
        "processes that do not agree",
        [control(), record("compile", speedup=1.3), record("compile", speedup=0.9, replicate=1)],
        "undecided", None, {"compile": "no_difference"},
    ),
)  # fmt: skip


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """The rows of all CASES, each under a model of the case's name."""
    runs = ((case.name, one) for case in CASES for one in case.records)
    named = [_of_model(one, model, f"run-{n:04d}") for n, (model, one) in enumerate(runs)]
    return derived(save(named, tmp_path_factory.mktemp("study")))


def _of_model(one: Record, model: str, run_id: str) -> Record:
    case_id = f"{model} {one.attempt.case_id}"
    attempt = replace(one.attempt, case_id=case_id, run_id=run_id)
    return replace(one, attempt=attempt, work=replace(one.work, model=model))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_decision_by_hand(case: Decided, table: pd.DataFrame) -> None:
    (found,) = recommend(table[table["model"] == case.name], **case.asked)
    assert found.outcome == case.outcome
    assert (found.choice.mode if found.choice else None) == case.mode
    assert [tie.row.mode for tie in found.tied] == list(case.tied)
    assert {one.mode: one.kind for one in found.refused} == case.refused


def test_a_choice_has_its_costs_and_intervals(tmp_path: Path) -> None:
    records = [control(**needs(10 * MIB)), record("compile", first_call_s=7.2, **needs(12 * MIB))]
    found = answer(tmp_path, records)
    row = rows_of(tmp_path, *records).set_index("mode").loc["compile"]
    choice = found.choice
    assert choice.run_id == row["run_id"]
    assert choice.speedup == choice.gain
    assert (choice.speedup.value, choice.speedup.low) == (row["speedup"], row["speedup_ci_low"])
    assert choice.break_even_calls == row["break_even_calls"]
    assert (choice.peak_bytes, choice.extra_bytes) == (12 * MIB, 2 * MIB)
    assert found.detectable == pytest.approx(row["mde"] + 0.01)
    assert found.floor.value == pytest.approx(1.0)


@pytest.mark.parametrize(("first_call_s", "charged_s"), [(0.05, 0.002), (0.5, 0.5)])
def test_a_first_call_that_builds_nothing_is_charged_only_beyond_noise(
    tmp_path: Path, first_call_s: float, charged_s: float
) -> None:
    plain = record("no_grad", CALL_S, speedup=1.2, first_call_s=first_call_s)
    found = answer(tmp_path, [control(), plain], calls=100_000)
    eager_s = 0.002 + 1e5 * CALL_S * 1.2
    gain = found.choice.gain.value
    assert gain == pytest.approx(eager_s / (charged_s + 1e5 * CALL_S), rel=1e-4)


def test_the_gain_over_calls_is_the_ratio_of_totals(tmp_path: Path) -> None:
    found = answer(tmp_path, [control(), FIFTH], calls=1_000_000)
    eager_s = 0.002 + 1e6 * CALL_S * 1.2
    assert found.choice.gain.value == pytest.approx(eager_s / (7.2 + 1e6 * CALL_S), rel=1e-3)
    speedup = found.choice.speedup
    worst_s = 7.2 + 1e6 * CALL_S * 1.2 / speedup.low
    assert found.choice.gain.low == pytest.approx(eager_s / worst_s, rel=1e-3)


def test_a_cheaper_first_call_than_the_baseline_is_not_a_gain(tmp_path: Path) -> None:
    cheap = record("no_grad", speedup=1.0, spread=0.01, first_call_s=0.0001)
    found = answer(tmp_path, [control(), cheap], calls=1)
    assert found.outcome == "baseline"


def test_the_first_call_of_a_compiled_baseline_comes_from_its_own_run(tmp_path: Path) -> None:
    against: dict[str, Any] = {"baseline_mode": "compile", "baseline_first_call_s": None}
    records = [
        record("compile", speedup=1.0, first_call_s=7.0, **against),
        record("max-autotune", CALL_S, speedup=1.2, first_call_s=14.2, **against),
    ]
    few = answer(tmp_path / "few", records, calls=50_000)
    assert few.outcome == "baseline"
    assert few.choice.mode == "compile"
    many = answer(tmp_path / "many", records, calls=1_000_000)
    assert many.choice.mode == "max-autotune"


def test_a_choice_counts_all_processes(tmp_path: Path) -> None:
    found = answer(tmp_path, [control(), *replicates(5, speedup=1.3)])
    assert (found.choice.mode, found.choice.processes) == ("compile", 5)


def test_each_precision_has_its_own_answer(tmp_path: Path) -> None:
    sweep = [record("amp", speedup=2.0, **needs(14 * MIB)), control(**needs(10 * MIB)),
             record("compile", speedup=1.3), record("compile", speedup=1.5, dtype="bf16",
                                                    baseline_dtype="bf16")]  # fmt: skip
    found = {
        (one.question.dtype, one.question.baseline_dtype): one for one in answers(tmp_path, sweep)
    }
    assert {key: one.choice.mode for key, one in found.items()} == {
        ("bf16", "bf16"): "compile",
        ("bf16", "fp32"): "amp",
        ("fp32", "fp32"): "compile",
    }
    amp = found["bf16", "fp32"]
    assert amp.choice.extra_bytes == 4 * MIB  # its baseline was measured at another precision
    assert amp.floor is not None
    assert found["bf16", "bf16"].floor is None


def test_each_value_of_a_distinguishing_column_has_its_own_answer(tmp_path: Path) -> None:
    columns: list[tuple[str, tuple[Any, Any]]] = [
        ("phase", ("inference", "train")),
        ("optimizer", ("sgd", "adamw")),
        ("training", ('{"checkpoint":"model"}', '{"lr":0.1}')),
        ("shape", ('{"batch":1}', '{"batch":8}')),
        ("model_args", ("{}", '{"depth":2}')),
        ("model_inputs", (None, "[[2,4]]")),
        ("threads", (1, 2)),
        ("device", ("cpu", "cuda")),
        ("compile_cache", ("cold", "warm")),
        ("environment_id", ("one", "other")),
    ]
    sweep = []
    for column, (one, other) in columns:
        model: dict[str, Any] = {"model": column}
        sweep += [
            record("compile", speedup=1.5, case_id=f"{column} a", **model, **{column: one}),
            record("no_grad", speedup=1.2, case_id=f"{column} b", **model, **{column: other}),
        ]
    found = {(one.question.model, one.choice.mode) for one in answers(tmp_path, sweep)}
    assert found == {(name, mode) for name, _ in columns for mode in ("compile", "no_grad")}


def test_a_warm_cache_uses_the_noise_floor_of_a_cold_one(tmp_path: Path) -> None:
    found = answers(tmp_path, [control(), record("compile", compile_cache="warm")])
    (warm,) = (one for one in found if one.question.compile_cache == "warm")
    assert warm.floor is not None


def test_each_cache_has_the_noise_floor_and_the_memory_of_its_own_baseline(tmp_path: Path) -> None:
    sweep = []
    for cache, floor, peak in (("cold", 1.0, 9 * MIB), ("warm", 1.1, 7 * MIB)):
        one: dict[str, Any] = {"compile_cache": cache}
        sweep += [control(floor, **needs(peak), **one), record("compile", **needs(10 * MIB), **one)]
    found = {one.question.compile_cache: one for one in answers(tmp_path, sweep)}
    assert found["cold"].floor.value == pytest.approx(1.0)
    assert found["warm"].floor.value == pytest.approx(1.1)
    assert found["cold"].choice.extra_bytes == MIB
    assert found["warm"].choice.extra_bytes == 3 * MIB


def test_a_smoke_run_of_the_baseline_gives_no_noise_floor(tmp_path: Path) -> None:
    found = answer(tmp_path, [control(1.5, budget="smoke"), record("compile", speedup=1.3)])
    assert found.floor is None
    assert found.choice.mode == "compile"


def test_recommendations_for_a_planted_cpu_sweep(tmp_path: Path) -> None:
    bf16, fp32 = answers(tmp_path, cpu_sweep())
    assert (bf16.outcome, bf16.choice.mode, bf16.choice.dtype) == ("baseline", "eager", "fp32")
    assert (fp32.outcome, fp32.choice.mode) == ("mode", "compile")


def test_modes_excluded_for_one_reason_share_a_remark(tmp_path: Path) -> None:
    sweep = [control(), record("compile"), record("no_grad")]
    found = answer(tmp_path, sweep, memory_limit_bytes=MIB)
    assert [*remarks(found)] == [
        "Not recommended: compile and no_grad: not known to fit into the limit of 1 MiB.",
    ]


def test_an_empty_table_has_no_recommendations(tmp_path: Path) -> None:
    table = derived(save([record()], tmp_path))
    assert recommend(table.iloc[:0]) == ()


NOT_CHECKED = "The results of {} were not checked: no switch."


def test_a_mode_whose_results_were_not_checked_is_recommended_with_that_word(
    tmp_path: Path,
) -> None:
    told = answer(tmp_path, [control(), record("compile", speedup=1.3, **UNJUDGED)])
    assert clause([told]).startswith("compile (results not checked), 1.3")
    assert NOT_CHECKED.format("compile") in remarks(told)
    dear = record("no_grad", speedup=1.3, first_call_s=5.0)
    rest = [record("compile", speedup=1.301, **UNJUDGED), dear]
    tied = answer(tmp_path / "tied", [control(), *rest])
    assert clause([tied]).startswith("no_grad, 1.3")
    (ties,) = (remark for remark in remarks(tied) if "by the intervals" in remark)
    assert re.search(r": compile \(results not checked\) 1.30.*\(not checked\)\.$", ties)


@pytest.mark.parametrize("checked", [None, "without_randomness"])
def test_results_that_were_checked_need_no_word(tmp_path: Path, checked: str | None) -> None:
    how: dict[str, Any] = {"checked": checked, "checked_note": "in a copy in which …"}
    told = answer(tmp_path, [control(**how), record("compile", speedup=1.3, **how)])
    kept = answer(tmp_path / "kept", [control(**how), record("compile", speedup=0.9, **how)])
    assert not any(
        "checked" in text for one in (told, kept) for text in (clause([one]), *remarks(one))
    )


@pytest.mark.parametrize(
    "rows",
    [
        [control(**UNJUDGED), record("compile", speedup=0.9)],
        [record("compile", speedup=0.9, **UNJUDGED)],  # no run of eager itself
        [control(**UNJUDGED), record("compile", speedup=1.0, spread=0.5, **UNJUDGED)],
    ],
    ids=["baseline", "all that was measured", "undecided"],
)
def test_a_baseline_whose_results_were_not_checked_is_kept_with_that_word(
    tmp_path: Path, rows: Sequence[Record]
) -> None:
    told = answer(tmp_path, rows)
    assert "eager (results not checked)" in clause([told])
    assert NOT_CHECKED.format("eager") in remarks(told)


def test_a_baseline_that_was_checked_needs_no_word(tmp_path: Path) -> None:
    told = answer(tmp_path, [control(), record("compile", speedup=0.9, **UNJUDGED)])
    assert "checked" not in " ".join((clause([told]), *remarks(told)))
