"""Experiments that would wait for a GPU, a compiler or a clock, run here without: sound Python.

torch.compile captures and differentiates, and generates no kernels; a comparison is made up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import CellType, FunctionType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._library.custom_ops import CustomOpDef

from modescope.bench.devices.allocators import Allocator, CpuAllocator, Pools
from modescope.bench.devices.devices import Cpu, Step
from modescope.bench.stats.estimates import Estimate
from modescope.bench.tools.claims import lab
from modescope.bench.tools.claims.chapters.autograd.versions import NO_GRADIENT
from modescope.bench.tools.claims.chapters.compile import fusion, modes
from modescope.bench.tools.claims.chapters.compile import speed as compile_speed
from modescope.bench.tools.claims.chapters.compile.modes import Model
from modescope.bench.tools.claims.chapters.cuda_graphs import memory as graph_memory
from modescope.bench.tools.claims.measuring import work_of
from modescope.bench.tools.claims.table import CLAIMS
from modescope.bench.tools.claims.verdict import REFUTED, UNDECIDED, WITHIN_LIMITS

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("as_in_a_child")]

COMPILE = torch.compile
FASTER = Estimate(1.5, 1.4, 1.6)
EAGER = "eager"


@pytest.fixture(autouse=True)
def sides(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Of each comparison, in which modes the case and the baseline call compiled code."""
    modes_called: list[str] = []
    noted: list[tuple[str, str]] = []

    def captured_only(model: Any = None, *, mode: str = "default", **how: Any) -> Any:
        """torch.compile without Inductor."""
        if model is None:
            return partial(captured_only, mode=mode, **how)
        compiled: Any = COMPILE(model, backend="aot_eager", **how)

        def call(*arguments: Any) -> Any:
            modes_called.append(mode)
            return compiled(*arguments)

        return call

    def modes_of(step: Step) -> str:
        modes_called.clear()
        step()
        return " ".join(modes_called) or EAGER

    def compared(case: Step, baseline: Step, *_: object) -> Estimate:
        noted.append((modes_of(case), modes_of(baseline)))
        return FASTER

    monkeypatch.setattr(torch, "compile", captured_only)
    monkeypatch.setattr(lab, "speedup", compared)
    return noted


def test_a_transformer_is_trained_and_used(
    sides: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {"one": (1, 8, 2, 1, 4), "two": (1, 8, 2, 2, 4)}
    monkeypatch.setattr(compile_speed, "SIZES", {"cpu": sizes})
    observed = CLAIMS["compile-speedup"].observe(Cpu())
    for by_size in (observed.training, observed.inference, observed.first_s, observed.step_s):
        assert list(by_size) == ["one", "two"]
    assert min(observed.first_s.values()) > 0
    assert set(observed.training.values()) == set(observed.inference.values()) == {FASTER}
    assert sides == [("default", EAGER)] * 4


def tiny(models: Mapping[str, Model]) -> dict[str, Model]:
    return {name: (lambda: nn.Linear(4, 4), (2, 4)) for name in models}


def test_modes_are_compared(sides: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modes, "REPLAYED", tiny(modes.REPLAYED))
    claim = CLAIMS["reduce-overhead-graphs"]
    observed = claim.observe(Cpu())
    assert set(observed.graphs) == {*observed.gains, modes.LARGE}
    assert set(observed.graphs.values()) == {observed.with_grad_graphs} == {0}
    assert claim.decide(observed).answer == REFUTED, "there are no CUDA graphs here"
    assert sides == [("reduce-overhead", "default")] * 3


def test_autotuning_is_compared(
    sides: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(modes, "TUNED", tiny(modes.TUNED))
    observed = CLAIMS["autotune-best"].observe(Cpu())
    for by_model in (observed.default_s, observed.graphs_s, observed.tuned_s, observed.over_graphs):
        assert list(by_model) == list(modes.TUNED)
    assert min(observed.tuned_s.values()) > 0
    others = ("default", "reduce-overhead")
    assert sides == [("max-autotune", other) for _ in modes.TUNED for other in others]


def test_layer_norms_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion, "ROWS", ((4, 8),))
    observed = CLAIMS["layernorm-kernels"].observe(Cpu())
    assert (observed.eager, observed.built_in) == ({"4 × 8": 8}, {"4 × 8": 1})


def test_models_of_the_gpu_can_be_called() -> None:
    for build, shape in (modes.REPLAYED | modes.TUNED).values():
        x = torch.ones(2, *shape[1:])
        assert modes.call(build(), x).shape == x.shape


def test_handwritten_norms_are_norms() -> None:
    inputs = torch.randn(3, 16), torch.randn(16), torch.randn(16)
    result, expected = (norm(*inputs) for norm in fusion.NORMS.values())
    torch.testing.assert_close(result, expected)


def test_work_of_a_call_is_counted() -> None:
    x = torch.ones(8)
    assert work_of(lambda: (x * 2).sin().relu(), Cpu()).kernels == 3


def test_a_gradient_that_is_missing_without_an_error_is_no_refusal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add = Tensor.__add__
    monkeypatch.setattr(Tensor, "__add__", lambda x, y: add(x, y) * 0)
    observed = CLAIMS["inference-tensors"].observe(Cpu())
    assert observed.uses["w + y"] == NO_GRADIENT


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
    observed = claim.observe(WithGraphs())
    assert (observed.right, observed.strangers_hurt, observed.kept) == (
        observed.replays,
        0,
        False,
    )
    assert (observed.before, observed.after, observed.reused) == (6.0, 6.0, False)
    assert claim.decide(observed).answer == UNDECIDED
