"""Claims for real: as torch is, in a torch in which the opposite is true, and with given times."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._library.custom_ops import CustomOpDef

from modescope.bench.devices.devices import Cpu, Step
from modescope.bench.stats.estimates import Estimate
from modescope.bench.tools.claims import (
    autograd,
    compiled_speed,
    compiler,
    cuda,
    custom_ops,
    dispatch_cost,
    views,
)
from modescope.bench.tools.claims.check import CLAIMS, lacking
from modescope.bench.tools.claims.claim import HOLDS, REFUTED, UNDECIDED, WITHIN_LIMITS
from modescope.bench.tools.claims.dispatch import probed, visited
from modescope.bench.tools.claims.measuring import (
    CompilerWork,
    bytes_taken,
    compiler_work,
    converted,
    speedup,
)
from modescope.bench.tools.selfcheck.workloads import delay

pytestmark = pytest.mark.usefixtures("as_in_a_child", "one_thread")

HERE = {
    "view-contiguous": REFUTED,
    "view-no-alloc": WITHIN_LIMITS,
    "view-dtype": WITHIN_LIMITS,
    "view-keeps-storage": HOLDS,
    "permute-exercise": HOLDS,
    "channels-last": WITHIN_LIMITS,
    "contiguous-copies": WITHIN_LIMITS,
    "reshape-copies": REFUTED,
    "repeat-copies": HOLDS,
    "empty-strided-cpu": WITHIN_LIMITS,
    "no-grad-removes-key": REFUTED,
    "no-grad-enters-kernel": WITHIN_LIMITS,
    "dispatch-mode-sees": WITHIN_LIMITS,
    "autograd-above-autocast": REFUTED,
    "tape-accumulates": HOLDS,
    "saved-dominate": WITHIN_LIMITS,
    "version-counter": REFUTED,
    "inference-tensors": REFUTED,
    "autocast-cache": WITHIN_LIMITS,
    "scaler-skips": WITHIN_LIMITS,
    "scaler-underflow": HOLDS,
    "break-on-print": WITHIN_LIMITS,
    "break-on-item": HOLDS,
    "recompile-dynamic": WITHIN_LIMITS,
    "custom-op-no-fake": REFUTED,
}
"""As on the published pages."""


@pytest.mark.parametrize("id", HERE)
def test_what_torch_does_decides(id: str) -> None:
    answer = CLAIMS[id].check(Cpu())
    assert answer.verdict == HERE[id], answer
    assert answer.numbers
    assert bool(answer.limits) == (answer.verdict == WITHIN_LIMITS)
    assert bool(answer.counter_example) == (answer.verdict == REFUTED)


VIEW, EMPTY = Tensor.view, torch.empty_strided


def _only_contiguous(x: Tensor, *how: Any) -> Tensor:
    if not x.is_contiguous():
        raise RuntimeError("not contiguous")
    return VIEW(x, *how)


@pytest.mark.parametrize(
    ("id", "owner", "name", "by", "verdict"),
    [
        ("view-contiguous", Tensor, "view", _only_contiguous, HOLDS),
        ("view-no-alloc", Tensor, "narrow", lambda *x: torch.narrow_copy(*x), REFUTED),
        ("view-keeps-storage", Tensor, "__getitem__", lambda x, _: torch.ones(1000), REFUTED),
        ("contiguous-copies", Tensor, "contiguous", lambda x: x, REFUTED),
        ("repeat-copies", Tensor, "expand", lambda x, *_: x.clone(), REFUTED),
        ("permute-exercise", Tensor, "permute", lambda x, *_: x, REFUTED),
        ("channels-last", Tensor, "is_contiguous", lambda x: True, REFUTED),
        ("empty-strided-cpu", torch, "empty_strided", lambda *how: EMPTY(*how).zero_(), REFUTED),
        ("no-grad-removes-key", torch, "no_grad", torch.inference_mode, HOLDS),
        ("no-grad-enters-kernel", torch, "inference_mode", torch.no_grad, REFUTED),
        ("dispatch-mode-sees", torch, "add", torch.ops.aten.add.Tensor, REFUTED),
        ("tape-accumulates", Tensor, "__add__", lambda x, y: torch.add(x, y.detach()), REFUTED),
    ],
)
def test_a_verdict_turns_where_the_opposite_is_true(
    id: str, owner: Any, name: str, by: Any, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, by)
    assert CLAIMS[id].check(Cpu()).verdict == verdict


def test_what_a_call_takes_is_counted() -> None:
    x = torch.ones(10)
    assert list(bytes_taken(Cpu(), "x + x", "x.view(2, 5)", x=x).values()) == [40, 0]


def test_a_speedup_is_that_of_the_case() -> None:
    found = speedup(delay(200e-6), delay(300e-6), Cpu(), timed_max_s=0.1)
    assert found.low < found.value < found.high
    assert found.value == pytest.approx(1.5, rel=0.05)
    assert converted(Estimate(1.0, 0.5, None), lambda x: 2 * x) == Estimate(2.0, 1.0, None)


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("autocast", [False, True])
def test_what_torchs_tables_say_is_what_runs(mode: Callable[[], Any], autocast: bool) -> None:
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast), mode():
        x, w = torch.ones(2, 2), torch.ones(2, 2, requires_grad=True)
        path = visited("aten::mm", (x, w))
        with probed("aten::mm", path[:-1]) as entered:
            torch.mm(x, w)
    assert [*entered, "CPU"] == list(path)
    x, w = torch.ones(2, 2), torch.ones(2, 2, requires_grad=True)
    with probed("aten::mm", ["AutogradCPU"]):
        assert torch.mm(x, w).grad_fn is None
    assert torch.mm(x, w).grad_fn is not None  # torch's own kernels are back


def test_the_compilers_work_is_counted() -> None:
    def breaks(x: Tensor) -> Tensor:
        y = x + 1
        print("a break")
        return y * 2

    torch.compiler.reset()
    compiled = torch.compile(breaks, backend="eager")
    first, again = (compiler_work(lambda: compiled(torch.ones(3))) for _ in range(2))
    assert (first.graphs, first.breaks, first.kernels) == (2, 1, 0)
    assert (again.graphs, again.breaks) == (0, 0)
    torch.compiler.reset()


# What was measured decides


class Captures(Cpu):
    """A CPU that says it captures."""

    def capture(self, step: Step) -> Step:
        return step


def facts(**found: int) -> Callable[..., SimpleNamespace]:
    return lambda *_: SimpleNamespace(**found)


def first_calls(first_s: float) -> dict[str, Any]:
    readings = iter([first_s, 0.1])
    return {
        "latency": lambda *_: SimpleNamespace(samples_s=[next(readings)]),
        "_train": lambda *_: None,
    }


def compile_times(tuned_s: float) -> dict[str, Any]:
    first_s = {"default": 2.0, "reduce-overhead": 3.0, "max-autotune": tuned_s}
    return {
        "compiled_call": lambda _, mode, __: (None, first_s[mode]),
        "load_compiler": lambda _: None,
    }


def graphs(count: int) -> dict[str, Any]:
    return {"compiled_call": lambda *_: (None, 1.0), "work_of": facts(graph_launches=count)}


def profile(kernel_s: float) -> dict[str, Any]:
    return {
        "forward": lambda side, _: side,
        "profiled": lambda side, _: (3e-4, 1e-4 if side < 1000 else 9e-3, kernel_s),
    }


def kernels(found: tuple[int, list[int]]) -> dict[str, Any]:
    """Of eager code each time, and of the compiled sizes."""
    eager, compiled = found
    coming = iter(count for each in compiled for count in (eager, each))

    def work_of(step: Step, _: Cpu) -> SimpleNamespace:
        step()
        return SimpleNamespace(kernels=next(coming))

    return {"work_of": work_of}


def compiler_works(found: list[CompilerWork]) -> dict[str, Any]:
    coming = iter(found)
    return {"compiler_work": lambda _: next(coming)}


ONE, AROUND = CompilerWork(1, 0, 1, 0), CompilerWork(1, 0, 2, 1)

PRETENDED: dict[str, tuple[Any, Callable[[Any], dict[str, Any]]]] = {
    "inference-vs-no-grad": (dispatch_cost, lambda _: {}),
    "compile-speedup": (compiled_speed, first_calls),
    "autotune-best": (compiled_speed, compile_times),
    "reduce-overhead-graphs": (compiled_speed, graphs),
    "strided-kernel-slow": (views, lambda _: {}),
    "profiler-launch-bound": (cuda, profile),
    "layernorm-kernels": (compiler, kernels),
    "custom-op-opaque": (custom_ops, compiler_works),
}
"""The file of a claim, and functions there that find a number."""


@pytest.mark.parametrize(
    ("id", "found", "gains", "verdict"),
    [
        ("inference-vs-no-grad", None, [1.0, 1.11, 1.11, 1.11], HOLDS),
        ("inference-vs-no-grad", None, [1.0, 1.11, 1.11, 1.3], WITHIN_LIMITS),
        ("inference-vs-no-grad", None, [1.0, 1.3, 1.3, 1.3], REFUTED),
        ("inference-vs-no-grad", None, [1.05, 1.11, 1.11, 1.11], REFUTED),  # the large product
        ("inference-vs-no-grad", None, [1.0204, 1.11, 1.11, 1.11], UNDECIDED),
        ("compile-speedup", 9.0, [1.5, 1.8], HOLDS),  # of training and inference
        ("compile-speedup", 0.2, [1.5, 1.8], REFUTED),
        ("compile-speedup", 9.0, [1.1, 1.3], REFUTED),
        ("compile-speedup", 9.0, [1.5, 1.2], REFUTED),
        ("compile-speedup", 9.0, [1.3, 1.8], UNDECIDED),
        ("compile-speedup", 9.0, [1.5, 1.5005], UNDECIDED),
        ("autotune-best", 30.0, [1.2] * 8, HOLDS),
        ("autotune-best", 30.0, [1.2] * 4 + [0.9] * 4, HOLDS),
        ("autotune-best", 30.0, [1.2] * 2 + [0.9] * 6, WITHIN_LIMITS),
        ("autotune-best", 30.0, [0.9] * 8, REFUTED),
        ("autotune-best", 2.5, [1.2] * 8, REFUTED),
        ("autotune-best", 30.0, [1.01] * 8, UNDECIDED),
        ("reduce-overhead-graphs", 1, [3.0, 3.0], HOLDS),
        ("reduce-overhead-graphs", 1, [3.0, 1.1], WITHIN_LIMITS),
        ("reduce-overhead-graphs", 1, [1.1, 1.1], REFUTED),
        ("reduce-overhead-graphs", 2, [3.0, 3.0], REFUTED),
        ("strided-kernel-slow", None, [7.0] * 4, HOLDS),
        ("strided-kernel-slow", None, [3.0] * 4, REFUTED),
        ("profiler-launch-bound", 3e-6, [3.0, 3.0, 1.0, 1.0], HOLDS),
        ("profiler-launch-bound", 3e-6, [0.9, 0.9, 1.0, 1.0], REFUTED),
        ("profiler-launch-bound", 3e-6, [1.01, 1.01, 1.0, 1.0], UNDECIDED),
        ("profiler-launch-bound", 2e-5, [3.0, 3.0, 1.0, 1.0], UNDECIDED),  # nothing is marked
        ("layernorm-kernels", (6, [1, 1, 1]), [], HOLDS),
        ("layernorm-kernels", (6, [1, 1, 2]), [], WITHIN_LIMITS),
        ("layernorm-kernels", (6, [1, 2, 2]), [], REFUTED),
        ("layernorm-kernels", (4, [1, 1, 1]), [], REFUTED),
        ("custom-op-opaque", [ONE, AROUND], [], WITHIN_LIMITS),
        ("custom-op-opaque", [ONE, CompilerWork(2, 1, 2, 1)], [], REFUTED),
        ("custom-op-opaque", [ONE, ONE], [], REFUTED),
        ("custom-op-opaque", [CompilerWork(1, 0, 2, 0), AROUND], [], UNDECIDED),
    ],
)
def test_what_was_measured_decides(
    id: str, found: Any, gains: list[float], verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gains have narrow intervals; nothing compiles."""
    coming = (Estimate(gain, gain - 0.001, gain + 0.001) for gain in gains)
    module, pretended = PRETENDED[id]
    for name, by in pretended(found).items():
        monkeypatch.setattr(module, name, by)
    if gains:
        monkeypatch.setattr(module, "speedup", lambda *_: next(coming))
    monkeypatch.setattr(torch, "compile", lambda model=None, **_: model)
    assert CLAIMS[id].check(Captures()).verdict == verdict


