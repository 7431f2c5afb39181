"""Experiments that would wait for a GPU, a compiler or a clock, run here without: sound Python.

torch.compile captures and differentiates, and generates no kernels; a comparison is made up.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import CellType, FunctionType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._library.custom_ops import CustomOpDef

from bench.claims.chapters import autotuning, compile_speed, fusion, graph_memory, reduce_overhead
from bench.claims.chapters.compile_speed import Size
from bench.claims.chapters.reduce_overhead import Case
from bench.claims.claim import REFUTED, UNDECIDED, WITHIN_LIMITS
from bench.claims.measuring import work_of
from bench.claims.table import CLAIMS
from bench.devices import Cpu, Step
from bench.memory.allocators import Allocator, CpuAllocator, Pools
from bench.stats import Estimate

pytestmark = pytest.mark.usefixtures("as_in_a_child")

COMPILE = torch.compile
FASTER = Estimate(1.5, 1.4, 1.6)


def captured_only(model: Any = None, *, mode: str = "default", **how: Any) -> Any:
    """torch.compile without Inductor."""
    if model is None:
        return partial(captured_only, mode=mode, **how)
    return COMPILE(model, backend="aot_eager", **how)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", captured_only)
    for chapter in (compile_speed, reduce_overhead, autotuning):
        monkeypatch.setattr(chapter, "speedup", compared)


def compared(case: Step, baseline: Step, *_: object) -> Estimate:
    """Both are called."""
    case()
    baseline()
    return FASTER


def test_a_transformer_is_trained_and_used(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = (Size(1, 8, 2, 1, 4), Size(1, 8, 2, 2, 4))
    monkeypatch.setattr(compile_speed, "SIZES", {"cpu": sizes})
    seen = CLAIMS["compile-speedup"].observe(Cpu())
    for by_size in (seen.training, seen.inference, seen.first_s, seen.step_s):
        assert list(by_size) == ["1 layer of 8, 1 × 4 tokens", "1 layer of 8, 2 × 4 tokens"]
    assert min(seen.first_s.values()) > 0
    assert set(seen.training.values()) == set(seen.inference.values()) == {FASTER}


def tiny(case: Case) -> Case:
    return Case(case.what, lambda: nn.Linear(4, 4), (2, 4))


def test_modes_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LARGE", "BROKEN"):
        monkeypatch.setattr(reduce_overhead, name, tiny(getattr(reduce_overhead, name)))
    monkeypatch.setattr(reduce_overhead, "SMALL", tuple(map(tiny, reduce_overhead.SMALL)))
    claim = CLAIMS["reduce-overhead-graphs"]
    seen = claim.observe(Cpu())
    assert set(seen.graphs) == set(seen.launches) == {*seen.gains, reduce_overhead.LARGE.what}
    assert set(seen.graphs.values()) == {seen.with_grad_graphs} == {0}
    assert claim.decide(seen).answer == REFUTED, "there are no CUDA graphs here"


def test_autotuning_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = tuple(map(tiny, autotuning.TUNED))
    monkeypatch.setattr(autotuning, "TUNED", cases)
    seen = CLAIMS["autotune-best"].observe(Cpu())
    for by_model in (seen.default_s, seen.graphs_s, seen.tuned_s, seen.over_graphs):
        assert list(by_model) == [case.what for case in cases]
    assert min(seen.tuned_s.values()) > 0


def test_layer_norms_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion, "ROWS", ((4, 8),))
    seen = CLAIMS["layernorm-kernels"].observe(Cpu())
    assert (seen.eager, seen.built_in) == ({"4 × 8": 8}, {"4 × 8": 1})


def test_models_of_the_gpu_can_be_called() -> None:
    for case in (*autotuning.TUNED, *reduce_overhead.SMALL, reduce_overhead.BROKEN):
        x = torch.ones(2, *case.shape[1:])
        assert reduce_overhead.call(case.build(), x).shape == x.shape


def test_handwritten_norms_are_norms() -> None:
    x, weight, bias = torch.randn(3, 16), torch.randn(16), torch.randn(16)
    found, expected = fusion._handwritten(x, weight, bias), fusion._built_in(x, weight, bias)
    torch.testing.assert_close(found, expected)


def test_work_of_a_call_is_counted() -> None:
    x = torch.ones(8)
    assert work_of(lambda: (x * 2).sin().relu(), Cpu()).kernels == 3


def test_a_custom_op_trains_if_its_backward_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    claim = CLAIMS["custom-op-autograd"]
    assert claim.decide(claim.observe(Cpu())).answer == WITHIN_LIMITS
    monkeypatch.setattr(CustomOpDef, "register_autograd", lambda *_, **__: None)
    assert claim.decide(claim.observe(Cpu())).answer == REFUTED


class WithGraphs(Cpu):
    """Replays a step by calling it, with what it read at capture kept alive: as CUDA does not."""

    class Memory(CpuAllocator):
        def pools(self) -> Pools:
            return Pools(0, WithGraphs.captured * 100, WithGraphs.captured * 10)

    captured = 0
    allocator: Allocator = Memory()

    def capture(self, step: Step) -> Step:
        assert isinstance(step, FunctionType)
        cells = [each.cell_contents for each in step.__closure__]
        held = tuple(CellType(list(c) if isinstance(c, list) else c) for c in cells)
        call: Callable[[], Tensor] = FunctionType(step.__code__, step.__globals__, closure=held)
        output = call()
        WithGraphs.captured += 1
        return lambda: output.copy_(call())


def test_inputs_whose_memory_nobody_took_prove_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_memory, "COUNT", 64)
    claim = CLAIMS["capture-alloc-safe"]
    seen = claim.observe(WithGraphs())
    assert (seen.right, seen.strangers_hurt, seen.overwritten) == (seen.replays, 0, True)
    assert (seen.before, seen.after, seen.reused) == (6.0, 6.0, False)
    assert claim.decide(seen).answer == UNDECIDED
