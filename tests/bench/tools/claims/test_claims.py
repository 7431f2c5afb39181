"""Claims for real: as torch is, in a torch in which the opposite is true, and with given times."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
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
    dispatch_cost,
)
from modescope.bench.tools.claims.check import CLAIMS
from modescope.bench.tools.claims.claim import HOLDS, REFUTED, UNDECIDED, WITHIN_LIMITS
from modescope.bench.tools.claims.dispatch import probed, visited
from modescope.bench.tools.claims.measuring import compiler_work, convert, speedup
from modescope.bench.tools.selfcheck.workloads import delay
from tests.helpers.paths import REFERENCE

pytestmark = pytest.mark.usefixtures("as_in_a_child", "one_thread")

(FILE,) = (REFERENCE / "amd-epyc-avx2-2-cores" / "claims").glob("*.parquet")
ROWS = pq.read_table(FILE).to_pylist()
PUBLISHED = {row["claim"]: row["verdict"] for row in ROWS if row["verdict"]}
HERE = [id for id, each in CLAIMS.items() if not each.slow and "cpu" in each.needs]


@pytest.mark.parametrize("id", HERE)
def test_a_verdict_is_that_of_the_published_page(id: str) -> None:
    answer = CLAIMS[id].check(Cpu())
    assert answer.verdict == PUBLISHED[id], answer
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


def test_a_speedup_is_that_of_the_case() -> None:
    found = speedup(delay(200e-6), delay(300e-6), Cpu(), timed_max_s=0.1)
    assert found.low < found.value < found.high
    assert found.value == pytest.approx(1.5, rel=0.05)
    assert convert(Estimate(1.0, 0.5, None), lambda x: 2 * x) == Estimate(2.0, 1.0, None)


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
    return {
        "compiled_call": lambda *_: (None, 1.0),
        "work_of": lambda *_: SimpleNamespace(graph_launches=count),
    }


def profile(kernel_s: float) -> dict[str, Any]:
    return {
        "forward": lambda side, _: side,
        "profiled": lambda side, _: (3e-4, 1e-4 if side < 1000 else 9e-3, kernel_s),
    }


def kernels(found: list[int]) -> dict[str, Any]:
    """Of each size, eager and compiled."""
    coming = iter(found)

    def work_of(step: Step, _: Cpu) -> SimpleNamespace:
        step()
        return SimpleNamespace(kernels=next(coming))

    return {"work_of": work_of}


PRETENDED: dict[str, tuple[Any, Callable[[Any], dict[str, Any]]]] = {
    "inference-vs-no-grad": (dispatch_cost, lambda _: {}),
    "compile-speedup": (compiled_speed, first_calls),
    "autotune-best": (compiled_speed, compile_times),
    "reduce-overhead-graphs": (compiled_speed, graphs),
    "profiler-launch-bound": (cuda, profile),
    "layernorm-kernels": (compiler, kernels),
}
"""The file of a claim, and functions there that find a number."""


@pytest.mark.parametrize(
    ("id", "found", "gains", "verdict"),
    [
        ("inference-vs-no-grad", None, [1.0, 1.11, 1.11, 1.3], WITHIN_LIMITS),
        ("inference-vs-no-grad", None, [1.05, 1.11, 1.11, 1.11], REFUTED),  # the large product
        ("inference-vs-no-grad", None, [1.0204, 1.11, 1.11, 1.11], UNDECIDED),
        ("compile-speedup", 9.0, [1.5, 1.8], HOLDS),  # of training and inference
        ("compile-speedup", 0.2, [1.5, 1.8], REFUTED),
        ("compile-speedup", 9.0, [1.1, 1.3], REFUTED),
        ("compile-speedup", 9.0, [1.5, 1.2], REFUTED),
        ("compile-speedup", 9.0, [1.3, 1.8], UNDECIDED),
        ("compile-speedup", 9.0, [1.5, 1.5005], UNDECIDED),
        ("autotune-best", 30.0, [1.2] * 4 + [0.9] * 4, HOLDS),
        ("autotune-best", 30.0, [1.2] * 2 + [0.9] * 6, WITHIN_LIMITS),
        ("autotune-best", 30.0, [0.9] * 8, REFUTED),
        ("autotune-best", 2.5, [1.2] * 8, REFUTED),
        ("autotune-best", 30.0, [1.01] * 8, UNDECIDED),
        ("reduce-overhead-graphs", 1, [3.0, 1.1], WITHIN_LIMITS),
        ("reduce-overhead-graphs", 2, [3.0, 3.0], REFUTED),
        ("profiler-launch-bound", 3e-6, [3.0, 3.0, 1.0, 1.0], HOLDS),
        ("profiler-launch-bound", 2e-5, [3.0, 3.0, 1.0, 1.0], UNDECIDED),  # nothing is marked
        ("layernorm-kernels", [6, 1, 6, 1, 6, 2], [], WITHIN_LIMITS),
        ("layernorm-kernels", [6, 1, 6, 2, 6, 2], [], REFUTED),
        ("layernorm-kernels", [6, 1, 4, 1, 6, 1], [], REFUTED),
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
    assert claim.check(Cpu()).verdict == WITHIN_LIMITS
    monkeypatch.setattr(CustomOpDef, "register_autograd", lambda *_, **__: None)
    assert claim.check(Cpu()).verdict == REFUTED


@pytest.mark.full
@pytest.mark.parametrize("id", ["fused-pointwise", "custom-op-opaque"])
def test_inductors_kernels_are_counted(id: str) -> None:
    assert CLAIMS[id].check(Cpu()).verdict == WITHIN_LIMITS


def test_undecided_without_what_a_verdict_rests_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """No kernel of autograd is seen: nothing says which comes first."""
    monkeypatch.setattr(autograd, "probed", lambda operator, keys: probed(operator, keys[:1]))
    assert CLAIMS["autograd-above-autocast"].check(Cpu()).verdict == UNDECIDED
