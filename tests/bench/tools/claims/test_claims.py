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


def test_after_probing_torchs_own_kernels_are_back() -> None:
    x, w = torch.ones(2, 2), torch.ones(2, 2, requires_grad=True)
    with probed("aten::mm", ["AutogradCPU"]):
        assert torch.mm(x, w).grad_fn is None
    assert torch.mm(x, w).grad_fn is not None


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


Speedups = Callable[[Any, list[float]], None]


@pytest.fixture
def speedups(monkeypatch: pytest.MonkeyPatch) -> Speedups:
    """Makes the comparisons of a file find these, with narrow intervals, and nothing compile."""

    def so(module: Any, values: list[float]) -> None:
        coming = iter(values)

        def found(*_: object) -> Estimate:
            value = next(coming)
            return Estimate(value, value - 0.001, value + 0.001)

        monkeypatch.setattr(module, "speedup", found)
        monkeypatch.setattr(torch, "compile", lambda model=None, **_: model)

    return so


@pytest.mark.parametrize(
    ("gains", "verdict"),
    [
        ([1.0, 1.11, 1.11, 1.11], HOLDS),
        ([1.0, 1.11, 1.11, 1.3], WITHIN_LIMITS),
        ([1.0, 1.3, 1.3, 1.3], REFUTED),
        ([1.05, 1.11, 1.11, 1.11], REFUTED),  # the large product gains
        ([1.0204, 1.11, 1.11, 1.11], UNDECIDED),
    ],
)
def test_gains_of_inference_mode(gains: list[float], verdict: str, speedups: Speedups) -> None:
    speedups(dispatch_cost, gains)
    assert CLAIMS["inference-vs-no-grad"].check(Cpu()).verdict == verdict


