"""Decisions by hand: the recommended mode, and the reason against each other one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from modescope.analysis.recommend.constraints import ANYTHING, Wishes
from modescope.analysis.recommend.decide import recommend
from modescope.analysis.recommend.types import Recommendation
from modescope.analysis.recommend.wording import clause, remarks
from modescope.bench.records.results import Record
from tests.helpers.derivations import table_of
from tests.helpers.drawings import rows_of
from tests.helpers.recommendations import CALL_S, MIB, control, needs
from tests.helpers.studies import record, save


def answers(
    folder: Path, records: Sequence[Record], wishes: Wishes = ANYTHING
) -> tuple[Recommendation, ...]:
    return recommend(rows_of(folder, *records), wishes)


def answer(folder: Path, records: Sequence[Record], wishes: Wishes = ANYTHING) -> Recommendation:
    (only,) = answers(folder, records, wishes)
    return only


@dataclass(frozen=True)
class Decided:
    """The decision that follows from the intervals by hand.

    `rows`: of each mode its speedup, or its columns; eager has a run against itself unless that is
    None.
    """

    name: str
    rows: dict[str, Any]
    outcome: str
    mode: str | None
    refused: dict[str, str] = field(default_factory=dict)  # mode -> kind
    tied: Sequence[str] = ()
    asked: Wishes = ANYTHING

    def records(self) -> Iterator[Record]:
        for mode, given in ({"eager": 1.0} | self.rows).items():
            for one in given if isinstance(given, list) else [given]:
                columns: dict[str, Any] = {"speedup": one} if isinstance(one, float) else one
                if one is not None:
                    yield control(**columns) if mode == "eager" else record(mode, CALL_S, **columns)


def gains(speedup: float, spread: float = 0.02, **columns: Any) -> dict[str, Any]:
    return {"speedup": speedup, "spread": spread, **columns}


UNREAL: dict[str, Any] = {"in_effect": False, "in_effect_note": "no graphs"}
UNJUDGED: dict[str, Any] = {"checked": "not", "checked_note": "no switch", "error": None}
NO_SPEEDUP: dict[str, Any] = {"baseline_latency_rounds_s": None, "case_ran_first": None}
# 20 % faster and 7.2 s dearer: pays after 7.198 s / (0.2 * 357 us) = 100,800 calls.
FIFTH = gains(1.2, first_call_s=7.2)
AHEAD = gains(1.2, first_call_s=0.001, package_export_s=0.2, package_build_s=7.0)
FREE = gains(1.1, first_call_s=0.001)
SIX = {"calls": '{"seq":[10,20,10,40,20,80]}'}  # calls that are timed together
LIMIT = Wishes(memory_limit_bytes=50 * MIB)

CASES = (
    Decided("the faster of two", {"compile": 1.3, "no_grad": 1.1}, "mode", "compile",
            {"no_grad": "less"}),
    Decided("one that is much faster, but whose interval touches the next",
            {"compile": gains(1.75, 0.5), "no_grad": 1.46}, "mode", "compile",
            {"no_grad": "open"}),
    Decided("nothing that compiles where an interval is wide",
            {"compile": gains(1.75, 1.05), "no_grad": 1.22}, "mode", "no_grad",
            {"compile": "disturbed"}),
    Decided("nothing that compiles where the interval of another mode is wide",
            {"compile": 1.75, "no_grad": gains(1.2, 1.05)}, "undecided", None,
            {"compile": "disturbed", "no_grad": "no_difference"}),
    Decided("nothing that compiles where the baseline against itself has a wide interval",
            {"eager": gains(1.0, 1.05), "compile": 1.75}, "undecided", None,
            {"compile": "disturbed"}),
    Decided("a wide interval of a clear loss does not matter",
            {"compile": 1.75, "no_grad": gains(0.4, 1.05)}, "mode", "compile",
            {"no_grad": "slower"}),
    Decided("only the baseline was measured", {}, "nothing", None),
    Decided("nothing ended ok",
            {"cuda-graph": {"status": "skipped"}, "compile": {"status": "oom"},
             "no_grad": gains(2.0, status="wrong_result")},
            "nothing", None, {"cuda-graph": "skipped", "compile": "failed", "no_grad": "wrong"}),
    Decided("the faster ones do not count",
            {"compile": gains(2.0, budget="smoke"), "reduce-overhead": gains(2.0, **UNREAL),
             "no_grad": 1.1},
            "mode", "no_grad", {"compile": "smoke", "reduce-overhead": "not_in_effect"}),
    Decided("not known to have been in effect", {"compile": gains(2.0, in_effect=None)},
            "nothing", None, {"compile": "not_in_effect"}),
    Decided("an error above the accepted one, whatever the status says",
            {"compile": gains(2.0, error=1e-2, error_limit=1e-4)},
            "nothing", None, {"compile": "wrong"}),
    Decided("an error above the usual one that was accepted knowingly",
            {"compile": gains(2.0, error=1e-2, error_limit=1e-4, max_error=0.05)},
            "mode", "compile"),
    Decided("an error that is not known", {"compile": gains(2.0, error=None)},
            "nothing", None, {"compile": "unchecked"}),
    Decided("results that could not be judged",
            {"eager": UNJUDGED, "compile": gains(2.0, **UNJUDGED)}, "mode", "compile"),
    Decided("the baseline's result is wrong",
            {"eager": None, "compile": {"flags": ("baseline_wrong",), **NO_SPEEDUP}},
            "nothing", None, {"compile": "no_baseline"}),
    Decided("the baseline fails",
            {"eager": {"status": "failed"},
             "compile": {"flags": ("baseline_failed",), **NO_SPEEDUP}},
            "nothing", None, {"compile": "no_baseline"}),
    Decided("too few rounds for an interval", {"compile": gains(2.0, rounds=11)},
            "nothing", None, {"compile": "no_interval"}),
    Decided("slower, so it never pays", {"compile": 0.8}, "baseline", "eager",
            {"compile": "slower"}),
    Decided("slower or equal, and the baseline has no run of its own",
            {"eager": None, "compile": gains(1.002, 0.01), "amp": gains(0.5, dtype="fp32")},
            "baseline", None, {"compile": "no_difference", "amp": "slower"}),
    Decided("the interval excludes 1, and not 1.01", {"compile": gains(1.015)},
            "undecided", None, {"compile": "no_difference"}),
    Decided("as far from 1 as the baseline is from itself", {"eager": 1.05, "compile": 1.04},
            "undecided", None, {"compile": "noise"}),
    Decided("as far from 1 as the baseline, the other way", {"eager": 0.95, "compile": 1.04},
            "undecided", None, {"compile": "noise"}),
    Decided("a smoke run of the baseline is no noise floor",
            {"eager": gains(1.5, budget="smoke"), "compile": 1.3}, "mode", "compile"),
    Decided("a tie: the cheaper first call",
            {"compile": gains(1.310, first_call_s=7.2),
             "max-autotune": gains(1.312, first_call_s=31.0)},
            "mode", "compile", tied=["max-autotune"]),
    Decided("a tie: a first call of less than twice as long is as cheap, so memory decides",
            {"compile": gains(1.31, first_call_s=7.2, **needs(90 * MIB)),
             "max-autotune": gains(1.31, first_call_s=9.0, **needs(50 * MIB))},
            "mode", "max-autotune", tied=["compile"]),
    Decided("a tie: what is not known is not known to be cheaper",
            {"compile": gains(1.31, first_call_s=None),
             "max-autotune": gains(1.31, first_call_s=30.0)},
            "mode", "max-autotune", tied=["compile"]),
    Decided("a tie: the simpler one", {"inference_mode": 1.1, "no_grad": 1.099},
            "mode", "no_grad", tied=["inference_mode"]),
    Decided("a tie: checked results before a cheaper first call",
            {"compile": gains(1.301, **UNJUDGED), "no_grad": gains(1.3, first_call_s=5.0)},
            "mode", "no_grad", tied=["compile"]),
    Decided("a tie of intervals that do not overlap and are less than one percent apart",
            {"inference_mode": gains(1.106, 0.002), "no_grad": gains(1.1, 0.002)},
            "mode", "no_grad", tied=["inference_mode"]),
    Decided("many calls pay for a first one", {"compile": FIFTH, "no_grad": FREE},
            "mode", "compile", {"no_grad": "less"}, asked=Wishes(10_000_000)),
    Decided("few calls do not", {"compile": FIFTH}, "baseline", "eager", {"compile": "unpaid"},
            asked=Wishes(50_000)),
    Decided("nor for what was built ahead of time", {"aoti": AHEAD}, "baseline", "eager",
            {"aoti": "unpaid"}, asked=Wishes(50_000)),
    Decided("few calls do not, but for a mode that costs nothing",
            {"compile": FIFTH, "no_grad": FREE},
            "mode", "no_grad", {"compile": "unpaid"}, asked=Wishes(90_000)),
    Decided("as many calls as it takes to pay are too close to call", {"compile": FIFTH},
            "undecided", None, {"compile": "unpaid"}, asked=Wishes(104_000)),
    Decided("few calls do not pay where six are timed together",
            {"eager": SIX, "compile": FIFTH | SIX}, "baseline", "eager", {"compile": "unpaid"},
            asked=Wishes(6 * 50_000)),
    Decided("six times as many calls as of one size pay",
            {"eager": SIX, "compile": FIFTH | SIX}, "mode", "compile",
            asked=Wishes(6 * 200_000)),
    Decided("a first call that is not known cannot be weighed",
            {"compile": gains(1.3, first_call_s=None)},
            "nothing", None, {"compile": "first_call_unknown"}, asked=Wishes(1000)),
    Decided("memory forbids the fastest by its first call",
            {"eager": needs(10 * MIB),
             "compile": gains(1.5, **needs(10 * MIB, first_call=50 * MIB))},
            "baseline", "eager", {"compile": "memory"}, asked=LIMIT),
    Decided("memory that is not known is not known to fit",
            {"eager": needs(10 * MIB), "compile": 1.5},
            "baseline", "eager", {"compile": "memory_unknown"}, asked=LIMIT),
    Decided("exactly the limit fits",
            {"eager": needs(10 * MIB), "compile": gains(1.5, **needs(50 * MIB))},
            "mode", "compile", asked=LIMIT),
    Decided("memory forbids the baseline, so a slower mode that fits will do",
            {"eager": needs(90 * MIB), "compile": gains(0.9, **needs(20 * MIB))},
            "mode", "compile", asked=LIMIT),
    Decided("memory forbids everything",
            {"eager": needs(90 * MIB), "compile": gains(1.5, **needs(91 * MIB))},
            "nothing", None, {"compile": "memory"}, asked=LIMIT),
    Decided("processes that do not agree",
            {"compile": [gains(1.3), gains(0.9, replicate=1)]},
            "undecided", None, {"compile": "no_difference"}),
)  # fmt: skip


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """The rows of all CASES, each under a model of the case's name."""
    runs = ((case.name, one) for case in CASES for one in case.records())
    named = [_of_model(one, model, f"run-{n:04d}") for n, (model, one) in enumerate(runs)]
    return table_of(save(named, tmp_path_factory.mktemp("study")))


