"""Times the dispatch of a call: the same call on an empty batch, which has nothing to compute.

Every operator still goes through all layers (Python, dispatcher, guards, allocation). This requires
that an empty batch runs the same operators as the real batch, which is checked.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

import torch

from modescope.bench.devices.allocators import parts
from modescope.bench.devices.devices import Hardware, Step, prepare_call
from modescope.bench.model.module_state import keep_state
from modescope.bench.model.subject import Subject
from modescope.bench.modes import backends, modes, quantizing
from modescope.bench.modes.phases import ONE_CALL
from modescope.bench.passes import operator_comparison
from modescope.bench.passes.operator_comparison import OperatorComparison, Operators
from modescope.bench.records.cases import Model, Variant
from modescope.bench.records.errors import one_line
from modescope.bench.records.paths import ROOT, is_installed
from modescope.bench.records.plans import Budget
from modescope.bench.timing import memory_layout
from modescope.bench.timing.rounds import Clock, Side, settling_calls
from modescope.bench.timing.timers import calls_for, host, reading_cost

WARM_UP_CALLS = 3

BENCH = str(ROOT / "bench")

NO_LAUNCHES = (
    "guards and wrapper only: code compiled for an empty batch leaves out kernels and nearly all "
    "library calls, so launches count as work"
)


def objection(variant: Variant, device: Hardware, model: Model) -> str | None:
    """Says why the time of `variant` on an empty batch is not its dispatch time; None if it is."""
    if variant.mode.autocast:
        return "autocast casts every weight on an empty batch too"
    if variant.mode.graph or (backends.captures(variant.mode) and device.type == "cuda"):
        return "the captured graph of an empty batch is empty"
    if backends.is_prebuilt(variant.mode):
        return "a package takes no other batch than the one that it was built for"
    if quantizing.is_asked(variant.mode) and not quantizing.is_widened(variant.mode):
        return "torchao multiplies no empty batch of inputs of fewer bits"
    if model.batch_dim is None:
        return "the model has no batch dimension (model.batch_dim)"
    return None


def prepare(
    subject: Subject, variant: Variant, model: Model, device: Hardware
) -> tuple[Step | None, str | None]:
    """Returns a warm call of `variant` on an empty batch, and a note on its time or None.

    The call is None if its time would not show dispatch, and the note then says why. A compiled
    mode compiles once more for the empty shape. The call uses the weights of `subject`, but its own
    copy of the buffers, because an empty batch may change them: running means become nan.
    """
    if reason := objection(variant, device, model):
        return None, reason
    assert model.batch_dim is not None
    if not any(_has(tensor, model.batch_dim) for tensor in subject.inputs.tensors()):
        return None, f"no input has a dimension {model.batch_dim} (model.batch_dim)"
    if any(
        tensor.is_nested and tensor.layout == torch.strided for tensor in subject.inputs.tensors()
    ):
        return None, "torch crashes on an empty batch of strided nested tensors"
    with keep_state(subject.module):
        try:
            real = _operators(subject, variant, device)
        except Exception as error:
            return None, f"torch cannot list the operators of a call ({one_line(error, 120)})"
    try:
        emptied = _empty(subject, model.batch_dim)
        empty = _operators(emptied, variant, device)
        if empty.working:
            names = ", ".join(dict.fromkeys(empty.working))
            return None, f"{names} works on an empty batch too"
        compared = operator_comparison.compare(real.names, empty.names)
        usable, note = _judge(compared, variant)
        if not usable:
            return None, note
        step = modes.build(emptied, variant, model.fullgraph, device, ONE_CALL).step
        for _ in range(WARM_UP_CALLS):
            step()
    except Exception as error:
        return None, f"an empty batch fails{_place(error)} ({one_line(error, 120)})"
    return step, note


def _place(error: Exception) -> str:
    """Says where the program called what raised `error`, which may be an operator of torch."""
    frames = traceback.extract_tb(error.__traceback__)
    outside = [frame for frame in frames if not is_installed(frame.filename)
               and not frame.filename.startswith(("<", BENCH))]  # fmt: skip
    return f" at {Path(outside[-1].filename).name}:{outside[-1].lineno}" if outside else ""


def clock(steps: Sequence[Step], device: Hardware, budget: Budget) -> Clock:
    """Returns a timer of `steps`: warm calls on an empty batch, of the case and of any baseline.

    A call without work is so short that the state of malloc's free lists matters: 17 operators took
    21 or 24 µs, for seconds on end, depending on earlier imports. So that state is randomised
    before each block.
    """
    cost_s = reading_cost(device.clock)
    sides = []
    for step in steps:
        per_call_s = median(host(step, device, WARM_UP_CALLS).samples_s)
        calls = calls_for(budget.block_s, per_call_s, cost_s)
        sides.append(Side(step, host, calls, settling_calls(per_call_s)))
    return Clock("dispatch", tuple(sides), partial(memory_layout.disturb_heap, random.Random(0)))


def _judge(compared: OperatorComparison, variant: Variant) -> tuple[bool, str | None]:
    """Returns whether the time of an empty batch counts as dispatch time, and a note on it or None.

    `compared`: how the operators of the empty batch differ from those of the real one.
    """
    if compared.unknown:
        return False, f"an empty batch runs other operators than the real one: {compared.unknown}"
    if variant.mode.compiles:
        return True, NO_LAUNCHES
    if not compared.detours:
        return True, None
    return compared.share <= operator_comparison.MOST_DETOURS, (
        f"torch takes another route on an empty batch for {compared.share:.0%} of the operators "
        f"({', '.join(compared.detours)})"
    )


def _operators(subject: Subject, variant: Variant, device: Hardware) -> Operators:
    """Lists the operators of a call in plain eager, because compiled code shows none.

    Uses no_grad instead of inference mode, which hides the operators within compositions: an LSTM
    is one operator there, whether it calls ten others or a hundred.
    """
    grad = "no_grad" if variant.mode.grad == "inference_mode" else variant.mode.grad
    eager = replace(variant, mode=variant.mode.eager_mode(grad))
    step = modes.build(subject, eager, True, device, ONE_CALL).step
    call, operators = prepare_call(step), Operators()
    with operators:
        call()
    return operators


def _empty(subject: Subject, batch_dim: int) -> Subject:
    """Returns `subject` with an empty batch and with buffers, but no weights, of its own."""

    def emptied(tensor: torch.Tensor) -> torch.Tensor:
        if not _has(tensor, batch_dim):
            return tensor
        return tensor.narrow(batch_dim, 0, 0)

    module = subject.another()
    for weight, shared in zip(module.parameters(), subject.module.parameters(), strict=True):
        for own, other in zip(parts(weight), parts(shared), strict=True):
            own.data = other.data
    return replace(subject, module=module, inputs=subject.inputs.map(emptied)).remember_state()


def _has(tensor: torch.Tensor, dimension: int) -> bool:
    return -tensor.dim() <= dimension < tensor.dim()
