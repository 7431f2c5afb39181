"""What a module is and does in a first call, to compare a copy of it, or what was saved, with it.

A pickle may lack something without a word: hooks on tensors, what was changed in a class, tables of
the process. What `modescope.compare` was given is therefore described in the caller's process.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from modescope.bench.records.cases import INPUTS, MODEL, Model
from modescope.bench.records.errors import one_line
from modescope.bench.steps import (
    building,
    copies,
    outputs,
    pickled_model,
    plain_call,
    torch_settings,
)
from modescope.bench.steps.compiler import OperatorMode
from modescope.bench.steps.module_state import Snapshot
from modescope.bench.steps.subject import Subject

DESCRIPTION, CALL = "description", "first_call"
"""Keys of the file that lies beside a saved module."""

OTHER_COPY = (
    "{name}: what a fresh process loads differs from it in {what}; give a function that builds the "
    "module instead"
)

CLOSE = 0.01
"""The relative difference up to which outputs are the same: they may come from a GPU and a CPU, or
be in half precision."""


@dataclass(frozen=True)
class FirstCall:
    """What a first call showed.

    `values` has for each output its size, its norm and its product with fixed numbers. `error` is
    what the call raised; None: nothing.
    """

    error: str | None = None
    device: str = "cpu"
    operators: dict[str, int] = field(default_factory=dict)
    values: dict[str, list[Any]] = field(default_factory=dict)
    random: bool = False  # whether it drew random numbers

    def difference(self, other: FirstCall) -> str | None:
        """Returns in what the call `other` differs from this one; None if in nothing.

        Calls that failed are not compared, nor are random values or operators of other devices.
        """
        if self.error or other.error:
            return None
        sizes, others = ({p: v[0] for p, v in each.values.items()} for each in (self, other))
        if sizes != others:
            return f"outputs of sizes {others} instead of {sizes}"
        for place, (_, *numbers) in self.values.items():
            scale = max(abs(numbers[0]), 1e-30)
            now = other.values[place][1:]
            apart = max(abs(one - two) for one, two in zip(numbers, now, strict=True)) / scale
            if apart > CLOSE and not (self.random or other.random):
                return f"output {place} differs by {apart:.0%}".replace("  ", " ")
        if self.device == other.device and self.operators != other.operators:
            lacks, adds = Counter(self.operators), Counter(other.operators)
            names = [f"without {name}" for name in lacks - adds]
            return ", ".join([*names, *(f"with {name}" for name in adds - lacks)][: copies.FEW])
        return None


def first_call(subject: Subject) -> FirstCall:
    """Calls the module in eval() on copies of the inputs; leaves module and process as they were.

    Gradients are off if the module works without them. What the call changes of the module's
    parameters is not put back.
    """
    module, seen = subject.module, _Operators()
    modes = [(part, part.training) for part in module.modules()]
    before = Snapshot(module, module)
    cuda = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
    device = "cuda" if any(each.is_cuda for each in subject.tensors()) else "cpu"
    try:
        with (
            torch_settings.keep(),
            copies.keep_generators(),
            torch.random.fork_rng(cuda),
            torch.inference_mode(False),
            torch.autocast("cpu", enabled=False),
            torch.autocast("cuda", enabled=False),
        ):
            module.eval()
            torch.manual_seed(0)
            random.seed(0)
            state = torch.get_rng_state()
            with seen:
                result = plain_call.call_without_gradients(subject.call)
            drew = not torch.equal(state, torch.get_rng_state())
            values = {place: _summary(each) for place, each in outputs.comparable(result).items()}
            return FirstCall(None, device, dict(seen.names), values, drew)
    except Exception as error:
        return FirstCall(one_line(error, plain_call.LONGEST_ERROR))
    finally:
        before.restorer(frozenset(before.changed()))()
        for part, training in modes:
            part.training = training


def find_fault(subject: Subject, copy: torch.nn.Module) -> str | None:
    """Returns in what a first call of `copy` differs from one of the subject's module, if in any.

    The module is left as it was, apart from parameters that the call changes.
    """
    own, other = first_call(subject), first_call(replace(subject, module=copy))
    if other.error and not own.error:
        return f"its first call fails: {other.error}"
    return own.difference(other)


def seen(module: torch.nn.Module, inputs: object) -> dict[str, Any]:
    """Returns what `module` is, and what it does with `inputs`, as JSON values."""
    given = building.parse_inputs(inputs)
    called = first_call(Subject(module, given)) if given else FirstCall("there are no inputs")
    return {DESCRIPTION: copies.describe(module), CALL: asdict(called)}


def find_loss(model: Model) -> str | None:
    """Returns what the loaded module lacks of the one that was saved, as a sentence.

    None if it lacks nothing, for a function, and if nothing is known of what was saved.
    """
    assert model.pickled is not None
    beside = Path(model.pickled.file).with_suffix(".json")
    if not beside.is_file():
        return None
    before = json.loads(beside.read_text(encoding="utf-8"))
    saved = pickled_model.read(model.pickled.file, model.name)
    lost = copies.differences(before[DESCRIPTION], copies.describe(saved[MODEL]))
    other: str | None = copies.shorten_list(lost)  # empty if there are none
    if not lost:
        first = FirstCall(**before[CALL])
        now = FirstCall(**seen(saved[MODEL], saved[INPUTS])[CALL])
        fails = now.error and not first.error
        apart = f"which fails ({now.error})" if fails else first.difference(now)
        other = apart and f"its first call, {apart}"
    return other and OTHER_COPY.format(name=model.name, what=other)


class _Operators(OperatorMode):
    """Counts the operators that are called while it is active."""

    def __init__(self) -> None:
        super().__init__()
        self.names: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        self.names[str(func)] += 1
        return func(*args, **(kwargs or {}))


def _summary(tensor: torch.Tensor) -> list[Any]:
    flat = outputs.zero_nonfinite(tensor).flatten().cpu()
    fixed = torch.arange(flat.numel(), dtype=torch.float64).cos()
    return [[*tensor.shape], float(flat.norm()), float(flat @ fixed)]
