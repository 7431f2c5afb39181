"""From a case to its result, without stand-ins, on tiny models with one fault each."""

from __future__ import annotations

import inspect
import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from modescope.bench.case import random_judge, runner
from modescope.bench.devices import devices
from modescope.bench.devices.devices import Cpu, Hardware, Step
from modescope.bench.records.cases import Case, Model, Variant
from modescope.bench.records.columns import Rounds
from modescope.bench.records.errors import UsageError
from modescope.bench.records.results import CACHE_FILLED, Result
from modescope.bench.steps import modes
from modescope.bench.steps.evidence import mode_effect
from modescope.bench.steps.evidence.mode_effect import Site, breaks_summary
from modescope.bench.steps.phase_interface import Deviation
from modescope.bench.steps.phases import output_check
from modescope.bench.steps.subject import Built
from modescope.bench.timing import comparison, contention, paired, timers
from modescope.bench.timing.comparison import WarmUp
from modescope.bench.timing.timers import Timing
from tests.helpers import probe_models
from tests.helpers.null_columns import NULL_ON_A_CPU, OF_COMPILED_MODES, nulls
from tests.helpers.probe_models import (
    EAGER,
    accumulates,
    broken,
    case,
    counts,
    endless_memory,
    ill_conditioned,
    linear,
    model,
    needs_gradients,
    nested,
    normalises,
    prints_within_cond,
    refuses_gradients,
    remembers,
    scaled,
    silent,
    skipped,
    smoke,
    too_large_for_fp16,
    variant,
    wordless,
    wrong_when_compiled,
)

pytestmark = pytest.mark.usefixtures("as_in_a_child", "restored_settings")

COMPILE = variant(grad="inference_mode", compile="default")
GRAPH = variant(grad="inference_mode", graph=True)
NO_GRAD = variant(grad="no_grad")

BREAK = Site(
    f"probe_models.py:{inspect.getsourcelines(probe_models._in_two)[1] + 2}",
    "Call to `torch._dynamo.graph_break()`",
)

WITHIN_COND = f"probe_models.py:{inspect.getsourcelines(probe_models._print_within_cond)[1] + 2}"


@pytest.fixture(autouse=True)
def _compiled_anew() -> Iterator[None]:
    yield
    torch.compiler.reset()


