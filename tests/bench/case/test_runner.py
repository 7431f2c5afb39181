"""From a case to its result, without stand-ins, on tiny models with one fault each."""

from __future__ import annotations

import inspect
import json
import math
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor

from modescope.bench.case import runner
from modescope.bench.case.first_call import Contender
from modescope.bench.devices.devices import Cpu, Step
from modescope.bench.records.cases import Case, Model, Variant
from modescope.bench.records.errors import Progress, UsageError
from modescope.bench.records.results import CACHE_FILLED, Result
from modescope.bench.steps.evidence import mode_effect
from modescope.bench.steps.subject import Built
from modescope.bench.timing import comparison, paired
from modescope.bench.timing.comparison import WarmUp
from tests.helpers import probe_models
from tests.helpers.probe_models import (
    EAGER,
    WIDTH,
    Applies,
    accumulates,
    broken,
    case,
    counts,
    linear,
    model,
    needs_gradients,
    nested,
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
)
from tests.helpers.watched_runs import Watch

pytestmark = pytest.mark.usefixtures("as_in_a_child", "restored_settings")

NO_GRAD, INFERENCE = variant(grad="no_grad"), variant(grad="inference_mode")
COMPILE = variant(grad="inference_mode", compile="default")
GRAPH = variant(grad="inference_mode", graph=True)
AMP = variant("bf16", autocast=True, grad="no_grad")
BF16, FP16 = (Variant(EAGER, dtype) for dtype in ("bf16", "fp16"))

BREAK = f"probe_models.py:{inspect.getsourcelines(probe_models._in_two)[1] + 2}"
WITHIN_COND = f"probe_models.py:{inspect.getsourcelines(probe_models._print_within_cond)[1] + 2}"


@pytest.fixture(autouse=True)
def _compiled_anew() -> Iterator[None]:
    yield
    torch.compiler.reset()


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    return Watch(monkeypatch)


def run(
    asked: Case, seed: int = 0, max_error: float | None = None, progress: Progress = silent
) -> Result:
    return runner.run(progress, asked, replace(smoke(seed), max_error=max_error))


@pytest.mark.parametrize("asked", [NO_GRAD, COMPILE], ids=["eager", "compiled"])
def test_an_ok_result_is_complete_and_of_the_checked_steps(asked: Variant, watch: Watch) -> None:
    kept: dict[str, Any] = {}

    def report(phase: str, keep: object = None) -> None:
        kept.setdefault(phase, keep)

    result = run(case(model(linear), asked), progress=report)
    assert (result.status, result.reason) == ("ok", None)
    watch.assert_the_checked_steps_are_timed()
    order = ["reference", "first call", "check", "baseline", "warm-up", "timing", "check again"]
    order += ["evidence", "clocks"]
    assert [phase for phase in kept if phase in order] == order

    found, compiles = result.findings, asked is COMPILE
    seen = (found.seen_grad, found.seen_autocast, found.seen_weight_dtype)
    assert seen == (asked.mode.grad, "none", "float32")
    assert (found.in_effect, found.in_effect_note, found.checked) == (True, None, "exact")
    assert (found.graphs, found.graph_breaks) == ((1, 0) if compiles else (0, None))
    assert (found.recompiles, found.graph_launches, found.matmul_precision) == (0, 0, "highest")
    assert found.error <= found.error_limit
    assert found.error_limit == pytest.approx(3 * found.eager_error + 1e-5)
    rounds = (found.latency_rounds_s, found.baseline_latency_rounds_s, found.case_ran_first)
    assert rounds[0]
    assert len({len(each) for each in rounds}) == 1
    assert 0 < found.synchronize_s < min(found.latency_calls_s)
    assert min(found.first_call_s, found.baseline_first_call_s) > 0
    assert not compiles or found.first_call_s > 200 * min(found.latency_calls_s)
    assert found.watched_s >= found.warmup_s + found.timed_s
    assert found.dispatch_rounds_s is not None
    before_clocks = kept["clocks"].findings
    assert (before_clocks.in_effect, before_clocks.dispatch_rounds_s) == (True, None)
    assert before_clocks.latency_rounds_s == found.latency_rounds_s


