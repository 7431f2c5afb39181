"""From a case to its result, without stand-ins, on tiny models with one fault each."""

from __future__ import annotations

import inspect
import json
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest.mock import Mock, patch

import pytest
import torch
from torch import Tensor

from modescope.bench.case import runner, torch_setup
from modescope.bench.checking import steady_work
from modescope.bench.devices.devices import Cpu, Step
from modescope.bench.evidence import compiler_counts, first_call
from modescope.bench.evidence.first_call import Contender
from modescope.bench.model.subject import Built
from modescope.bench.modes.backends import BACKENDS, Backend
from modescope.bench.records.cases import Case, Variant
from modescope.bench.records.errors import Progress, UsageError
from modescope.bench.records.outcomes import Status
from modescope.bench.records.results import Result, row
from modescope.bench.timing import comparison, paired
from modescope.bench.timing.comparison import WarmUp
from tests.helpers import probe_models
from tests.helpers.findings import rounds_of
from tests.helpers.probe_models import (
    BASELINE,
    EAGER,
    accumulates,
    broken,
    case,
    counts,
    encodes_nested,
    forgets,
    grows,
    in_turns,
    linear,
    model,
    needs_gradients,
    nested,
    one_dict,
    prints_within_cond,
    refuses_gradients,
    remembers,
    scaled,
    silent,
    skipped,
    smoke,
    tabulates,
    too_large_for_fp16,
    untraceable,
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


def run(asked: Case, progress: Progress = silent) -> Result:
    return runner.run(progress, asked, smoke())


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
    checks, rounds = found.checks, rounds_of(found)
    seen = (checks.seen_grad, checks.seen_autocast, checks.seen_weight_dtype)
    assert seen == (asked.mode.grad, "none", "float32")
    assert (checks.in_effect, checks.in_effect_note, checks.checked) == (True, None, "exact")
    assert (checks.graphs, checks.graph_breaks) == ((1, 0) if compiles else (0, None))
    assert (checks.recompiles, checks.graph_launches, checks.matmul_precision) == (0, 0, "highest")
    assert checks.error <= checks.error_limit
    assert checks.error_limit == pytest.approx(3 * checks.eager_error + 1e-5)
    assert rounds.latency_rounds_s
    of_each = (rounds.latency_rounds_s, rounds.baseline_latency_rounds_s, rounds.case_ran_first)
    assert len({len(values) for values in of_each}) == 1
    assert 0 < found.calibration.synchronize_s < min(rounds.latency_calls_s)
    assert min(checks.first_call_s, checks.baseline_first_call_s) > 0
    assert not compiles or checks.first_call_s > 200 * min(rounds.latency_calls_s)
    assert found.contention.watched_s >= rounds.warmup_s + rounds.timed_s
    assert found.clocks.dispatch_rounds_s is not None
    before_clocks = kept["clocks"].findings
    assert before_clocks.checks.in_effect is True
    assert before_clocks.clocks.dispatch_rounds_s is None
    assert before_clocks.rounds == rounds


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
    assert (result.status, found.checks.in_effect) == ("ok", None)
    assert "no trace" in found.checks.in_effect_note
    assert found.clocks.dispatch_rounds_s is not None
    assert before.findings.clocks.dispatch_rounds_s == found.clocks.dispatch_rounds_s
    assert "in_effect_note" in before.lost


@pytest.mark.full
def test_a_first_call_that_fills_the_cache_ends_there(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    asked = case(model(scaled), COMPILE)
    first, second = (runner.fill(silent, asked, smoke()) for _ in range(2))
    assert (first.status, first.findings.rounds) == (Status.CACHE_FILLED, None)
    assert first.findings.compilations.compiler_cache_misses == 1
    assert second.status == "ok"


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


def test_a_backend_that_torch_does_not_count_has_a_speedup(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = Backend(
        lambda module, *given: lambda *args: module(*args), lambda *given: "", ("own",), doubts=()
    )
    monkeypatch.setitem(BACKENDS, "own", own)
    found = run(case(model(scaled), variant(compile="own"))).findings
    assert (found.checks.in_effect, found.checks.graphs) == (True, 0)
    assert rounds_of(found).baseline_latency_rounds_s is not None


@pytest.mark.parametrize("builds", [False, True])
def test_a_backend_that_builds_nothing_is_not_in_effect(
    builds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(module: torch.nn.Module, *given: Any) -> Any:
        return torch.jit.trace(module, given[0].args) if builds else module

    monkeypatch.setitem(BACKENDS, "own", Backend(build, lambda *given: "", ("own",)))
    checks = run(case(model(scaled), variant(compile="own"))).findings.checks
    assert (checks.in_effect, checks.in_effect_note is None) == (builds, builds)


# Correctness


def test_a_result_that_turns_wrong_while_timed_is_a_wrong_result(watch: Watch) -> None:
    def spoil() -> None:
        with torch.no_grad():
            next(watch.candidate.subject.module.parameters()).mul_(1.5)

    watch.before_timing = spoil
    result = run(case(model(scaled), NO_GRAD))
    assert result.status == "wrong_result"
    assert result.findings.checks.error > result.findings.checks.error_limit


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
    assert found.checks.first_call_s > 5
    assert (watch.timed is None) is (status != "ok")
    if status == "ok":
        assert found.checks.baseline_first_call_s < 5
        assert found.checks.in_effect is False, "no graph was launched"


def test_a_warm_up_without_end_is_flagged_and_a_compilation_while_timing_fails_the_case(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As counted; that compiling is counted is a test of comparisons."""
    warm = WarmUp(0.25, False, (1e-5, 1e-5))
    monkeypatch.setattr(comparison, "warm_up", lambda *others: warm)
    found = run(case(model(linear), NO_GRAD)).findings
    assert rounds_of(found).warmup_s == 0.25
    assert "no_steady_state" in found.flags
    monkeypatch.setattr(compiler_counts, "count_compilations", lambda: lambda: 2)
    result = run(case(model(linear), NO_GRAD))
    assert (result.status, result.findings.checks.recompiles) == ("failed", 2)


def test_a_clear_loss_has_clocks_for_as_many_rounds_as_a_pilot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(paired, "SLOW", math.inf)
    budget = replace(smoke().budget, pilot_rounds=12, min_rounds=12, clock_rounds=20)
    budget = replace(budget, timed_max_s=5.0, slow_half_width=0.05)
    plan = replace(smoke(), budget=budget)
    found = runner.run(silent, case(model(linear), NO_GRAD), plan).findings
    assert rounds_of(found).stopped_early
    assert len(found.clocks.host_rounds_s or ()) == 12


# Proof of effect


@pytest.mark.full
def test_a_compilation_while_timing_fails_the_case(watch: Watch) -> None:
    def change() -> None:
        watch.candidate.subject.module.number = 1  # type: ignore[assignment]

    watch.before_timing = change
    result = run(case(model(remembers), COMPILE))
    assert (result.status, result.findings.checks.recompiles) == ("failed", 1)
    (why,) = json.loads(result.findings.compilations.recompile_reasons)
    assert "number" in why
    assert result.reason.endswith(f"compiled 1 more time(s) while the case was timed: {why}")
    assert rounds_of(result.findings).latency_rounds_s


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


OFF: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "TORCHDYNAMO_DISABLE=1": lambda: patch.dict(os.environ, {"TORCHDYNAMO_DISABLE": "1"}),
    "torch._dynamo.config.disable": lambda: torch._dynamo.config.patch(disable=True),
    'torch.compiler.set_stance("force_eager")': lambda: torch.compiler.set_stance("force_eager"),
}


@pytest.mark.parametrize("switch", OFF)
def test_a_compiler_that_is_switched_off_is_not_in_effect(switch: str) -> None:
    with OFF[switch]():
        result = run(case(model(linear), COMPILE))
    found = result.findings
    assert (result.status, found.checks.in_effect, found.checks.graphs) == ("ok", False, 0)
    assert rounds_of(found).latency_rounds_s
    assert rounds_of(found).baseline_latency_rounds_s is None, "no speedup of what did not run"
    assert f"; {switch} " in found.checks.in_effect_note


def test_an_error_that_torch_suppresses_is_told() -> None:
    with torch._dynamo.config.patch(suppress_errors=True):
        found = run(case(model(untraceable), COMPILE)).findings
    assert (found.checks.in_effect, found.checks.checked) == (False, "exact")
    assert "Applies.forward" in found.checks.in_effect_note
    assert "; torch._dynamo.config.suppress_errors " in found.checks.in_effect_note


@pytest.mark.full
def test_code_that_torch_compiles_no_more_is_told_where_errors_are_suppressed() -> None:
    """In the first call as well as later ones; what never fails is in effect."""
    plan = smoke()
    patient = replace(plan, budget=replace(plan.budget, warmup_min_s=0.02, warmup_max_s=1.0))
    asked = model(remembers, fullgraph=False, counting=True)
    with torch._dynamo.config.patch(suppress_errors=True):
        later = runner.run(silent, case(asked, COMPILE), patient).findings
        torch.compiler.reset()
        broke = run(case(model(broken), COMPILE)).findings
        torch.compiler.reset()
        right = run(case(model(linear), COMPILE)).findings
        with torch._dynamo.config.patch(recompile_limit=1):
            torch.compiler.reset()
            first = run(case(model(in_turns, fullgraph=False), COMPILE)).findings
    assert [each.checks.in_effect for each in (later, broke, first, right)] == [False] * 3 + [True]
    assert first_call.OWN_CODE in later.checks.in_effect_note
    assert BREAK in broke.checks.in_effect_note
    assert first_call.AT_LIMIT in first.checks.in_effect_note
    assert right.checks.in_effect_note.startswith("torch._dynamo.config.suppress_errors ")


# Settings and seeds


def test_global_settings_are_those_of_the_case() -> None:
    for dtype, precision, threads in (("fp32", "highest", 1), ("tf32", "high", 2)):
        torch.set_float32_matmul_precision("medium")
        torch_setup.set_up_torch(
            replace(case(model(linear), variant(dtype)), threads=threads), smoke()
        )
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
        return (*values, found.checks.error), rounds_of(found).case_ran_first

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


def test_a_mode_that_fails_itself_ends_with_torchs_reason() -> None:
    with pytest.raises(RuntimeError, match="made for no_grad"):
        run(case(model(refuses_gradients), variant()))


def test_a_baseline_that_lacks_memory_leaves_nothing_to_compare(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def enters_once(subject: Any, entered: Variant, *rest: Any) -> Any:
        if entered == BASELINE:
            raise torch.OutOfMemoryError("too small")
        return first_call.enter(subject, entered, *rest)

    monkeypatch.setattr(runner, "enter", enters_once)
    assert run(case(model(scaled), NO_GRAD)).status == "oom"


# Models with one peculiarity each

Expected = Callable[[Any], bool]


def given(value: Any) -> bool:
    return value is not None


def says(*texts: str) -> Expected:
    return lambda value: all(text in value for text in texts)


OK = {"status": "ok", "reason": None}
NO_BASELINE = {"baseline_latency_rounds_s": None, "case_ran_first": None}
NO_GRADIENTS = {"status": "failed", "reason": says("mode.grad=enabled")}
NOT_COMPILED = {"graph_breaks": None, "graph_break_reasons": None, "eager_functions": None}
LEFT_OUT = "['kept'] (Kept), ['ids'] (int64, beside floating outputs)"

OUTCOMES: dict[str, tuple[Case, dict[str, Any]]] = {
    "without a baseline": (
        case(model(scaled), NO_GRAD, baseline=None),
        OK | NO_BASELINE | {"latency_rounds_s": given, "dispatch_rounds_s": given}
        | {"baseline_error": None, "baseline_dispatch_rounds_s": None},
    ),
    "a wrong baseline is not timed": (
        case(model(too_large_for_fp16), NO_GRAD, FP16),
        OK | NO_BASELINE | {"latency_rounds_s": given, "flags": says("baseline_wrong")}
        | {"baseline_error": math.inf},
    ),
    "a baseline that fails": (
        case(model(refuses_gradients), NO_GRAD),
        OK | NO_BASELINE | {"latency_rounds_s": given, "checked": "exact"}
        | {"flags": says("baseline_failed"), "baseline_error": None}
        | {"baseline_note": says("made for no_grad", "baseline.mode, such as no_grad")},
    ),
    "a baseline without gradients that fails": (
        case(model(needs_gradients), variant(), NO_GRAD),
        OK | NO_BASELINE | {"flags": says("baseline_failed")}
        | {"baseline_note": says("does not require grad", "baseline.mode, such as eager")},
    ),
    "the same model alone": (
        case(model(refuses_gradients), NO_GRAD, baseline=None),
        OK | {"checked": "exact", "baseline_note": None, "flags": ()},
    ),
    "nested tensors that only a path without gradients takes": (
        case(model(encodes_nested), NO_GRAD),
        OK | NO_BASELINE | {"checked": "exact", "checked_against": "float64"}
        | {"checked_inputs": "fresh", "baseline_note": says("grad is enabled")}
        | {"dispatch_note": says("crashes"), "host_rounds_s": given},
    ),
    "a baseline that was not in effect": (
        case(model(skipped, fullgraph=False), NO_GRAD, COMPILE),  # of which nothing is compiled
        OK | NO_BASELINE | {"in_effect": True, "flags": says("baseline_not_in_effect")}
        | {"latency_rounds_s": given, "dispatch_rounds_s": given}
        | {"baseline_dispatch_rounds_s": None}
        | {"baseline_first_call_s": None},  # it compiles: its caches were not cold
    ),
    "a dict that forward takes as one argument": (
        case(model(one_dict), NO_GRAD),
        {"status": "failed", "reason": says("before any mode", "by name", "(inputs,)")},
    ),
    "no results": (
        case(model(wordless), NO_GRAD),
        {"status": "failed", "unchecked_outputs": "output (str)", "first_call_s": None},
    ),
    "all kinds of arguments and outputs": (
        case(model(nested), NO_GRAD),
        OK | {"unchecked_outputs": LEFT_OUT, "dispatch_rounds_s": given},
    ),
    "results that depend on earlier calls": (
        case(model(accumulates), NO_GRAD),
        OK | {"checked": "not", "error": None, "checked_inputs": None, "checked_against": None}
        | {"latency_rounds_s": given, "baseline_latency_rounds_s": given},
    ),
    "called again it computes nothing": (
        case(model(forgets), INFERENCE),
        {"status": "failed", "reason": steady_work.REMEMBERED},
    ),
    "later calls do less": (
        case(model(forgets, calls=5), variant()),
        OK | {"steady_operators": "without 2 × aten.mul", "flags": says("other_operators")},
    ),
    "what it remembers is put back": (
        case(model(forgets, seen=True), INFERENCE),
        OK | {"changed_state": "kept['x'], kept['y']", "checked": "exact"}
        | {"steady_operators": None, "pipelined_rounds_s": given},
    ),
    "its count of calls is put back": (
        case(model(forgets, calls=5, seen=True), INFERENCE),
        OK | {"changed_state": "kept['left']", "steady_operators": None},
    ),
    "its work grows": (
        case(model(grows), INFERENCE), OK | {"flags": says("work_grows"), "changed_state": None}
    ),
    "the first call makes a table": (
        case(model(tabulates), variant()),
        OK | {"steady_operators": None, "flags": lambda flags: "other_operators" not in flags},
    ),
    "a baseline without dispatch": (
        case(model(linear), NO_GRAD, AMP),
        OK | {"dispatch_rounds_s": given, "dispatch_note": None}
        | {"baseline_dispatch_rounds_s": None},
    ),
    "no dispatch, so none of the baseline": (
        case(model(linear), AMP),
        OK | {"dispatch_rounds_s": None, "dispatch_note": says("autocast")}
        | {"baseline_dispatch_rounds_s": None, "host_rounds_s": given},
    ),
    "gradients are needed": (
        case(model(needs_gradients), variant()), OK | {"checked": "exact"}
    ),
    "gradients are needed in no_grad": (case(model(needs_gradients), NO_GRAD), NO_GRADIENTS),
    "gradients are needed in code": (case(model(needs_gradients), COMPILE), NO_GRADIENTS),
    "a break where breaks are errors": (
        case(model(broken), COMPILE),
        {"status": "failed", "reason": says(BREAK, "model.fullgraph=false")},
    ),
    "a break that cannot be left to eager": (
        case(model(prints_within_cond, fullgraph=False), COMPILE),
        {"status": "failed", "reason": says(WITHIN_COND, "in plain eager")},
    ),
    "nothing was compiled, so breaks are unknown": (
        case(model(skipped, fullgraph=False), COMPILE),
        OK | {"in_effect": False, "graphs": 0} | NOT_COMPILED,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OUTCOMES)
def test_a_peculiar_model_ends_as_expected(name: str) -> None:
    asked, expected = OUTCOMES[name]
    result = run(asked)
    found = {"status": result.status, "reason": result.reason, **row(result.findings)}
    for column, value in expected.items():
        right = value(found[column]) if callable(value) else found[column] == value
        assert right, (column, found[column])