def test_a_compiled_call_is_steady(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Tensor] = []
    model = torch.nn.Linear(4, 4)
    model.register_forward_hook(lambda *_: calls.append(_[-1]))
    monkeypatch.setattr(torch, "compile", lambda model=None, **_: model)
    monkeypatch.setattr(compiled_speed, "MODELS", {"one": (lambda: model, (2, 4))})
    compiled_speed.load_compiler(Cpu())
    step, first_s = compiled_speed.compiled_call("one", "default", Cpu())
    step()
    assert first_s > 0
    assert (len(calls), calls[0].dtype) == (6, torch.bfloat16)


def test_a_profile_has_self_times() -> None:
    cpu_s, cuda_s, kernel_s = cuda.profiled(cuda.forward(8, Cpu()), Cpu())
    assert cpu_s > 0
    assert (cuda_s, kernel_s) == (0, 0)


@pytest.mark.full
def test_a_custom_op_trains_if_its_backward_is_registered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    claim = CLAIMS["custom-op-autograd"]
    if missing := lacking(claim, "cpu"):
        pytest.skip(missing)
    assert claim.check(Cpu()).verdict == WITHIN_LIMITS
    monkeypatch.setattr(CustomOpDef, "register_autograd", lambda *_, **__: None)
    assert claim.check(Cpu()).verdict == REFUTED


@pytest.mark.full
@pytest.mark.parametrize("id", ["fused-pointwise", "custom-op-opaque"])
def test_inductors_kernels_are_counted(id: str) -> None:
    if missing := lacking(CLAIMS[id], "cpu"):
        pytest.skip(missing)
    assert CLAIMS[id].check(Cpu()).verdict == WITHIN_LIMITS


def test_undecided_without_what_a_verdict_rests_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """No kernel of autograd is seen: nothing says which comes first."""
    monkeypatch.setattr(autograd, "probed", lambda operator, keys: probed(operator, keys[:1]))
    assert CLAIMS["autograd-above-autocast"].check(Cpu()).verdict == UNDECIDED