def test_times_are_kept_where_the_evidence_of_a_graph_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is taken last, by the profiler."""
    kept: dict[str, Any] = {}

    def report(phase: str, keep: object = None) -> None:
        kept[phase] = keep

    def fail(*_: object) -> None:
        raise RuntimeError("no trace")

    monkeypatch.setattr(Contender, "replays_graphs", lambda self, device: True)
    monkeypatch.setattr(runner, "_prove", fail)
    result = run(case(model(scaled), NO_GRAD), progress=report)
    found, before = result.findings, kept["evidence"]
    assert (result.status, found.in_effect) == ("ok", None)
    assert "no trace" in found.in_effect_note
    assert found.dispatch_rounds_s is not None
    assert before.findings.dispatch_rounds_s == found.dispatch_rounds_s
    assert "in_effect_note" in before.lost


def test_without_a_baseline_only_the_case_is_timed(watch: Watch) -> None:
    result = run(case(model(scaled), NO_GRAD, baseline=None))
    found = result.findings
    assert (result.status, watch.timed) == ("ok", (watch.candidate.step, None))
    assert found.latency_rounds_s
    assert found.dispatch_rounds_s
    assert (found.baseline_latency_rounds_s, found.case_ran_first) == (None, None)
    assert (found.baseline_error, found.baseline_dispatch_rounds_s) == (None, None)


@pytest.mark.full
def test_what_tunes_nothing_repeats_another_mode_of_its_sweep() -> None:
    plan = replace(smoke(), untuned="compile")
    result = runner.run(silent, case(model(scaled), variant(compile="max-autotune")), plan)
    assert result.status == "skipped"
    assert "mode=compile " in (result.reason or "")
    assert result.findings.first_call_s > 0
    assert result.findings.latency_rounds_s is None


@pytest.mark.full
def test_a_first_call_that_fills_the_cache_ends_there(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    plan = replace(smoke(), fills_cache=True)
    first, second = (runner.run(silent, case(model(scaled), COMPILE), plan) for _ in range(2))
    assert (first.status, first.findings.latency_rounds_s) == (CACHE_FILLED, None)
    assert first.findings.compiler_cache_misses == 1
    assert second.status == "ok"


def test_each_variant_is_built_as_asked(watch: Watch) -> None:
    found = run(case(model(linear), AMP, Variant(EAGER, "fp32"))).findings
    seen = (found.seen_grad, found.seen_autocast, found.seen_weight_dtype)
    assert seen == ("no_grad", "bfloat16", "float32")
    outputs = [torch.as_tensor(each.step()) for each in watch.built[:3]]
    assert [each.dtype for each in outputs] == [torch.bfloat16, torch.bfloat16, torch.float32]
    assert [each.requires_grad for each in outputs[1:]] == [False, True]
    assert found.error > 1e-4 > found.baseline_error
    found = run(case(model(linear), BF16, BF16)).findings
    assert (found.seen_autocast, found.seen_weight_dtype) == ("none", "bfloat16")
    assert min(found.error, found.baseline_error) > 1e-4


@pytest.mark.parametrize(
    ("asked", "in_place"),
    [(NO_GRAD, True), (NO_GRAD, False), pytest.param(COMPILE, True, marks=pytest.mark.full)],
)
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
    for one, other in zip(*map(_given, (watch.candidate, watch.baseline)), strict=True):
        assert torch.equal(one, other)
        assert one.data_ptr() != other.data_ptr()


def _given(built: Built) -> list[Tensor]:
    return [*built.subject.module.parameters(), *built.subject.inputs.tensors()]


# Correctness


def wrong_in_inference_mode() -> probe_models.Built:
    wrong = Applies(lambda weight, x: weight * x + float(torch.is_inference_mode_enabled()))
    return wrong, (torch.randn(2, WIDTH),)


def test_an_error_beyond_its_limit_is_a_wrong_result_unless_the_user_accepts_it(
    watch: Watch,
) -> None:
    target = f"{__name__}:{wrong_in_inference_mode.__name__}"
    asked = case(Model(f"custom:{target}", target), INFERENCE)
    refused = run(asked)
    found = refused.findings
    assert (refused.status, found.latency_rounds_s, watch.timed) == ("wrong_result", None, None)
    assert found.eager_error < 1e-6 < found.error_limit < 0.1 < found.error
    accepts = re.search(r"accept the error with max_error=(\S+) ", refused.reason or "")
    assert accepts
    accepted = run(asked, max_error=float(accepts[1]))
    assert (accepted.status, accepted.findings.error) == ("ok", found.error)
    assert accepted.findings.latency_rounds_s


def test_a_wrong_baseline_is_flagged_and_not_timed(watch: Watch) -> None:
    result = run(case(model(too_large_for_fp16), NO_GRAD, FP16))
    assert result.status == "ok"
    assert "baseline_wrong" in result.findings.flags
    assert result.findings.baseline_error == float("inf")
    assert result.findings.latency_rounds_s
    assert result.findings.baseline_latency_rounds_s is None
    assert watch.timed == (watch.candidate.step, None)


def test_a_result_that_turns_wrong_while_timed_is_a_wrong_result(watch: Watch) -> None:
    def spoil() -> None:
        with torch.no_grad():
            next(watch.candidate.subject.module.parameters()).mul_(1.5)

    watch.before_timing = spoil
    result = run(case(model(scaled), NO_GRAD))
    assert result.status == "wrong_result"
    assert result.findings.error > result.findings.error_limit


class Captures(Cpu):
    """Captures a step within five seconds of its clock."""

    def __init__(self, replay: Callable[[Step], Step]) -> None:
        self.replay, self.skipped_s = replay, 0.0
        self.clock = lambda: time.perf_counter() + self.skipped_s

    def capture(self, step: Step) -> Step:
        self.skipped_s += 5.0
        return self.replay(step)


def _stale(step: Step) -> Step:
    output = step()
    return lambda: output


@pytest.mark.parametrize(
    ("replay", "status"), [(lambda step: step, "ok"), (_stale, "wrong_result")]
)
def test_the_first_call_includes_the_capture_and_the_replay_is_checked(
    replay: Callable[[Step], Step], status: str, monkeypatch: pytest.MonkeyPatch, watch: Watch
) -> None:
    monkeypatch.setattr(runner, "find", lambda name: Captures(replay))
    result = run(case(model(scaled), GRAPH))
    found = result.findings
    assert result.status == status
    assert found.first_call_s > 5
    assert (watch.timed is None) is (status != "ok")
    if status == "ok":
        assert found.baseline_first_call_s < 5
        assert found.in_effect is False, "no graph was launched"


def test_a_model_without_results_is_not_timed(watch: Watch) -> None:
    result = run(case(model(wordless), NO_GRAD))
    assert (result.status, result.findings.unchecked_outputs) == ("failed", "output (str)")
    assert watch.built == []


def test_a_model_with_all_kinds_of_arguments_and_outputs_is_measured() -> None:
    result = run(case(model(nested), NO_GRAD))
    left_out = "['kept'] (Kept), ['ids'] (int64, beside floating outputs)"
    assert (result.status, result.findings.unchecked_outputs) == ("ok", left_out)
    assert result.findings.dispatch_rounds_s


def test_results_that_depend_on_earlier_calls_are_measured_and_not_checked() -> None:
    result = run(case(model(accumulates), NO_GRAD))
    found = result.findings
    assert (result.status, found.checked) == ("ok", "not")
    assert (found.error, found.checked_inputs, found.checked_against) == (None, None, None)
    assert found.latency_rounds_s
    assert found.baseline_latency_rounds_s


def test_a_warm_up_without_end_is_flagged_and_a_compilation_while_timing_fails_the_case(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As counted; that compiling is counted is a test of comparisons."""
    warm = WarmUp(0.25, False, (1e-5, 1e-5))
    monkeypatch.setattr(comparison, "warm_up", lambda *others: warm)
    found = run(case(model(linear), NO_GRAD)).findings
    assert found.warmup_s == 0.25
    assert "no_steady_state" in found.flags
    monkeypatch.setattr(mode_effect, "count_compilations", lambda: lambda: 2)
    result = run(case(model(linear), NO_GRAD))
    assert (result.status, result.findings.recompiles) == ("failed", 2)
    assert result.findings.latency_rounds_s