def _of_model(one: Record, model: str, run_id: str) -> Record:
    case_id = f"{model} {one.attempt.case_id}"
    attempt = replace(one.attempt, case_id=case_id, run_id=run_id)
    return replace(one, attempt=attempt, work=replace(one.work, model=model))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_decision_by_hand(case: Decided, table: pd.DataFrame) -> None:
    (found,) = recommend(table[table["model"] == case.name], case.asked)
    assert found.outcome == case.outcome
    assert (found.choice.mode if found.choice else None) == case.mode
    assert [tie.row.mode for tie in found.tied] == list(case.tied)
    assert {one.mode: one.kind for one in found.refused} == case.refused


def test_a_choice_has_its_costs_and_intervals(tmp_path: Path) -> None:
    records = [control(**needs(10 * MIB)), record("compile", first_call_s=7.2, **needs(12 * MIB))]
    found = answer(tmp_path, records)
    row = rows_of(tmp_path, *records).set_index("mode").loc["compile"]
    choice = found.choice
    assert f"latency={choice.latency!r}, first_call_s={choice.first_call_s}" in repr(choice)
    assert choice.run_id == row["run_id"]
    assert choice.speedup == choice.gain
    assert choice.speedup == row["speedup"]
    assert choice.latency == row["latency_paired_s"]
    assert choice.first_call_s == 7.2
    assert (choice.peak_bytes, choice.extra_bytes) == (12 * MIB, 2 * MIB)
    assert found.detectable == pytest.approx(row["mde"] + 0.01)
    assert found.floor.value == pytest.approx(1.0)


