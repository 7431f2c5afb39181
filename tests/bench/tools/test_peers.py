"""Other harnesses beside ours: their rules, their readings of steps, and the files written."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch

from modescope.bench.devices.devices import Cpu
from modescope.bench.tools.peers import __main__ as command
from modescope.bench.tools.peers import (
    arguments,
    harness,
    harnesses,
    ours,
    processes,
    rules,
    sides,
    tables,
    theirs,
)
from modescope.bench.tools.peers.decisions import Decision, comparisons
from modescope.bench.tools.peers.figures import Alternation, alternations
from modescope.bench.tools.peers.harness import Criterion, Harness
from modescope.bench.tools.peers.harnesses import HARNESSES
from modescope.bench.tools.peers.rules import FASTER, SAME, SLOWER
from modescope.bench.tools.peers.sides import CallTimes
from modescope.bench.tools.testbed.sides import Recipe, Side, side
from modescope.bench.tools.testbed.simulated import SimulatedDevice, normal_noise
from modescope.bench.tools.testbed.simulated import step as simulated
from modescope.bench.tools.testbed.workloads import SPIN_S, Workload, delay, planted

pytestmark = pytest.mark.usefixtures("restored_settings")

LOOP = Recipe("python_loop", "cpu", 1)
CALL_S = 1e-4
IN_PROCESS = [
    each for each in HARNESSES if not each.cuda and each.measure is not processes.fresh_processes
]
# An interruption can shorten a slope, which is a difference, so it is tested on simulated time.
NO_SLOPES = [each for each in IN_PROCESS if each.measure is not ours.pipelined]


def busy_side(seconds: float = CALL_S) -> Side:
    return Side(Workload(delay(seconds)), Cpu(), seconds, LOOP)


def counted(work: Workload) -> tuple[Side, list[int]]:
    """A side with a duration of CALL_S, and a list with one entry per call."""
    calls: list[int] = []

    def step() -> None:
        calls.append(1)
        work()

    return replace(busy_side(), step=Workload(step)), calls


def mirrored(decision: str) -> str:
    return {SLOWER: FASTER, FASTER: SLOWER, SAME: SAME}[decision]


# rank sums 132 and 131 of 10 among 20: at 5 % the tables have U <= 23, that is 27 over chance
CLEARLY_HIGHER = (20, 19, 18, 17, 16, 15, 11, 8, 5, 3)
NOT_QUITE_HIGHER = (20, 19, 18, 17, 16, 15, 11, 8, 4, 3)


def others(ranks: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(rank for rank in range(1, 21) if rank not in ranks)


@pytest.mark.parametrize(
    ("rule", "case", "baseline", "decision"),
    [
        # pairs: of twelve ratios the interval is [x(3), x(10)]
        (rules.interval_excludes_one, [1.01] * 10 + [0.9] * 2, [1.0] * 12, SLOWER),
        (rules.interval_excludes_one, [1.01] * 9 + [0.9] * 3, [1.0] * 12, SAME),
        (rules.interval_excludes_one, [1.01] * 11, [1.0] * 11, SAME),  # too few for an interval
        (rules.verdict_differs, [1.02] * 10 + [0.9] * 2, [1.0] * 12, SLOWER),
        (rules.verdict_differs, [1.02] * 10 + [1.009] * 2, [1.0] * 12, SLOWER),
        (rules.verdict_differs, [1.02] * 9 + [1.009] * 3, [1.0] * 12, SAME),  # reaches below 1 %
        (rules.verdict_differs, [1.009] * 12, [1.0] * 12, SAME),  # equivalent
        (rules.verdict_differs, [1.02] * 11, [1.0] * 11, SAME),  # too few for an interval
        (rules.more_than_a_percent(min), [1.0101, 9.0], [1.0, 1.0], SLOWER),
        (rules.more_than_a_percent(min), [1.0099, 9.0], [1.0, 1.0], SAME),
        (rules.quartiles_apart, [5, 6, 7, 8, 9], [3, 4, 5, 5.9, 9], SLOWER),
        (rules.quartiles_apart, [5, 6, 7, 8, 9], [3, 4, 5, 6.0, 9], SAME),  # they touch
        # variance 1 on both sides, standard error sqrt(2/3), 2.776 of those are 2.267
        (rules.student, [3.27, 4.27, 5.27], [1, 2, 3], SLOWER),
        (rules.student, [3.26, 4.26, 5.26], [1, 2, 3], SAME),
        (rules.student, [2.0, 2.0], [1.0, 1.0], SLOWER),
        (rules.student, [2.0], [1.0], SAME),
        (rules.mann_whitney, CLEARLY_HIGHER, others(CLEARLY_HIGHER), SLOWER),
        (rules.mann_whitney, NOT_QUITE_HIGHER, others(NOT_QUITE_HIGHER), SAME),
        (rules.mann_whitney, [1.0] * 20, [1.0] * 20, SAME),
        # 70 over chance, deviation 32.0 with the correction for ties, 37.0 without
        (rules.mann_whitney, [1] * 14 + [0] * 6, [1] * 7 + [0] * 13, SLOWER),
    ],
)
def test_each_rule_on_numbers_by_hand(
    rule: rules.DecisionRule, case: Any, baseline: Any, decision: str
) -> None:
    assert rule(tuple(case), tuple(baseline)) == decision
    assert rule(tuple(baseline), tuple(case)) == mirrored(decision)


@pytest.mark.parametrize("harness", NO_SLOPES, ids=lambda each: each.name)
def test_no_harness_reads_less_than_the_step(harness: Harness) -> None:
    samples = harness.measure(busy_side(), 0.03)
    assert harness.figure(samples) >= CALL_S


def test_timeit_uses_all_of_its_time_for_five_loops() -> None:
    of, calls = counted(Workload(lambda: None))
    assert len(theirs.by_timeit(of, 0.01)) == 5
    assert len(calls) == 100


def test_timeit_by_default_finds_its_loop_first() -> None:
    of, calls = counted(Workload(delay(0.2)))
    assert len(theirs.by_timeit(of)) == 5
    assert len(calls) == 1 + 5


def test_pytest_benchmark_of_an_older_release(monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_benchmark import fixture

    made: Any = fixture.BenchmarkFixture

    def older(node: Any, timer: Any, max_time: float, add_stats: Any, logger: Any) -> Any:
        assert timer.target
        options = {**theirs.PYTEST_BENCHMARK, "max_time": max_time, "timer": timer}
        return made(node=node, add_stats=add_stats, logger=logger, warner=None, **options)

    monkeypatch.setattr(fixture, "BenchmarkFixture", older)
    assert min(theirs.by_pytest_benchmark(busy_side(), 0.01)) >= CALL_S


def test_fresh_processes_measure_the_recipe() -> None:
    plain_s, hundredfold_s = (
        processes.fresh_processes(side(replace(LOOP, longer=share), Cpu()), 0.04)
        for share in (0.0, 99.0)
    )
    assert len(hundredfold_s) == processes.PROCESSES * processes.VALUES
    assert min(hundredfold_s) > 20 * median(plain_s)


def test_a_failed_process_gives_its_reason() -> None:
    with pytest.raises(RuntimeError, match="a process failed: KeyError: 'nothing'"):
        processes.fresh_processes(replace(busy_side(), recipe=replace(LOOP, workload="nothing")))


@pytest.mark.parametrize(
    ("name", "seconds"), [("pipelined", 3e-5), ("latency", 3.5e-5), ("device", 3e-5)]
)
def test_each_of_our_clocks_reads_its_planted_time_on_a_queue(name: str, seconds: float) -> None:
    device = SimulatedDevice()
    of = Side(Workload(simulated(device, (5e-6, 3e-5))), device, 3.5e-5, LOOP)
    assert median(ours.CLOCKS[name](of, 0.1)) == pytest.approx(seconds)


@pytest.mark.parametrize(("queues", "seconds"), [(True, 3e-5), (False, 3.5e-5)])
def test_our_pipelined_time_is_read_within_its_time(queues: bool, seconds: float) -> None:
    device = SimulatedDevice(queues)
    of = Side(Workload(simulated(device, (5e-6, 3e-5))), device, seconds, LOOP)
    samples = ours.pipelined(of, 1.0)
    assert len(samples) > 50
    assert median(samples) == pytest.approx(seconds)
    assert 0.9 < device.now_s < 1.05


@pytest.mark.parametrize(("change", "decision"), [(0.0, SAME), (0.02, SLOWER), (-0.02, FASTER)])
def test_our_comparison_within_its_budget(change: float, decision: str) -> None:
    device = SimulatedDevice()
    built = [
        simulated(device, (1e-5 * ratio, 4e-5 * ratio), scale=normal_noise(seed, 0.05))
        for seed, ratio in enumerate((1 + change, 1.0))
    ]
    case, baseline = (Side(Workload(step), device, 5e-5, LOOP) for step in built)
    case_s, baseline_s = ours.compare(case, baseline, 0.25, random.Random(0))
    assert rules.interval_excludes_one(case_s, baseline_s) == decision
    assert 0.23 < device.now_s < 0.26


def test_a_change_on_a_device_with_a_queue_is_made_on_the_device() -> None:
    device = SimulatedDevice()
    step = planted(Workload(simulated(device, (5e-6, 3e-5))), 0.02, device)
    of = Side(step, device, 2e-4, LOOP)
    call_s = 5e-6 + 3e-5 + SPIN_S
    assert median(ours.device(of)) == pytest.approx(3e-5 + SPIN_S + 0.02 * call_s)


def test_both_sides_of_a_pair_are_wrapped_alike() -> None:
    case, baseline = sides.pair(LOOP, 0.02, Cpu(), random.Random(0))
    assert case.step is not baseline.step
    assert baseline.recipe == replace(LOOP, longer=0.0)
    assert case.recipe == replace(LOOP, longer=0.02)


def test_sides_alternate_in_both_orders_for_half_of_the_time_each() -> None:
    requests: list[tuple[Side, float]] = []

    def measure(of: Side, seconds: float) -> CallTimes:
        requests.append((of, seconds))
        return (of.call_s,)

    case, baseline = busy_side(2.0), busy_side(1.0)
    compare = sides.one_after_the_other(measure)
    shuffle = random.Random(0)
    for _ in range(20):
        assert compare(case, baseline, 0.25, shuffle) == ((2.0,), (1.0,))
    assert {seconds for _, seconds in requests} == {0.125}
    assert {of is case for of, _ in requests[::2]} == {True, False}


@pytest.mark.parametrize("harness", [harnesses.DO_BENCH, harnesses.DO_BENCH_CUDAGRAPH])
def test_harnesses_that_need_a_gpu_have_a_reason(harness: Harness) -> None:
    assert harness.missing(Cpu()) == "needs a CUDA GPU"


def test_a_missing_package_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    assert harnesses.PYTEST_MEAN.missing(Cpu()) is None
    monkeypatch.setattr(harness, "find_spec", lambda name: None)
    reason = "needs pytest-benchmark, which is not installed"
    assert harnesses.PYTEST_MEAN.missing(Cpu()) == reason


def test_names_are_unique_and_clocks_exist() -> None:
    assert len({each.name for each in HARNESSES}) == len(HARNESSES)
    assert {each.clock for each in HARNESSES} <= set(ours.CLOCKS)
    assert not any("|" in each.reports + each.differs for each in HARNESSES)
    assert not any("|" in how.words + how.source for each in HARNESSES for how in each.criteria)
    rows = [each.judging(how) for each in HARNESSES for how in each.criteria]
    assert len(set(rows)) == len(rows)


def test_the_table_names_the_source_of_each_rule() -> None:
    listed = tables.descriptions(HARNESSES)
    sources = {row[0]: row[listed.headers.index("source of the rule")] for row in listed.rows}
    assert sources["pyperf's way"] == "pyperf compare_to"
    assumed = {name for name, source in sources.items() if source == "none documented; assumed"}
    assert assumed == {
        "torch.utils.benchmark", "timeit", "triton do_bench", "triton do_bench_cudagraph",
    }  # fmt: skip


@pytest.mark.parametrize("each", [harnesses.DO_BENCH, harnesses.DO_BENCH_CUDAGRAPH])
def test_triton_reports_means_and_decides_by_them(each: Harness) -> None:
    slow_once = (1.0,) * 9 + (1.2,)  # mean 1.02, median 1
    assert each.figure(slow_once) == pytest.approx(1.02)
    assert [how.decide(slow_once, (1.0,) * 10) for how in each.criteria] == [SLOWER]


PERCENT = Criterion(rules.more_than_a_percent(median), "a rule", "a source")


def made(name: str, measure: Callable[..., CallTimes], **more: Any) -> Harness:
    fields = {"clock": "latency", "figure": median, "criteria": (PERCENT,)}
    return Harness(name, "", differs="", measure=measure, **{**fields, **more})


def by_recipe(of: Side, seconds: float | None) -> CallTimes:
    return (1.0 + (of.recipe.longer or 0.0),)


def failing(of: Side, seconds: float | None) -> CallTimes:
    raise RuntimeError("out of luck")


def test_readings_alternate_with_ours() -> None:
    double = made("double", lambda of, seconds: (2 * of.call_s,))
    gpu = made("gpu", by_recipe, cuda=True)
    unlucky = made("unlucky", failing)
    shuffle = random.Random(0)
    result = list(alternations([double, gpu, unlucky], busy_side(), 3, shuffle, 0.001))
    assert len(result) == 9
    by_name = {name: [f for f in result if f.harness == name] for name in ("double", "gpu")}
    assert [figure.alternation for figure in by_name["double"]] == [0, 1, 2]
    assert all(figure.theirs_s == 2 * CALL_S for figure in by_name["double"])
    assert all(figure.ours_s >= CALL_S for figure in by_name["double"])
    assert all(0 < figure.ratio <= 2 for figure in by_name["double"])
    assert {figure.reason for figure in by_name["gpu"]} == {"needs a CUDA GPU"}
    reasons = {figure.reason for figure in result if figure.harness == "unlucky"}
    assert reasons == {"RuntimeError: out of luck"}


def test_every_harness_decides_every_pair() -> None:
    entries = [made("recipe", by_recipe), made("unlucky", failing), made("gpu", failing, cuda=True)]
    result = list(comparisons(entries, LOOP, Cpu(), 2, 0.01, (0, 1), random.Random(0)))
    assert len(result) == 2 * 3 * 3 * 2
    by_change = {
        change: {f.decision for f in result if f.harness == "recipe" and f.change == change}
        for change in (0.0, 0.01, 0.02)
    }
    # 30 us of python_loop: 1 % is 0.3 us, given as 0.0003
    assert by_change[0.0] == {SAME}
    assert all(f.case_s > f.baseline_s for f in result if f.harness == "recipe" and f.change)
    assert {(f.co_runners, f.trial) for f in result} == {(0, 0), (0, 1), (1, 0), (1, 1)}
    reasons = {(f.harness, f.reason) for f in result if f.decision is None}
    assert reasons == {("unlucky", "RuntimeError: out of luck"), ("gpu", "needs a CUDA GPU")}


def test_two_rules_of_a_harness_use_the_same_samples() -> None:
    pairs: list[tuple[Side, Side]] = []

    def together(
        case: Side, baseline: Side, seconds: float, shuffle: random.Random
    ) -> tuple[CallTimes, CallTimes]:
        pairs.append((case, baseline))
        return (1.0 + len(pairs) / 1000,), (1.0,)

    def always(case_s: CallTimes, baseline_s: CallTimes) -> str:
        return SLOWER

    both = (replace(PERCENT, name="a"), Criterion(always, "always", "made up", name="b"))
    two = made("two", by_recipe, criteria=both, together=together)
    result = list(comparisons([two], LOOP, Cpu(), 1, 0.01, (0,), random.Random(0)))
    assert len(pairs) == 1 + 3  # a rehearsal, then one for each change
    assert [(f.rule, f.decision) for f in result] == [("a", SAME), ("b", SLOWER)] * 3
    assert [f.case_s for f in result] == [1.002, 1.002, 1.003, 1.003, 1.004, 1.004]
    assert {f.harness for f in result} == {"two"}


def test_every_harness_has_its_own_pair() -> None:
    steps: list[Workload] = []

    def measure(of: Side, seconds: float | None) -> CallTimes:
        steps.append(of.step)
        return (1.0,)

    entries = [made("one", measure), made("other", measure)]
    assert len(list(comparisons(entries, LOOP, Cpu(), 1, 0.01, (0,), random.Random(0)))) == 6
    assert len({id(step) for step in steps}) == len(steps) == 2 * (2 + 6)


def test_the_memory_of_a_pair_is_placed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    moved: list[tuple[int, int]] = []

    def anew(tensors: list[torch.Tensor], device: Cpu, seed: int) -> Callable[[], None]:
        return lambda: moved.append((len(tensors), seed))

    monkeypatch.setattr("modescope.bench.timing.memory_layout.anew", anew)
    shuffle = random.Random(0)
    for _ in range(2):
        sides.pair(replace(LOOP, workload="matmul"), 0.0, Cpu(), shuffle)
    (first, seed), (second, other_seed) = moved
    assert first == second == 4  # two of either side
    assert seed != other_seed


@pytest.mark.parametrize(
    ("change", "decision", "kinds"),
    [
        (0.0, SAME, (False, False, False)),
        (0.0, FASTER, (True, False, False)),
        (0.0, SLOWER, (True, False, False)),
        (0.0, None, (False, False, False)),
        (0.01, SAME, (False, False, False)),
        (0.01, SLOWER, (False, True, False)),
        (0.01, FASTER, (False, False, True)),
    ],
)
def test_decisions_are_classified(
    change: float, decision: str | None, kinds: tuple[bool, bool, bool]
) -> None:
    result = Decision("x", 0, change, 0, decision)
    assert (result.alarm, result.detected, result.wrong) == kinds


def test_decisions_are_counted_per_load() -> None:
    one, gpu = made("one", by_recipe), made("gpu", by_recipe)
    decided = [(0.0, SAME), (0.0, FASTER), (0.01, FASTER), (0.01, SLOWER), (0.02, SLOWER)]
    compared = [
        *(Decision("one", 0, change, 0, word, 1.0, 1.0, 0.25) for change, word in decided),
        Decision("one", 2, 0.0, 0, SAME, 1.0, 1.0, 0.5),
        Decision("gpu", 0, 0.0, 0, reason="needs a CUDA GPU"),
    ]
    assert tables.decisions([one, gpu], compared).rows == [
        ["quiet", "one", "1 of 2", "1 of 2, 1 wrong", "1 of 1", "250 ms", "a rule"],
        ["quiet", "gpu", "needs a CUDA GPU", "–", "–", "–", "a rule"],
        ["2 co-runners", "one", "0 of 1", "–", "–", "500 ms", "a rule"],
        ["2 co-runners", "gpu", "–", "–", "–", "–", "a rule"],
    ]


def test_each_rule_of_a_harness_has_its_row() -> None:
    both = (replace(PERCENT, name="a"), replace(PERCENT, name="b", words="another"))
    compared = [
        Decision("two", 0, 0.0, 0, SAME, 1.0, 1.0, 0.25, rule="a"),
        Decision("two", 0, 0.0, 0, SLOWER, 1.0, 1.0, 0.25, rule="b"),
    ]
    section = tables.decisions([made("two", by_recipe, criteria=both)], compared)
    assert section.rows == [
        ["quiet", "two, a", "0 of 1", "–", "–", "250 ms", "a rule"],
        ["quiet", "two, b", "1 of 1", "–", "–", "250 ms", "another"],
    ]
    assert "a planted +1 % in about half of the trials at best" in section.note
    assert "counts here as a false alarm" in section.note


def test_readings_are_medians_of_alternations() -> None:
    one, gpu = made("one", by_recipe), made("gpu", by_recipe)
    readings = [
        *(
            Alternation("one", i, "latency", each, 1e-3)
            for i, each in enumerate((2e-3, 1e-3, 4e-3))
        ),
        Alternation("gpu", 0, "device", None, None, "needs a CUDA GPU"),
    ]
    assert tables.figures([one, gpu, made("absent", by_recipe)], readings).rows == [
        ["one", "2 ms", "latency", "1 ms", "2.000", "1.000 to 4.000"],
        ["gpu", "needs a CUDA GPU", "device", "–", "–", "–"],
    ]


QUICK = ["--trials", "1", "--alternations", "1", "--reading-s", "0.01", "--budget-s", "0.02"]
TWO = ["--only", "modescope,timeit", "--workload", "python_loop", "--device", "cpu"]


def files(folder: Path) -> tuple[str, list[dict[str, Any]]]:
    (page,) = folder.glob("peers/*.md")
    assert {path.suffix for path in folder.glob("peers/*")} == {".md", ".parquet"}
    return page.read_text(), pq.read_table(page.with_suffix(".parquet")).to_pylist()


def test_a_page_and_its_rows_are_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main([*QUICK, *TWO, "--results-dir", str(tmp_path)]) == 0
    page, rows = files(tmp_path)
    head = page.splitlines()[:6]
    assert head[0] == "# modescope and other harnesses"
    assert f"torch {torch.__version__}" in head[2]
    assert head[4] == "- workload python_loop, 0.02 s per comparison, seed 0"
    assert "--only modescope,timeit" in head[5]
    assert "| timeit | minimum of five means" in page
    assert [row["table"] for row in rows] == ["figure"] * 2 + ["decision"] * 9
    assert {row["harness"] for row in rows} == {"modescope", "timeit"}
    assert sorted(row["change"] for row in rows[2:]) == [0.0] * 3 + [0.01] * 3 + [0.02] * 3
    judged = {(row["harness"], row["rule"]) for row in rows[2:]}
    assert judged == {("modescope", "interval"), ("modescope", "verdict"), ("timeit", None)}
    assert {row["torch_version"] for row in rows} == {torch.__version__}
    assert {(row["workload"], row["budget_s"], row["seed"]) for row in rows} == {
        ("python_loop", 0.02, 0)
    }
    slope, mean = (row["theirs_s"] for row in rows[:2])
    assert math.isfinite(slope)  # see NO_SLOPES
    assert mean > 0
    assert all(row["decision"] is None for row in rows[:2])
    assert all(row["wall_s"] > 0 and row["clock"] is None for row in rows[2:])
    out = capsys.readouterr().out
    assert "Readings" in out
    assert "Decisions" in out


def test_results_before_ctrl_c_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*arguments: object) -> Iterator[Decision]:
        yield Decision("timeit", 0, 0.0, 0, SAME, 1.0, 1.0, 0.1)
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "comparisons", interrupted)
    words = [*QUICK, *TWO, "--alternations", "0", "--results-dir", str(tmp_path)]
    assert command.main(words) == 130
    assert "stopped after 0 readings and 1 comparisons: all saved" in capsys.readouterr().out
    _, rows = files(tmp_path)
    assert [row["decision"] for row in rows] == ["same"]
    assert rows[0]["theirs_s"] is None  # the column exists without any reading


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--trials", "-1"], "argument --trials: "),
        (["--trials", "1.5"], "1.5 is not a whole number of 0 or more"),
        (["--threads", "0"], "0 is not a whole number above 0"),
        (["--threads", "100000"], "--threads 100000: this process may use"),
        (["--budget-s", "0"], "0 is not a number of seconds above 0"),
        (["--budget-s", "nan"], "nan is not a number of seconds above 0"),
        (["--workload", "mlp"], "choose from"),
        (
            ["--only", "torch,perf"],
            "must be beginnings of these names: modescope; torch.utils.benchmark",
        ),
        (["--only", ""], "must be beginnings of"),
        (["--device", "tpu"], "device=tpu: allowed are auto, cpu"),
        (["--results-dir", "/proc/nowhere"], "--results-dir: /proc/nowhere/peers"),
        (["--fast"], "unrecognized arguments: --fast"),
    ],
)
def test_a_wrong_argument_is_one_sentence(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["--results-dir", str(tmp_path), *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err


def test_the_option_only_matches_beginnings_of_names(tmp_path: Path) -> None:
    requests = arguments.parse(["--only", "py,timeit", "--results-dir", str(tmp_path)], None)
    assert [each.name for each in requests.harnesses] == [
        "timeit", "pytest-benchmark, mean", "pytest-benchmark, min", "pyperf's way",
    ]  # fmt: skip