class Watch:
    """Everything that a run builds, examines, warms up and times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.built: list[Built] = []
        self.examined: list[Step] = []
        self.timed: tuple[Step, Step | None] | None = None
        self.before_warm_up: Callable[[], None] = lambda: None
        self.before_timing: Callable[[], None] = lambda: None
        build, deviation = modes.build, output_check.deviation
        warm_up = comparison.warm_up

        def watched_build(*arguments: Any) -> Built:
            self.built.append(build(*arguments))
            return self.built[-1]

        def watched(check: output_check.OutputCheck, subject: Any, step: Step) -> Deviation:
            self.examined.append(step)
            return deviation(check, subject, step)

        def watched_warm_up(*arguments: Any) -> WarmUp:
            self.before_warm_up()
            return warm_up(*arguments)

        def watched_paired(case: Step, baseline: Step | None, *others: Any) -> Rounds:
            self.timed = case, baseline
            self.before_timing()
            return paired.play_pairs(case, baseline, *others)

        monkeypatch.setattr(modes, "build", watched_build)
        monkeypatch.setattr(output_check, "deviation", watched)
        monkeypatch.setattr(comparison, "warm_up", watched_warm_up)
        monkeypatch.setattr(comparison, "play_pairs", watched_paired)

    @property
    def three(self) -> list[Built]:
        """The eager run that sets the accepted error, the candidate and the baseline."""
        return self.built[:3]

    @property
    def candidate(self) -> Built:
        return self.three[1]

    @property
    def baseline(self) -> Built:
        return self.three[2]


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    return Watch(monkeypatch)


def run(
    asked: Case,
    seed: int = 0,
    phases: list[str] | None = None,
    max_error: float | None = None,
) -> Result:
    def report(phase: str, keep: object = None) -> None:
        if phases is not None:
            phases.append(phase)

    return runner.run(report, asked, replace(smoke(seed), max_error=max_error))


@pytest.mark.parametrize("asked", [NO_GRAD, COMPILE], ids=["eager", "compiled"])
def test_an_ok_result_is_complete(asked: Variant) -> None:
    phases: list[str] = []
    result = run(case(model(linear), asked), phases=phases)
    assert (result.status, result.reason) == ("ok", None)
    found = result.findings
    to_know = {"dispatch_note", *OF_COMPILED_MODES} if asked is COMPILE else set()
    assert nulls(found) == NULL_ON_A_CPU - to_know
    assert found.in_effect is True
    assert found.in_effect_note is None
    assert found.error <= found.error_limit
    assert found.error_limit == pytest.approx(3 * found.eager_error + 1e-5)
    assert len(found.latency_rounds_s) == len(found.baseline_latency_rounds_s) >= 1
    assert len(found.case_ran_first) == len(found.latency_rounds_s)
    assert found.latency_calls_s
    assert found.recompiles == found.graph_launches == 0
    assert found.graph_breaks == (0 if asked is COMPILE else None)
    assert found.graphs == (asked is COMPILE)
    assert found.seen_grad == asked.mode.grad
    assert (found.seen_autocast, found.seen_weight_dtype) == ("none", "float32")
    assert min(found.first_call_s, found.baseline_first_call_s, found.empty_step_s) > 0
    assert found.empty_step_s < min(found.latency_calls_s)
    assert found.watched_s >= found.warmup_s + found.timed_s
    order = ["reference", "first call", "check", "baseline", "warm-up", "timing", "check again"]
    order += ["evidence", "clocks"]
    assert [phase for phase in phases if phase in order] == order


def test_without_a_baseline_only_the_case_is_timed(watch: Watch) -> None:
    result = run(case(model(scaled), NO_GRAD, baseline=None))
    assert result.status == "ok"
    assert watch.timed == (watch.candidate.step, None)
    assert nulls(result.findings) - NULL_ON_A_CPU == {
        "baseline_error",
        "baseline_error_limit",
        "baseline_first_call_s",
        "baseline_latency_rounds_s",
        "baseline_dispatch_rounds_s",
        "case_ran_first",
    }


@pytest.mark.parametrize(
    ("asked", "note"),
    [
        pytest.param(
            variant(compile="reduce-overhead"), "CUDA graphs need a GPU", marks=pytest.mark.full
        ),
        (variant(compile="max-autotune"), "autotuning had nothing to choose between"),
    ],
    ids=lambda value: value.mode.compile if isinstance(value, Variant) else "",
)
def test_modes_a_cpu_cannot_provide_are_not_in_effect(asked: Variant, note: str) -> None:
    result = run(case(model(scaled), asked, baseline=None))
    assert result.status == "ok"
    assert result.findings.in_effect is False
    assert note in result.findings.in_effect_note


def test_what_tunes_nothing_repeats_another_mode_of_its_sweep() -> None:
    plan = replace(smoke(), untuned="compile")
    result = runner.run(silent, case(model(scaled), variant(compile="max-autotune")), plan)
    assert result.status == "skipped"
    assert result.reason is not None
    assert "would measure the kernels of mode=compile again" in result.reason
    assert result.findings.first_call_s > 0
    assert result.findings.latency_rounds_s is None


@pytest.mark.full
def test_a_first_call_that_fills_the_cache_ends_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    plan = replace(smoke(), fills_cache=True)
    first, second = (runner.run(silent, case(model(scaled), COMPILE), plan) for _ in range(2))
    assert (first.status, first.findings.latency_rounds_s) == (CACHE_FILLED, None)
    assert first.findings.compiler_cache_misses == 1
    assert second.status == "ok"


@pytest.mark.parametrize("asked", [NO_GRAD, COMPILE], ids=["eager", "compiled"])
def test_the_timed_step_is_the_checked_step(asked: Variant, watch: Watch) -> None:
    run(case(model(scaled), asked))
    eager, candidate, baseline = watch.three
    assert watch.examined == [eager.step, candidate.step, baseline.step, candidate.step]
    assert watch.timed == (candidate.step, baseline.step)
    assert candidate.step is not baseline.step


def test_every_built_variant_reads_its_own_inputs(watch: Watch) -> None:
    run(case(model(scaled), COMPILE))
    for built in watch.three:
        before = torch.as_tensor(built.step()).clone()
        built.subject.inputs.assign(built.subject.inputs.map(lambda tensor: 2 * tensor))
        torch.testing.assert_close(torch.as_tensor(built.step()), 2 * before)


def test_each_variant_is_built_as_asked(watch: Watch) -> None:
    """Under autocast: weights stay fp32 in both, and the baseline computes in fp32."""
    asked = case(model(linear), variant("bf16", autocast=True, grad="no_grad"))
    found = run(asked).findings
    assert (found.seen_grad, found.seen_autocast) == ("no_grad", "bfloat16")
    assert found.seen_weight_dtype == "float32"
    assert [torch.as_tensor(built.step()).dtype for built in watch.three] == [
        torch.bfloat16,
        torch.bfloat16,
        torch.float32,
    ]
    assert not torch.as_tensor(watch.candidate.step()).requires_grad
    assert torch.as_tensor(watch.baseline.step()).requires_grad
    for built in watch.three:
        assert {p.dtype for p in built.subject.module.parameters()} == {torch.float32}
    assert found.error > 1e-4
    assert found.baseline_error < 1e-6


def test_a_low_precision_baseline_is_cast(watch: Watch) -> None:
    found = run(case(model(linear), variant("bf16"), Variant(EAGER, "bf16"))).findings
    assert found.seen_weight_dtype == "bfloat16"
    for built in watch.three:
        assert {p.dtype for p in built.subject.module.parameters()} == {torch.bfloat16}


@pytest.mark.full
def test_a_model_wrong_only_when_compiled_is_a_wrong_result(watch: Watch) -> None:
    result = run(case(model(wrong_when_compiled), COMPILE))
    assert result.status == "wrong_result"
    found = result.findings
    assert result.reason.startswith(
        f"relative error {found.error:.2g} against float64 in output, "
        f"eager's is {found.eager_error:.2g} at fp32; "
        f"accepted is {found.error_limit:.2g}; check whether seed=1 "
    )
    assert result.findings.error > 0.1 > result.findings.error_limit
    assert result.findings.eager_error < 1e-6
    assert result.findings.latency_rounds_s is None
    assert watch.timed is None


def test_a_model_wrong_in_eager_is_not_judged(watch: Watch) -> None:
    result = run(case(model(too_large_for_fp16), variant("fp16"), Variant(EAGER, "fp16")))
    assert result.status == "wrong_result"
    assert result.reason.startswith("even eager at fp16 has a relative error of inf")
    assert watch.timed is None


ACCEPTED = re.compile(r"accept the error with max_error=(\S+) \(docs/\S+#a-wrong-result\)$")


def test_max_error_accepts_the_error_that_the_reason_names(watch: Watch) -> None:
    refused = run(case(model(wrong_when_compiled), COMPILE))
    number = float(ACCEPTED.search(refused.reason)[1])
    result = run(case(model(wrong_when_compiled), COMPILE), max_error=number)
    assert (result.status, result.reason) == ("ok", None)
    found = result.findings
    assert found.error_limit < found.error <= number < 1.2 * found.error
    assert found.error_limit == refused.findings.error_limit
    assert found.latency_rounds_s
    assert watch.timed is not None


def test_an_error_above_max_error_is_a_wrong_result(watch: Watch) -> None:
    result = run(case(model(wrong_when_compiled), COMPILE), max_error=1e-3)
    assert result.status == "wrong_result"
    assert "; accepted is 0.001; " in result.reason
    assert watch.timed is None


def test_a_max_error_below_the_limit_changes_nothing() -> None:
    result = run(case(model(linear), variant("bf16")), max_error=1e-9)
    assert result.status == "ok"
    assert 1e-9 < result.findings.error <= result.findings.error_limit


def test_max_error_can_accept_a_model_wrong_in_eager(watch: Watch) -> None:
    asked = case(model(ill_conditioned), variant("bf16"), Variant(EAGER, "bf16"))
    refused = run(asked)
    assert refused.status == "wrong_result"
    assert refused.reason.startswith("even eager at bf16 has a relative error of ")
    assert refused.findings.error_limit == 0
    assert watch.timed is None
    number = float(ACCEPTED.search(refused.reason)[1])
    assert run(asked, max_error=number / 10).reason == refused.reason
    result = run(asked, max_error=number)
    assert (result.status, result.reason) == ("ok", None)
    assert result.findings.error_limit == 0
    assert result.findings.baseline_latency_rounds_s, "the baseline's error is accepted as well"


def test_nan_cannot_be_accepted() -> None:
    asked = case(model(too_large_for_fp16), variant("fp16"), Variant(EAGER, "fp16"))
    result = run(asked, max_error=1e9)
    assert result.status == "wrong_result"
    assert "max_error" not in result.reason


def test_a_wrong_baseline_is_flagged_and_not_timed(watch: Watch) -> None:
    result = run(case(model(too_large_for_fp16), NO_GRAD, Variant(EAGER, "fp16")))
    assert result.status == "ok"
    assert "baseline_wrong" in result.findings.flags
    assert result.findings.baseline_error == float("inf")
    assert result.findings.latency_rounds_s
    assert result.findings.baseline_latency_rounds_s is None
    assert watch.timed == (watch.candidate.step, None)


def test_a_model_without_results_is_not_timed(watch: Watch) -> None:
    result = run(case(model(wordless), NO_GRAD))
    assert result.status == "failed"
    assert "str" in (result.reason or "")
    assert result.findings.unchecked_outputs == "output (str)"
    assert watch.built == []


def test_a_model_with_all_kinds_of_arguments_and_outputs_is_measured() -> None:
    result = run(case(model(nested), NO_GRAD))
    assert (result.status, result.reason) == ("ok", None)
    left_out = "['kept'] (Kept), ['ids'] (int64, beside floating outputs)"
    assert result.findings.unchecked_outputs == left_out
    assert result.findings.dispatch_rounds_s


def storages(built: Built) -> set[int]:
    module = built.subject.module
    tensors = [*module.parameters(), *module.buffers(), *built.subject.inputs.tensors()]
    return {tensor.untyped_storage().data_ptr() for tensor in tensors}


@pytest.mark.parametrize("build", [normalises, counts])
def test_case_and_baseline_share_nothing(build: Any, watch: Watch) -> None:
    assert run(case(model(build), NO_GRAD)).status == "ok"
    assert not storages(watch.candidate) & storages(watch.baseline)
    assert watch.candidate.subject.module is not watch.baseline.subject.module
    ours, theirs = (
        [*built.subject.module.parameters(), *built.subject.inputs.tensors()]
        for built in (watch.candidate, watch.baseline)
    )
    assert len(ours) == len(theirs) == 2
    assert all(map(torch.equal, ours, theirs))


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(NO_GRAD, id="eager"),
        pytest.param(COMPILE, id="compiled", marks=pytest.mark.full),
    ],
)
@pytest.mark.parametrize("in_place", [True, False], ids=["in place", "replaced"])
def test_a_model_with_state_is_checked_and_timed_from_its_start(
    asked: Variant, in_place: bool, watch: Watch
) -> None:
    """First calls, captures and checks restore it; each variant then counts its own calls."""
    seen: list[float] = []

    def states() -> list[float]:
        pair = (watch.candidate, watch.baseline)
        return [float(each.subject.module.get_buffer("calls")) for each in pair]

    watch.before_warm_up = lambda: seen.extend(states())
    result = run(case(model(counts, in_place=in_place), asked))
    assert (result.status, result.reason) == ("ok", None)
    assert seen == [1.0, 1.0]
    ours, theirs = states()
    watch.candidate.step()
    assert states() == [ours + 1, theirs]


@pytest.mark.full
def test_a_compilation_while_timing_fails_the_case(watch: Watch) -> None:
    def change() -> None:
        watch.candidate.subject.module.number = 1  # type: ignore[assignment]

    watch.before_timing = change
    result = run(case(model(remembers), COMPILE))
    assert result.status == "failed"
    assert result.reason is not None
    counted, _, why = result.reason.partition(" timed: ")
    assert counted == "torch compiled 1 more time(s) while the case was"
    assert "number" in why
    assert result.findings.recompiles == 1
    assert result.findings.recompile_reasons is not None
    assert json.loads(result.findings.recompile_reasons) == [why]
    assert result.findings.latency_rounds_s


@pytest.mark.full
@pytest.mark.parametrize("fullgraph", [True, False])
def test_a_model_that_is_compiled_at_every_call_never_counts_as_compiled(fullgraph: bool) -> None:
    """Past its limit torch would silently continue in eager where breaks are allowed."""
    asked = model(remembers, fullgraph, counting=True)
    plan = smoke()
    patient = replace(plan, budget=replace(plan.budget, warmup_min_s=0.02, warmup_max_s=1.0))
    result = runner.run(silent, case(asked, COMPILE), patient)
    limit = torch._dynamo.config.recompile_limit
    assert result.status == "failed"
    assert result.reason.startswith(
        "torch.compile compiled the same code again and again and gave up at its limit "
        f"(recompile_limit={limit}), where torch by default goes on in eager; its last reason: "
    )
    last = result.reason.partition("its last reason: ")[2].partition("; keep a value")[0]
    assert "number" in last
    assert "HINT" not in last


@pytest.mark.full
def test_graph_breaks_are_counted_where_allowed() -> None:
    result = run(case(model(broken, fullgraph=False), COMPILE))
    assert result.status == "ok"
    found = result.findings
    assert (found.graph_breaks, found.graphs, found.eager_functions) == (1, 2, "[]")
    assert json.loads(found.graph_break_reasons) == [{"place": BREAK.place, "reason": BREAK.reason}]
    assert found.in_effect_note == f"compiled in pieces around {breaks_summary([BREAK])}"


def test_a_graph_break_fails_the_case_where_not_allowed() -> None:
    result = run(case(model(broken), COMPILE))
    assert result.status == "failed"
    assert result.reason == (
        f"torch.compile cannot trace the whole model: {breaks_summary([BREAK])}; "
        "model.fullgraph=false allows graph breaks and counts them"
    )


@pytest.mark.parametrize("fullgraph", [True, False])
def test_a_model_that_cannot_be_traced_fails_even_with_breaks_allowed(fullgraph: bool) -> None:
    result = run(case(model(prints_within_cond, fullgraph), COMPILE))
    assert result.status == "failed"
    told = "torch.compile cannot trace the model, and cannot break its graph there: "
    assert f"fails in plain eager, before any mode is tried: {told}" in result.reason
    assert result.reason.endswith(f"Failed to trace builtin operator at {WITHIN_COND}")


def test_without_compiling_the_count_of_breaks_is_null() -> None:
    """Nothing was traced; a count of 0 would mean that it was compiled as a whole."""
    found = run(case(model(skipped, fullgraph=False), COMPILE)).findings
    assert (found.in_effect, found.in_effect_note) == (False, "torch.compile compiled nothing")
    reported = (found.graph_breaks, found.graph_break_reasons, found.eager_functions)
    assert reported == (None, None, None)


def test_there_is_no_speedup_against_a_baseline_that_was_not_in_effect() -> None:
    """On a CPU, reduce-overhead is compile=default under another name."""
    against = variant(grad="inference_mode", compile="reduce-overhead")
    found = run(case(model(scaled), NO_GRAD, baseline=against)).findings
    assert found.in_effect is True
    assert found.latency_rounds_s
    assert found.baseline_latency_rounds_s is None
    assert found.case_ran_first is None
    assert found.dispatch_rounds_s
    assert found.baseline_dispatch_rounds_s is None
    assert found.baseline_first_call_s is None  # it compiles: its caches were not cold
    assert "baseline_not_in_effect" in found.flags  # a smoke run may not be steady, too


def test_convolutions_use_tf32_only_with_dtype_tf32(watch: Watch) -> None:
    before = torch.backends.cudnn.allow_tf32
    try:
        run(case(model(scaled), NO_GRAD))
        assert torch.backends.cudnn.allow_tf32 is False
    finally:
        torch.backends.cudnn.allow_tf32 = before


def test_results_are_sent_before_the_empty_batch_is_tried() -> None:
    kept: dict[str, object] = {}

    def report(phase: str, keep: object = None) -> None:
        kept[phase] = keep

    result = runner.run(report, case(model(scaled), NO_GRAD), smoke())
    left = kept["clocks"]
    assert isinstance(left, Result)
    assert left.status == "ok"
    assert left.findings.latency_rounds_s is not None
    assert left.findings.in_effect is True
    assert left.findings.dispatch_rounds_s is None
    assert result.findings.dispatch_rounds_s is not None


@pytest.mark.parametrize("steady", [True, False])
def test_warm_up_without_end_is_flagged(steady: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        comparison, "warm_up", lambda steps, *others: WarmUp(0.25, steady, (1e-5,) * len(steps))
    )
    found = run(case(model(scaled), NO_GRAD)).findings
    assert found.warmup_s == 0.25
    assert ("no_steady_state" in found.flags) is not steady


def test_the_machine_is_watched_from_warm_up_to_the_last_paired_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither the first compilation nor that of the empty batch, which keep every core busy."""
    phases: list[str] = []
    counted: list[str] = []
    sampled: list[str] = []
    read, sample = contention.read, devices.read_conditions

    def watched_read() -> contention.Counters:
        counted.append(phases[-1])
        return read()

    def watched_sample(device: Hardware) -> devices.Conditions:
        sampled.append(phases[-1])
        return sample(device)

    monkeypatch.setattr(contention, "read", watched_read)
    monkeypatch.setattr(devices, "read_conditions", watched_sample)
    run(case(model(scaled), COMPILE), phases=phases)
    assert counted == ["baseline", "timing"]
    assert sampled == ["baseline", "timing"]