def test_a_clear_loss_has_clocks_for_as_many_rounds_as_a_pilot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(paired, "SLOW", math.inf)
    budget = replace(smoke().budget, pilot_rounds=12, min_rounds=12, clock_rounds=20)
    budget = replace(budget, timed_max_s=5.0, slow_half_width=0.05)
    plan = replace(smoke(), budget=budget)
    found = runner.run(silent, case(model(linear), NO_GRAD), plan).findings
    assert found.stopped_early
    assert len(found.host_rounds_s or ()) == 12


def test_the_case_has_dispatch_where_its_baseline_has_none_but_not_the_reverse() -> None:
    found = run(case(model(linear), NO_GRAD, AMP)).findings
    assert found.dispatch_rounds_s is not None
    assert (found.baseline_dispatch_rounds_s, found.dispatch_note) == (None, None)
    found = run(case(model(linear), AMP)).findings
    assert (found.dispatch_rounds_s, found.baseline_dispatch_rounds_s) == (None, None)
    assert "autocast" in (found.dispatch_note or "")
    assert found.host_rounds_s is not None


# Proof of effect


@pytest.mark.full
def test_a_compilation_while_timing_fails_the_case(watch: Watch) -> None:
    def change() -> None:
        watch.candidate.subject.module.number = 1  # type: ignore[assignment]

    watch.before_timing = change
    result = run(case(model(remembers), COMPILE))
    assert (result.status, result.findings.recompiles) == ("failed", 1)
    (why,) = json.loads(result.findings.recompile_reasons)
    assert "number" in why
    assert result.reason.endswith(f"compiled 1 more time(s) while the case was timed: {why}")
    assert result.findings.latency_rounds_s