@pytest.mark.full
@pytest.mark.parametrize(
    ("first_s", "training", "inference", "verdict"),
    [
        (9.0, 1.5, 1.8, HOLDS),
        (0.2, 1.5, 1.8, REFUTED),
        (9.0, 1.1, 1.3, REFUTED),
        (9.0, 1.5, 1.2, REFUTED),
        (9.0, 1.3, 1.8, UNDECIDED),
        (9.0, 1.5, 1.5005, UNDECIDED),
    ],
)
def test_gains_of_a_transformer(
    first_s: float,
    training: float,
    inference: float,
    verdict: str,
    speedups: Speedups,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    speedups(compiled_speed, [training, inference])
    readings = iter([first_s, 0.1])
    monkeypatch.setattr(
        compiled_speed, "latency", lambda *_: SimpleNamespace(samples_s=[next(readings)])
    )
    monkeypatch.setattr(compiled_speed, "_train", lambda *_: None)
    assert CLAIMS["compile-speedup"].check(Cpu()).verdict == verdict


@pytest.mark.parametrize(
    ("gains", "tuned_s", "verdict"),
    [
        ([1.2] * 8, 30.0, HOLDS),
        ([1.2] * 4 + [0.9] * 4, 30.0, HOLDS),
        ([1.2] * 2 + [0.9] * 6, 30.0, WITHIN_LIMITS),
        ([0.9] * 8, 30.0, REFUTED),
        ([1.2] * 8, 2.5, REFUTED),
        ([1.01] * 8, 30.0, UNDECIDED),
    ],
)
def test_compile_times_and_gains_of_autotuning(
    gains: list[float],
    tuned_s: float,
    verdict: str,
    speedups: Speedups,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    speedups(compiled_speed, gains)
    first_s = {"default": 2.0, "reduce-overhead": 3.0, "max-autotune": tuned_s}
    monkeypatch.setattr(compiled_speed, "compiled_call", lambda _, mode, __: (None, first_s[mode]))
    monkeypatch.setattr(compiled_speed, "load_compiler", lambda _: None)
    assert CLAIMS["autotune-best"].check(Cpu()).verdict == verdict


@pytest.mark.parametrize(
    ("graphs", "gains", "verdict"),
    [
        (1, [3.0, 3.0], HOLDS),
        (1, [3.0, 1.1], WITHIN_LIMITS),
        (1, [1.1, 1.1], REFUTED),
        (2, [3.0, 3.0], REFUTED),
    ],
)
def test_graphs_and_gains_of_reduce_overhead(
    graphs: int,
    gains: list[float],
    verdict: str,
    speedups: Speedups,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    speedups(compiled_speed, gains)
    monkeypatch.setattr(compiled_speed, "compiled_call", lambda *_: (None, 1.0))
    monkeypatch.setattr(
        compiled_speed, "work_of", lambda *_: SimpleNamespace(graph_launches=graphs)
    )
    assert CLAIMS["reduce-overhead-graphs"].check(Cpu()).verdict == verdict


def test_a_compiled_call_is_steady(speedups: Speedups, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Tensor] = []
    model = torch.nn.Linear(4, 4)
    model.register_forward_hook(lambda *_: calls.append(_[-1]))
    speedups(compiled_speed, [])
    monkeypatch.setattr(compiled_speed, "MODELS", {"one": (lambda: model, (2, 4))})
    compiled_speed.load_compiler(Cpu())
    step, first_s = compiled_speed.compiled_call("one", "default", Cpu())
    step()
    assert (first_s > 0, len(calls), calls[0].dtype) == (True, 6, torch.bfloat16)


@pytest.mark.parametrize(("ratio", "verdict"), [(7.0, HOLDS), (3.0, REFUTED)])
def test_times_of_strided_kernels(ratio: float, verdict: str, speedups: Speedups) -> None:
    speedups(views, [ratio] * 4)
    assert CLAIMS["strided-kernel-slow"].check(Cpu()).verdict == verdict


class Captures(Cpu):
    """A CPU that says it captures."""

    def capture(self, step: Step) -> Step:
        return step


@pytest.mark.parametrize(
    ("gains", "kernel_s", "verdict"),
    [
        ([3.0, 3.0, 1.0, 1.0], 3e-6, HOLDS),
        ([0.9, 0.9, 1.0, 1.0], 3e-6, REFUTED),
        ([1.01, 1.01, 1.0, 1.0], 3e-6, UNDECIDED),
        ([3.0, 3.0, 1.0, 1.0], 2e-5, UNDECIDED),  # nothing is marked
    ],
)
def test_gains_of_work_that_a_profile_marks(
    gains: list[float],
    kernel_s: float,
    verdict: str,
    speedups: Speedups,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    speedups(cuda, gains)
    monkeypatch.setattr(cuda, "forward", lambda side, _: side)
    monkeypatch.setattr(
        cuda, "profiled", lambda side, _: (3e-4, 1e-4 if side < 1000 else 9e-3, kernel_s)
    )
    assert CLAIMS["profiler-launch-bound"].check(Captures()).verdict == verdict


def test_a_profile_has_self_times() -> None:
    cpu_s, cuda_s, kernel_s = cuda.profiled(cuda.forward(8, Cpu()), Cpu())
    assert (cpu_s > 0, cuda_s, kernel_s) == (True, 0, 0)


@pytest.mark.parametrize(
    ("eager", "compiled", "verdict"),
    [
        (6, [1, 1, 1], HOLDS),
        (6, [1, 1, 2], WITHIN_LIMITS),
        (6, [1, 2, 2], REFUTED),
        (4, [1] * 3, REFUTED),
    ],
)
def test_kernels_of_a_layer_norm(
    eager: int, compiled: list[int], verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    coming = iter(kernels for each in compiled for kernels in (eager, each))

    def work_of(step: Step, _: Cpu) -> SimpleNamespace:
        step()
        return SimpleNamespace(kernels=next(coming))

    monkeypatch.setattr(compiler, "work_of", work_of)
    monkeypatch.setattr(torch, "compile", lambda model: model)
    assert CLAIMS["layernorm-kernels"].check(Cpu()).verdict == verdict


ONE, AROUND = CompilerWork(1, 0, 1, 0), CompilerWork(1, 0, 2, 1)


@pytest.mark.parametrize(
    ("own", "custom", "verdict"),
    [
        (ONE, AROUND, WITHIN_LIMITS),
        (ONE, CompilerWork(2, 1, 2, 1), REFUTED),
        (ONE, ONE, REFUTED),
        (CompilerWork(1, 0, 2, 0), AROUND, UNDECIDED),
    ],
)
def test_kernels_around_a_custom_op(
    own: CompilerWork, custom: CompilerWork, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    coming = iter([own, custom])
    monkeypatch.setattr(custom_ops, "compiler_work", lambda _: next(coming))
    assert CLAIMS["custom-op-opaque"].check(Cpu()).verdict == verdict


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
@pytest.mark.parametrize(
    ("id", "verdict"), [("fused-pointwise", WITHIN_LIMITS), ("custom-op-opaque", WITHIN_LIMITS)]
)
def test_inductors_kernels_are_counted(id: str, verdict: str) -> None:
    if missing := lacking(CLAIMS[id], "cpu"):
        pytest.skip(missing)
    assert CLAIMS[id].check(Cpu()).verdict == verdict


def test_undecided_without_what_a_verdict_rests_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """No kernel of autograd is seen: nothing says which comes first."""
    monkeypatch.setattr(autograd, "probed", lambda operator, keys: probed(operator, keys[:1]))
    assert CLAIMS["autograd-above-autocast"].check(Cpu()).verdict == UNDECIDED