class Heated(Cpu):
    """A CPU with a GPU's readings, slower and with more processes at each reading."""

    def __init__(self) -> None:
        self.clocks_hz = iter([2e9, 1.9e9])
        self.counts = iter([5, 6])
        self.neighbours = iter([0, 2])

    def clock_hz(self) -> float:
        return next(self.clocks_hz)

    def slowdowns(self) -> dict[str, int]:
        return {"cpu_thermal": next(self.counts)}

    def other_processes(self) -> int:
        return next(self.neighbours)


def test_readings_of_the_device_are_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Heated()
    monkeypatch.setattr(runner, "find", lambda name: device)
    found = run(case(model(scaled), NO_GRAD)).findings
    assert found.device_clock_hz == (2e9, 1.9e9)
    assert found.throttle_reasons == ("cpu_thermal",)
    assert found.gpu_processes == 2


class Watched(Cpu):
    """A CPU whose clock notes how many graphs were compiled at each reading, and which captures.

    A capture takes five seconds of its time.
    """

    def __init__(self, replays: bool) -> None:
        self.replays = replays
        self.skipped_s = 0.0
        self.readings: list[tuple[float, int]] = []
        self.clock = self.read

    def read(self) -> float:
        now = time.perf_counter() + self.skipped_s
        self.readings.append((now, mode_effect.read_compiled().graphs))
        return now

    def capture(self, step: Step) -> Step:
        self.skipped_s += 5.0
        output = step()
        return step if self.replays else lambda: output