def test_the_gain_over_calls_is_the_ratio_of_totals(tmp_path: Path) -> None:
    found = answer(tmp_path, [control(), record("compile", CALL_S, **FIFTH)], Wishes(1_000_000))
    eager_s = 0.002 + 1e6 * CALL_S * 1.2
    assert found.choice.gain.value == pytest.approx(eager_s / (7.2 + 1e6 * CALL_S), rel=1e-3)
    speedup = found.choice.speedup
    worst_s = 7.2 + 1e6 * CALL_S * 1.2 / speedup.low
    assert found.choice.gain.low == pytest.approx(eager_s / worst_s, rel=1e-3)


def test_the_first_call_of_a_compiled_baseline_comes_from_its_own_run(tmp_path: Path) -> None:
    against: dict[str, Any] = {"baseline_mode": "compile", "baseline_first_call_s": None}
    records = [
        record("compile", speedup=1.0, first_call_s=7.0, **against),
        record("max-autotune", CALL_S, speedup=1.2, first_call_s=14.2, **against),
    ]
    few = answer(tmp_path / "few", records, Wishes(50_000))
    assert few.outcome == "baseline"
    assert few.choice.mode == "compile"
    many = answer(tmp_path / "many", records, Wishes(1_000_000))
    assert many.choice.mode == "max-autotune"


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


