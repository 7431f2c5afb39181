"""What `data=cold` and `data=cold_weights` evict, and when that is not believed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_map_only

from modescope.bench.devices.devices import Cpu, Evictor, Prepared
from modescope.bench.evidence import cold_data
from modescope.bench.model.subject import Built, Inputs, Subject
from modescope.bench.modes import modes
from modescope.bench.modes.phases import ONE_CALL
from modescope.bench.records.cases import COLD, COLD_WEIGHTS, WARM, Mode, Variant
from modescope.bench.records.columns.checks import Checks
from modescope.bench.timing import timers

KIB = 2**10
EAGER = Variant(Mode("eager", "no_grad"), "fp32")


def built(module: torch.nn.Module, x: torch.Tensor) -> Built:
    return modes.build(Subject(module, Inputs((x,), {})), EAGER, False, Cpu(), ONE_CALL)


class Slow(Cpu):
    """Evicts by waiting: reading after an eviction takes twice as long, or as long (`factor`)."""

    def __init__(self, factor: float = 2.0, last_bytes: int | None = 2**30) -> None:
        self.factor, self.last_bytes = factor, last_bytes
        self.now_s, self.is_cold = 0.0, False
        self.asked: list[tuple[list[int], list[int]]] = []
        self.clock = lambda: self.now_s

    def cache_bytes(self) -> tuple[int | None, int | None]:
        return 2**20, self.last_bytes

    def evictor(self, data: Sequence[torch.Tensor], kept: Sequence[torch.Tensor]) -> Evictor:
        self.asked.append(([t.nbytes for t in data], [t.nbytes for t in kept]))
        return Evictor("made up", self._evict, self._read)

    def _evict(self) -> None:
        self.now_s += 0.5
        self.is_cold = True

    def _read(self) -> None:
        self.now_s += self.factor if self.is_cold else 1.0
        self.is_cold = False


@pytest.fixture
def linear() -> Built:
    return built(torch.nn.Linear(256, 16), torch.ones(4, 256))


WEIGHTS, BIAS, INPUT, OUTPUT = 16 * KIB, 64, 4 * KIB, 256


def test_warm_data_are_measured_and_nothing_is_evicted(linear: Built) -> None:
    device = Slow()
    found = cold_data.set_up([linear], WARM, device)
    assert (found.built, found.doubt, device.asked) == ((linear,), None, [])
    assert found.columns.working_set_bytes == WEIGHTS + BIAS + INPUT + OUTPUT
    assert (found.columns.l2_bytes, found.columns.last_level_bytes) == (2**20, 2**30)
    assert found.columns.evicted_bytes is None


@pytest.mark.parametrize(
    ("data", "evicted", "kept"),
    [(COLD, [WEIGHTS, BIAS, INPUT], []), (COLD_WEIGHTS, [WEIGHTS, BIAS], [INPUT])],
)
def test_what_is_evicted(linear: Built, data: str, evicted: list[int], kept: list[int]) -> None:
    device = Slow()
    half = built(torch.nn.Linear(256, 8), torch.ones(4, 256))
    found = cold_data.set_up([linear, half], data, device)
    assert device.asked[0] == (evicted, kept)
    columns = found.columns
    assert columns.evicted_bytes == sum(evicted)
    assert columns.baseline_evicted_bytes == sum(evicted) - WEIGHTS // 2 - BIAS // 2
    assert (columns.cold_read_s, columns.warm_read_s, columns.eviction_s) == (2.0, 1.0, 0.5)
    for step in found.built:
        assert isinstance(step.timed(), Prepared)
        assert step.step is not step.timed()
    assert found.doubt is None
    assert found.add_to(Checks(in_effect=True)) == Checks(in_effect=True)


@pytest.mark.parametrize(("factor", "sees"), [(1.0, False), (1.09, False), (1.11, True)])
def test_data_that_are_read_as_fast_as_before_were_not_evicted(
    linear: Built, factor: float, sees: bool
) -> None:
    found = cold_data.set_up([linear], COLD, Slow(factor))
    assert found.doubt == (None if sees else cold_data.NOTHING)
    checks = found.add_to(Checks(in_effect=True, in_effect_note="compiled in pieces"))
    assert checks.in_effect is sees
    assert str(checks.in_effect_note).endswith("compiled in pieces")


def test_what_cannot_be_timed_is_not_believed(
    linear: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a queue that opens early has no device time."""
    device, real = Slow(), timers.latency

    def latency(step: Any, *given: Any) -> timers.Timing:
        return real(step, *given) if given[-1] > 1 else timers.Timing(())  # a reading is one call

    monkeypatch.setattr(timers, "latency", latency)
    found = cold_data.set_up([linear], COLD, device)
    assert (found.doubt, found.columns.cold_read_s) == (cold_data.UNTIMED, None)