def watched(monkeypatch: pytest.MonkeyPatch, replays: bool = True) -> Watched:
    device = Watched(replays)
    monkeypatch.setattr(runner, "find", lambda name: device)
    return device


@pytest.mark.full
def test_the_first_call_includes_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    device = watched(monkeypatch)
    result = run(case(model(scaled), COMPILE))
    compiling_s = [
        later[0] - earlier[0]
        for earlier, later in zip(device.readings, device.readings[1:], strict=False)
        if later[1] > earlier[1]
    ]
    first_s = result.findings.first_call_s
    assert 0.5 * first_s < compiling_s[0] <= first_s


def test_the_first_call_includes_the_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    watched(monkeypatch)
    result = run(case(model(scaled), GRAPH))
    assert result.status == "ok"
    assert result.findings.first_call_s > 5
    assert result.findings.baseline_first_call_s < 5
    assert result.findings.in_effect is False  # no graph was launched


def test_a_replay_that_ignores_its_inputs_is_a_wrong_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watched(monkeypatch, replays=False)
    assert run(case(model(scaled), GRAPH)).status == "wrong_result"


def test_a_result_that_is_not_a_number_is_a_wrong_result(
    monkeypatch: pytest.MonkeyPatch, watch: Watch
) -> None:
    """Eager is right and only the replay gives nan, which no comparison with a limit finds."""
    device = watched(monkeypatch)
    monkeypatch.setattr(
        device, "capture", lambda step: lambda: torch.as_tensor(step()) * float("nan")
    )
    result = run(case(model(scaled), GRAPH))
    assert result.status == "wrong_result"
    assert result.reason.startswith("relative error nan against float64")
    assert result.findings.eager_error < 1e-6
    assert watch.timed is None