@pytest.mark.full
def test_a_model_that_is_compiled_at_every_call_never_counts_as_compiled() -> None:
    """Past its limit torch would silently continue in eager where breaks are allowed."""
    plan = smoke()
    patient = replace(plan, budget=replace(plan.budget, warmup_min_s=0.02, warmup_max_s=1.0))
    asked = model(remembers, fullgraph=False, counting=True)
    result = runner.run(silent, case(asked, COMPILE), patient)
    assert result.status == "failed"
    assert f"recompile_limit={torch._dynamo.config.recompile_limit})" in result.reason
    assert "number" in result.reason.partition("its last reason: ")[2]
    assert "HINT" not in result.reason


@pytest.mark.parametrize(
    ("build", "fullgraph", "place", "told"),
    [
        (broken, True, BREAK, "model.fullgraph=false"),
        (prints_within_cond, False, WITHIN_COND, "in plain eager"),
    ],
)
def test_a_model_that_cannot_be_traced_fails_at_the_place(
    build: Any, fullgraph: bool, place: str, told: str
) -> None:
    result = run(case(model(build, fullgraph), COMPILE))
    assert result.status == "failed"
    assert place in result.reason
    assert told in result.reason


def test_without_compiling_the_count_of_breaks_is_null() -> None:
    """Nothing was traced; a count of 0 would mean that it was compiled as a whole."""
    found = run(case(model(skipped, fullgraph=False), COMPILE)).findings
    assert (found.in_effect, found.graphs) == (False, 0)
    assert (found.graph_breaks, found.graph_break_reasons, found.eager_functions) == (None,) * 3