PACKED: dict[str, Any] = {"package_export_s": 0.2, "package_build_s": 7.0, "package_bytes": 3 * MIB}
BF16: dict[str, Any] = {"dtype": "bf16", "error": 3e-3}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param(
            [control(), record("compile", speedup=1.2), record("aoti", speedup=1.4, **PACKED)],
            {("fp32", False): "compile", ("fp32", True): "aoti"},
            id="the fastest of all",
        ),
        pytest.param(
            [control(), record("compile", speedup=1.6), record("aoti", speedup=1.4, **PACKED)],
            {("fp32", False): "compile", ("fp32", True): "aoti"},
            id="slower than what compiles in the process",
        ),
        pytest.param(
            [control(), record("compile", speedup=0.9), record("aoti", speedup=0.9, **PACKED),
             record("compile", speedup=0.8, **BF16), record("aoti", speedup=1.5, **BF16, **PACKED)],
            {("fp32", False): "eager", ("fp32", True): "eager",
             ("bf16", False): "eager", ("bf16", True): "aoti"},
            id="only in bf16 faster than eager",
        ),
        pytest.param(
            [control(), record("aoti", speedup=1.5, **PACKED)],
            {("fp32", True): "aoti"},
            id="alone",
        ),
        pytest.param(
            [control(), record("compile", speedup=1.2), record("aoti", status="failed")],
            {("fp32", False): "compile"},
            id="never built",
        ),
    ],
)  # fmt: skip
def test_packages_neither_hide_nor_are_hidden(
    tmp_path: Path, rows: Sequence[Record], expected: dict[tuple[str, bool], str]
) -> None:
    found = {
        (one.question.dtype, one.question.of_packages): one.choice.mode
        for one in answers(tmp_path, rows)
    }
    assert found == expected


