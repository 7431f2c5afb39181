"""The same call on an empty batch: Python, dispatcher, guards and allocation, and no work.

Every operator goes through all layers and finds nothing to compute, so what is timed is dispatch.
That holds only where an empty batch runs the operators of the real one, which is checked.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from statistics import median
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from bench import modes, placement, routes
from bench.devices import Hardware, Step
from bench.isolation import one_line
from bench.records import Budget, Model, Variant
from bench.rounds import quiet_gc
from bench.subject import Subject, state_kept
from bench.timers import Timing, calls_for, host, reading_cost

WARM_UP_CALLS = 3

ALLOCATIONS = (torch.ops.aten.empty, torch.ops.aten.empty_like, torch.ops.aten.empty_strided)
"""Give memory without computing what is in it, which is part of dispatch."""


NO_LAUNCHES = (
    "guards and wrapper alone: code compiled for an empty batch leaves out kernels and library "
    "calls, whose launches count as work"
)

TRAINS = "in training the optimizer and the gradients of weights have work on an empty batch too"


def objection(variant: Variant, device: Hardware, model: Model) -> str | None:
    """Why an empty batch of this variant would not show dispatch alone, or None."""
    if variant.mode.autocast:
        return "autocast casts every weight on an empty batch too"
    if variant.mode.graph or (variant.mode.uses_graphs and device.type == "cuda"):
        return "the captured graph of an empty batch is empty"
    if model.batch_dim is None:
        return "the model has no batch dimension (model.batch_dim)"
    return None


def dispatch(
    subject: Subject, variant: Variant, model: Model, device: Hardware, budget: Budget
) -> Timing:
    """Host time of a call on an empty batch, one sample per block.

    A compiled mode compiles once more for the empty shape, so this comes after all timing of the
    case itself. A forward that cannot take an empty batch, or runs other operators on it, gives no
    samples and the reason. The module's buffers are as before when it returns: moments of an empty
    batch are not numbers.
    """
    reason = objection(variant, device, model)
    if reason:
        return Timing((), reason)
    assert model.batch_dim is not None
    with state_kept(subject.module):
        try:
            real = _watched(subject, variant, device)
        except Exception as error:
            return Timing((), f"torch cannot list the operators of a call ({one_line(error, 120)})")
    with state_kept(subject.module):
        try:
            emptied = _emptied(subject, model.batch_dim)
            empty = _watched(emptied, variant, device)
            if empty.working:
                names = ", ".join(dict.fromkeys(empty.working))
                return Timing((), f"{names} works on an empty batch too")
            compared = routes.compare(real.operators, empty.operators)
            if reason := _other_program(compared, variant):
                return Timing((), reason)
            step = modes.build(emptied, variant, model.fullgraph, device).step
            for _ in range(WARM_UP_CALLS):
                step()
        except Exception as error:
            return Timing((), f"the model cannot take an empty batch ({one_line(error, 120)})")
        return replace(_blocks(step, device, budget), reason=_remark(compared, variant))


def _other_program(compared: routes.Comparison, variant: Variant) -> str | None:
    """Why the time of an empty batch would not be the dispatch of the real one, or None."""
    if compared.unknown:
        return f"an empty batch runs other operators than the real one: {compared.unknown}"
    if compared.error > routes.LARGEST_ERROR and not variant.mode.compiles:
        return (
            f"torch takes another route on an empty batch ({', '.join(compared.detours)}), which "
            f"would falsify dispatch by some {compared.error:.0%}"
        )
    return None


def _remark(compared: routes.Comparison, variant: Variant) -> str | None:
    """What to know about the samples, or None."""
    if variant.mode.compiles:
        return NO_LAUNCHES
    if not compared.detours:
        return None
    return (
        f"torch takes another route on an empty batch ({', '.join(compared.detours)}), which "
        f"falsifies dispatch by some {compared.error:.0%}"
    )


def _blocks(step: Step, device: Hardware, budget: Budget) -> Timing:
    """Blocks over many states of the heap, after as many unmeasured ones for it to settle.

    A call without work is so short that the state of malloc's free lists shows: 21 or 24 us for 17
    operators, for seconds on end, by the luck of what was imported before.
    """
    per_call_s = median(host(step, device, WARM_UP_CALLS).samples_s)
    calls = calls_for(budget.block_s, per_call_s, reading_cost(device.clock))
    draw = random.Random(0)
    blocks_s = []
    with quiet_gc():
        for measured in (False, True):
            for _ in range(budget.clock_rounds):
                held = placement.heap(draw)
                block_s = median(host(step, device, calls).samples_s)
                blocks_s += [block_s] if measured else []
                del held
    return Timing(tuple(blocks_s))


def _watched(subject: Subject, variant: Variant, device: Hardware) -> _Watch:
    """The operators of a call in plain eager, as compiled code shows none.

    Not in inference mode, which hands over compositions whole: an LSTM is one operator there, and
    ten below it or a hundred. no_grad takes the same routes and shows them.
    """
    grad = "no_grad" if variant.mode.grad == "inference_mode" else variant.mode.grad
    mode = replace(variant.mode, grad=grad, compile="none", graph=False)
    step = modes.build(subject, replace(variant, mode=mode), True, device).step
    watch = _Watch()
    with watch:
        step()
    return watch


class _Watch(TorchDispatchMode):
    """Notes all operators, and those that make more than a number of an empty batch: they work."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operators: list[str] = []
        self.working: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        results = func(*args, **(kwargs or {}))
        self.operators.append(_name(func, args, kwargs or {}))
        known = {_storage(tensor) for tensor in _tensors((args, kwargs))}
        computes = func.overloadpacket not in ALLOCATIONS
        if computes and any(t.numel() > 1 and _storage(t) not in known for t in _tensors(results)):
            self.working.append(str(func.overloadpacket))
        return results


def _name(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """As routes.compare takes it; contiguous() and reshape() name the format, clone() does not."""
    name = str(func.overloadpacket)
    if func.overloadpacket is not torch.ops.aten.clone:
        return name
    asked = kwargs.get("memory_format") is torch.contiguous_format
    return name + routes.STRIDED if asked and not args[0].is_contiguous() else name


def _tensors(tree: object) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _emptied(subject: Subject, batch_dim: int) -> Subject:
    """The same module with inputs that have no rows."""

    def no_rows(tensor: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(tensor.narrow(batch_dim, 0, 0))

    return Subject(subject.module, subject.inputs.map(no_rows))
