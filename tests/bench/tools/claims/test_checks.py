"""Checks for real: as torch is, and in a torch in which the opposite is true."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._library.custom_ops import CustomOpDef

from modescope.bench.devices.devices import Cpu, Step
from modescope.bench.tools.claims import (
    autograd,
    compiled_speed,
    cuda_graphs,
    dispatch_cost,
    fusion,
    measuring,
    strides,
)
from modescope.bench.tools.claims.checking import CLAIMS, lacking
from modescope.bench.tools.claims.claim import HOLDS, REFUTED, UNDECIDED, WITHIN_LIMITS
from modescope.bench.tools.claims.measuring import compiler_work, speedup, taken_by, watched
from modescope.bench.tools.claims.probing import probed, visited
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
    result, seen = watched(lambda: torch.ones(10) + torch.ones(10), Cpu())
    assert (seen.allocated_bytes, seen.released_bytes, seen.left_bytes) == (120, 80, 40)
    assert taken_by(lambda: result.view(2, 5), Cpu()) == 0


def test_a_speedup_is_that_of_the_case() -> None:
    found = speedup(delay(200e-6), delay(300e-6), Cpu(), timed_max_s=0.1)
    assert found.low < found.value < found.high
    assert found.value == pytest.approx(1.5, rel=0.05)


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


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short comparisons, and a compiler that captures but generates nothing."""
    compile_ = torch.compile

    def captured(model: Any = None, *, mode: str = "default", **how: Any) -> Any:
        return compile_(model, backend="aot_eager", **how)

    monkeypatch.setattr(torch, "compile", captured)
    for module in (compiled_speed, cuda_graphs, dispatch_cost, strides):
        monkeypatch.setattr(module, "speedup", partial(_short, timed_max_s=0.02))


def _short(
    case: Step, baseline: Step, device: Cpu, tensors: Any = (), *_: Any, timed_max_s: float
) -> Any:
    return measuring.speedup(case, baseline, device, tensors, timed_max_s)


class Pretending(Cpu):
    """A CPU that says it captures."""

    def capture(self, step: Step) -> Step:
        return step


@pytest.mark.full
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    "id",
    [
        *("strided-kernel-slow", "profiler-launch-bound", "inference-vs-no-grad"),
        *("reduce-overhead-graphs", "autotune-best", "compile-speedup", "layernorm-kernels"),
    ],
)
def test_checks_of_gpus_and_clocks_run_at_smoke_size(
    id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where their numbers mean nothing: that they are sound Python."""
    linear = (lambda: torch.nn.Linear(4, 4), (2, 4))
    monkeypatch.setattr(strides, "SIDE", 16)
    monkeypatch.setattr(compiled_speed, "SIZES", {"cpu": [(1, 8, 2, 1, 4)]})
    monkeypatch.setattr(compiled_speed, "SMALL", {"one": linear})
    monkeypatch.setattr(compiled_speed, "TUNED", {"one": linear})
    monkeypatch.setattr(fusion, "ROWS", ((4, 8),))
    monkeypatch.setattr(cuda_graphs, "SIDES", (4, 16))
    assert CLAIMS[id].check(Pretending()).numbers


@pytest.mark.full
def test_a_custom_op_trains_if_its_backward_is_registered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    claim = CLAIMS["custom-op-autograd"]
    if missing := lacking(claim, ["cpu"]):
        pytest.skip(missing)
    assert claim.check(Cpu()).verdict == WITHIN_LIMITS
    monkeypatch.setattr(CustomOpDef, "register_autograd", lambda *_, **__: None)
    assert claim.check(Cpu()).verdict == REFUTED


@pytest.mark.full
@pytest.mark.parametrize(
    ("id", "verdict"), [("fused-pointwise", WITHIN_LIMITS), ("custom-op-opaque", WITHIN_LIMITS)]
)
def test_inductors_kernels_are_counted(id: str, verdict: str) -> None:
    if missing := lacking(CLAIMS[id], ["cpu"]):
        pytest.skip(missing)
    assert CLAIMS[id].check(Cpu()).verdict == verdict


def test_undecided_without_what_a_verdict_rests_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """No kernel of autograd is seen: nothing says which comes first."""
    monkeypatch.setattr(autograd, "probed", lambda operator, keys: probed(operator, keys[:1]))
    assert CLAIMS["autograd-above-autocast"].check(Cpu()).verdict == UNDECIDED