@pytest.mark.parametrize(("held", "said"), [(9 * MIB, True), (MIB, False)])
def test_frozen_weights_are_told_once_with_the_memory_that_holds_them_again(
    tmp_path: Path, held: int, said: bool
) -> None:
    columns: dict[str, Any] = {"frozen_weights": 8, **needs(10 * MIB), "resident_bytes": held}
    told = answer(tmp_path, [control(), record("freezing", speedup=1.3, **columns)])
    (remark,) = remarks(told)
    assert ("9.00 MiB" in remark) is said
    slower = answer(tmp_path / "slower", [control(), record("freezing", speedup=0.9, **columns)])
    assert not [*remarks(slower)]


def test_each_question_has_its_own_answer(tmp_path: Path) -> None:
    columns: dict[str, tuple[Any, Any]] = {
        "optimizer": ("sgd", "adamw"), "training": ('{"checkpoint":"model"}', '{"lr":0.1}'),
        "shape": ('{"batch":1}', '{"batch":8}'), "model_inputs": (None, "[[2,4]]"),
        "threads": (1, 2), "device": ("cpu", "cuda"), "compile_cache": ("cold", "warm"),
        "environment_id": ("one", "other"),
    }  # fmt: skip
    sweep = [
        record(mode, speedup=1.5, case_id=f"{column} {mode}", model=column, **{column: value})
        for column, values in columns.items()
        for mode, value in zip(("compile", "no_grad"), values, strict=True)
    ]
    found = {(one.question.model, one.choice.mode) for one in answers(tmp_path, sweep)}
    assert found == {(name, mode) for name in columns for mode in ("compile", "no_grad")}


def test_each_cache_has_the_noise_floor_and_the_memory_of_its_own_baseline(tmp_path: Path) -> None:
    sweep = []
    for cache, floor, peak in (("cold", 1.0, 9 * MIB), ("warm", 1.1, 7 * MIB)):
        one: dict[str, Any] = {"compile_cache": cache}
        sweep += [control(floor, **needs(peak), **one), record("compile", **needs(10 * MIB), **one)]
    found = {one.question.compile_cache: one for one in answers(tmp_path / "both", sweep)}
    floors: dict[str, Any] = {
        cache: (one.floor.value, one.choice.extra_bytes) for cache, one in found.items()
    }
    assert floors == {"cold": (pytest.approx(1), MIB), "warm": (pytest.approx(1.1), 3 * MIB)}
    alone = answers(tmp_path / "cold", [control(), record("compile", compile_cache="warm")])
    (warm,) = (each for each in alone if each.question.compile_cache == "warm")
    assert warm.floor is not None  # that of the cold one, for want of its own


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([control(), record("compile", speedup=1.3, **UNJUDGED)], "compile (results not checked)"),
        ([control(**UNJUDGED), record(speedup=0.9)], "eager (results not checked)"),
        ([record("compile", speedup=0.9, **UNJUDGED)], "eager (results not checked)"),
        ([control(), record("compile", speedup=0.9, **UNJUDGED)], None),
        ([control(), record("compile", speedup=1.3, checked="without_randomness")], None),
    ],
)
def test_an_answer_whose_results_were_not_checked_says_so(
    tmp_path: Path, rows: Sequence[Record], says: str | None
) -> None:
    told = answer(tmp_path, rows)
    texts = (clause([told]), *remarks(told))
    if says is None:
        assert "checked" not in " ".join(texts)
    else:
        assert says in texts[0]
        assert f"The results of {says.partition(' ')[0]} were not checked: no switch." in texts