def test_there_is_no_speedup_against_a_baseline_that_was_not_in_effect() -> None:
    """On a CPU, reduce-overhead is compile=default under another name."""
    against = variant(grad="inference_mode", compile="reduce-overhead")
    found = run(case(model(scaled), NO_GRAD, baseline=against)).findings
    assert "baseline_not_in_effect" in found.flags  # a smoke run may not be steady, too
    assert found.in_effect is True
    assert found.latency_rounds_s
    assert found.dispatch_rounds_s
    of_baseline = (found.baseline_latency_rounds_s, found.baseline_dispatch_rounds_s)
    assert (*of_baseline, found.case_ran_first) == (None, None, None)
    assert found.baseline_first_call_s is None, "it compiles: its caches were not cold"


# Settings and seeds


def test_global_settings_are_those_of_the_case() -> None:
    for dtype, precision, threads in (("fp32", "highest", 1), ("tf32", "high", 2)):
        torch.set_float32_matmul_precision("medium")
        runner.set_up_torch(replace(case(model(linear), variant(dtype)), threads=threads), smoke())
        assert torch.get_float32_matmul_precision() == precision
        assert torch.backends.cudnn.allow_tf32 is (dtype == "tf32")
        assert torch.get_num_threads() == threads


def test_seed_and_replicate_decide_what_is_drawn(watch: Watch) -> None:
    """The seed weights and inputs; a replicate only the order of its rounds."""

    def drawn(seed: int, replicate: int) -> tuple[Any, ...]:
        watch.built.clear()
        plan = smoke(seed)
        budget = replace(plan.budget, pilot_rounds=12, min_rounds=12, max_rounds=12)
        plan = replace(plan, budget=replace(budget, timed_max_s=9.0), replicate=replicate)
        found = runner.run(silent, case(model(linear), BF16), plan).findings
        values = [each.tolist() for each in _given(watch.candidate)]
        return (*values, found.error), found.case_ran_first

    first = drawn(1, 0)
    assert drawn(1, 0) == first
    values, order = drawn(2, 0)
    assert all(one != other for one, other in zip(values, first[0], strict=True))
    assert order != first[1]
    values, order = drawn(1, 1)
    assert values == first[0]
    assert order != first[1]


# Failures


@pytest.mark.parametrize(
    ("error", "is_oom"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to"), True),
        (RuntimeError("shapes do not match"), False),
        (UsageError("yours"), False),
    ],
    ids=lambda value: str(value)[:24],
)
def test_only_errors_of_memory_are_status_oom(
    error: Exception, is_oom: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_measure", Mock(side_effect=error))
    if is_oom:
        assert run(case(model(scaled), NO_GRAD)).status == "oom"
    else:
        with pytest.raises(type(error), match=str(error)):
            run(case(model(scaled), NO_GRAD))


def test_a_forward_that_needs_gradients_is_measured_with_them_alone() -> None:
    plain = run(case(model(needs_gradients), variant()))
    assert (plain.status, plain.findings.checked) == ("ok", "exact")
    for asked in (NO_GRAD, COMPILE):
        failed = run(case(model(needs_gradients), asked))
        assert failed.status == "failed"
        assert "mode.grad=enabled" in failed.reason


def test_a_baseline_that_fails_is_named_as_what_failed() -> None:
    failed = run(case(model(refuses_gradients), NO_GRAD))
    assert failed.status == "failed"
    assert "baseline.mode=none" in failed.reason
    alone = run(case(model(refuses_gradients), NO_GRAD, baseline=None))
    assert (alone.status, alone.findings.checked) == ("ok", "exact")