def test_seed_decides_weights_inputs_and_error(watch: Watch) -> None:
    asked = case(model(linear), variant("bf16"), baseline=None)
    errors: list[float] = []
    drawn: list[list[torch.Tensor]] = []
    for seed in (1, 1, 2):
        watch.built.clear()
        errors.append(run(asked, seed).findings.error)
        subject = watch.candidate.subject
        drawn.append([subject.module.get_parameter("weight"), subject.inputs.args[0]])
    assert errors[0] == errors[1] != errors[2]
    for first, same, other in zip(*drawn, strict=True):
        assert torch.equal(first, same)
        assert not torch.equal(first, other)


def test_each_replicate_draws_an_order_of_its_own() -> None:
    plan = smoke()
    rounds_12 = replace(plan.budget, pilot_rounds=12, min_rounds=12, max_rounds=12, timed_max_s=9.0)
    orders = [
        runner.run(
            silent, case(model(scaled), NO_GRAD), replace(plan, budget=rounds_12, replicate=number)
        ).findings.case_ran_first
        for number in (0, 0, 1)
    ]
    assert len(orders[0]) == 12
    assert orders[0] == orders[1] != orders[2]


def test_each_replicate_reads_its_clocks_in_an_order_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = smoke()
    many = replace(plan.budget, clock_rounds=12, timed_max_s=9.0)
    asked: list[str] = []
    for name in ("host", "pipelined"):
        monkeypatch.setattr(timers, name, _noted(asked, name))
    orders = []
    for number in (0, 0, 1):
        asked.clear()
        runner.run(
            silent, case(model(scaled), NO_GRAD), replace(plan, budget=many, replicate=number)
        )
        orders.append(asked[:24])
    assert sorted(orders[0]) == ["host"] * 12 + ["pipelined"] * 12
    assert orders[0] == orders[1] != orders[2]