@pytest.mark.parametrize("side", [0, 1])
def test_each_side_has_to_be_evicted(linear: Built, side: int) -> None:
    class Half(Slow):
        """Evicts nothing of one of the sides."""

        def evictor(self, data: Sequence[torch.Tensor], kept: Sequence[torch.Tensor]) -> Evictor:
            made = super().evictor(data, kept)
            return replace(made, evict=lambda: None) if len(self.asked) - 1 == side else made

    assert cold_data.set_up([linear, linear], COLD, Half()).doubt == cold_data.NOTHING


def test_a_function_that_evicts_nothing_is_noticed(
    linear: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpu = Cpu()
    real = cpu.evictor(linear.tensors(), [])
    monkeypatch.setattr(cpu, "evictor", lambda *given: replace(real, evict=lambda: None))
    large = built(torch.nn.Linear(1024, 1024), torch.ones(1, 1024))
    assert cold_data.set_up([large], COLD, cpu).doubt == cold_data.NOTHING


def test_large_data_evict_themselves(linear: Built) -> None:
    device = Slow(last_bytes=(WEIGHTS + BIAS) // 4)
    found = cold_data.set_up([linear], COLD_WEIGHTS, device)
    assert found.doubt is None  # of exactly four times the cache something may be left
    device = Slow(last_bytes=(WEIGHTS + BIAS) // 4 - 1)
    found = cold_data.set_up([linear], COLD_WEIGHTS, device)
    assert (found.doubt, device.asked) == (cold_data.FITS_NOWHERE, [])
    assert found.built[0].timed() is linear.step


def test_a_model_without_weights_has_none_to_evict() -> None:
    relu = built(torch.nn.ReLU(), torch.ones(4, 256))
    assert cold_data.set_up([relu], COLD_WEIGHTS, Slow()).doubt == cold_data.NO_WEIGHTS
    assert cold_data.set_up([relu], COLD, Slow()).doubt is None


class Wrapper(torch.Tensor):
    """A tensor without memory of its own, as libraries for quantisation have."""

    wrapped: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Wrapper:
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        made.wrapped = inner
        return made

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> torch.Tensor:
        given = tree_map_only(Wrapper, lambda wrapper: wrapper.wrapped, args)
        result = func(*given, **(kwargs or {}))
        return cls(result) if func is torch.ops.aten.detach.default else result


class Flat(Wrapper):
    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["wrapped"], None

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> Flat:
        return Flat(inner["wrapped"])


class Product(torch.nn.Module):
    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(weight, requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight @ x


DENSE = torch.eye(32)
SQUARE = 32 * 32 * 4
INDICES = 32 * 8  # of the diagonal's elements
DIAGONAL = torch.arange(33), torch.arange(32), torch.ones(32)


@pytest.mark.parametrize(
    ("weight", "parts"),
    [
        (Flat(DENSE), [SQUARE]),
        (Wrapper(DENSE), []),  # nobody knows what it wraps
        (DENSE.to_sparse_coo(), [32 * 4, 2 * INDICES]),
        (torch.sparse_csr_tensor(*DIAGONAL), [32 * 4, INDICES + 8, INDICES]),
        (torch.sparse_csc_tensor(*DIAGONAL), [32 * 4, INDICES + 8, INDICES]),
    ],
    ids=["wrapper", "unknown", "coo", "csr", "csc"],
)
def test_weights_of_parts_are_evicted_part_by_part(weight: torch.Tensor, parts: list[int]) -> None:
    device = Slow()
    step = built(Product(weight), torch.ones(32, 4))
    found = cold_data.set_up([step], COLD_WEIGHTS, device)
    assert device.asked == ([(parts, [512])] if parts else [])
    assert found.columns.evicted_bytes == sum(parts)
    assert found.columns.working_set_bytes == sum(parts) + 512 + 512
    assert found.doubt == (None if parts else cold_data.NO_WEIGHTS)


class Replacing(torch.nn.Module):
    """Puts new tensors in the place of its weight or of a counter in each call."""

    count: torch.Tensor

    def __init__(self, moves_weight: bool) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(256, 16)
        self.moves_weight = moves_weight
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count = self.count + 1
        if self.moves_weight:
            self.inner.weight.data = self.inner.weight.data.clone()
        result: torch.Tensor = self.inner(x)
        return result


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("moves_weight", [True, False])
def test_weights_that_each_call_replaces_are_not_cold(
    linear: Built, moves_weight: bool, side: int
) -> None:
    replacing = built(Replacing(moves_weight), torch.ones(4, 256))
    pair = [replacing, linear] if side == 0 else [linear, replacing]
    found = cold_data.set_up(pair, COLD_WEIGHTS, Slow())
    assert found.doubt == (cold_data.MOVED if moves_weight else None)