def _noted(asked: list[str], name: str) -> Callable[..., Timing]:
    """The timer of `bench.timing.timers`, which records its calls."""
    timer = getattr(timers, name)

    def noting(*arguments: Any) -> Timing:
        asked.append(name)
        timing: Timing = timer(*arguments)
        return timing

    return noting


@pytest.mark.parametrize(
    ("dtype", "precision"), [("fp32", "highest"), ("tf32", "high"), ("bf16", "highest")]
)
def test_matmul_precision_is_set_from_the_dtype(dtype: str, precision: str) -> None:
    torch.set_float32_matmul_precision("medium")
    found = run(case(model(linear), variant(dtype), baseline=None)).findings
    assert found.matmul_precision == torch.get_float32_matmul_precision() == precision


@pytest.mark.parametrize("threads", [1, 2])
def test_the_number_of_threads_is_set(threads: int) -> None:
    run(replace(case(model(scaled), NO_GRAD), threads=threads))
    assert torch.get_num_threads() == threads


def test_a_failed_allocation_is_status_oom() -> None:
    result = run(case(model(endless_memory), NO_GRAD))
    assert result.status == "oom"
    assert result.reason.startswith("RuntimeError: ")
    assert "\n" not in result.reason


def failing(error: Exception) -> Callable[..., Result]:
    def measure(*arguments: Any) -> Result:
        raise error

    return measure


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError("CUDA error: out of memory"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes."),
    ],
    ids=lambda error: str(error)[:24],
)
def test_every_out_of_memory_error_is_recognised(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_measure", failing(error))
    assert run(case(model(scaled), NO_GRAD)).status == "oom"


@pytest.mark.parametrize(
    "error", [RuntimeError("shapes do not match"), TypeError("no"), UsageError("yours")]
)
def test_other_errors_pass_through(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_measure", failing(error))
    with pytest.raises(type(error), match=str(error)):
        run(case(model(scaled), NO_GRAD))


def test_a_forward_that_needs_gradients_is_measured_with_them_alone() -> None:
    plain = run(case(model(needs_gradients), variant()))
    assert (plain.status, plain.findings.checked) == ("ok", "exact")
    for asked in (NO_GRAD, COMPILE):
        failed = run(case(model(needs_gradients), asked))
        assert failed.status == "failed"
        assert "does not require grad" in failed.reason, "torch's reason"
        assert "mode.grad=enabled" in failed.reason


def test_a_baseline_that_fails_is_named_as_what_failed() -> None:
    failed = run(case(model(refuses_gradients), NO_GRAD, Variant(EAGER, "fp32")))
    assert failed.status == "failed"
    assert failed.reason.startswith("the baseline eager fails")
    assert "baseline.mode=none" in failed.reason
    alone = run(replace(case(model(refuses_gradients), NO_GRAD), baseline=None))
    assert (alone.status, alone.findings.checked) == ("ok", "exact")


def test_results_that_depend_on_earlier_calls_are_measured_and_not_checked() -> None:
    result = run(case(model(accumulates), NO_GRAD, Variant(EAGER, "fp32")))
    found = result.findings
    assert (result.status, found.checked, found.checked_note) == ("ok", "not", random_judge.DEPENDS)
    assert (found.error, found.checked_inputs, found.checked_against) == (None, None, None)
    assert found.latency_rounds_s
    assert found.baseline_latency_rounds_s


def test_a_model_that_cannot_be_built_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no_such_package"):
        run(case(Model("custom:no_such_package:build", "no_such_package:build"), NO_GRAD))


def test_a_result_that_turns_wrong_while_timed_is_a_wrong_result(watch: Watch) -> None:
    def spoil() -> None:
        with torch.no_grad():
            next(watch.candidate.subject.module.parameters()).mul_(1.5)

    watch.before_timing = spoil
    result = run(case(model(scaled), NO_GRAD))
    assert result.status == "wrong_result"
    assert result.findings.error > result.findings.error_limit
