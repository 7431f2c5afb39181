"""What a module is and does in a first call, to compare a copy of it, or what was saved, with it.

A pickle may lack something without a word: hooks on tensors, what was changed in a class, tables of
the process. What `modescope.compare` was given is therefore described in the caller's process.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
import warnings
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from modescope.bench.devices.cuda import gpu_in_use
from modescope.bench.model import (
    building,
    copies,
    outputs,
    pickled_model,
    plain_call,
    torch_settings,
)
from modescope.bench.model.compiler import OperatorMode
from modescope.bench.model.module_state import Snapshot
from modescope.bench.model.subject import Subject
from modescope.bench.records.cases import INPUTS, MODEL, Model
from modescope.bench.records.errors import one_line

DESCRIPTION, CALL = "description", "first_call"
"""Keys of the file that lies beside a saved module."""

OTHER_COPY = (
    "{name}: what a fresh process loads differs from it in {what}; give a function that builds the "
    "module instead"
)

FORK_S = 30.0

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
        sizes, others = ({p: v[0] for p, v in call.values.items()} for call in (self, other))
        if sizes != others:
            return f"outputs of sizes {others} instead of {sizes}"
        for place, (_, *numbers) in self.values.items():
            scale = max(abs(numbers[0]), 1e-30)
            now = other.values[place][1:]
            apart = max(abs(a - b) for a, b in zip(numbers, now, strict=True)) / scale
            if apart > CLOSE and not (self.random or other.random):
                return f"output {place} differs by {apart:.0%}".replace("  ", " ")
        if self.device == other.device and self.operators != other.operators:
            # further ones may fill tables that the caller's process has filled already
            lacks = Counter(self.operators) - Counter(other.operators)
            return ", ".join(f"without {name}" for name in [*lacks][: copies.FEW]) or None
        return None


def first_call(subject: Subject) -> FirstCall:
    """Calls the module in eval() on copies of the inputs; leaves module and process as they were.

    Gradients are off if the module works without them.
    """
    module, seen = subject.module, _Operators()
    modes = [(part, part.training) for part in module.modules()]
    before = Snapshot(module)
    gpu = gpu_in_use()
    device = "cuda" if any(tensor.is_cuda for tensor in subject.tensors()) else "cpu"
    try:
        with (
            torch_settings.keep(),
            copies.keep_generators(),
            torch.random.fork_rng([gpu] if gpu else []),
            torch.inference_mode(False),
            torch.autocast("cpu", enabled=False),
            torch.autocast("cuda", enabled=False),
        ):
            if module.training:
                module.eval()
            torch.manual_seed(0)
            random.seed(0)
            state = torch.get_rng_state()
            with seen:
                result = plain_call.call_without_gradients(subject.call)
            drew = not torch.equal(state, torch.get_rng_state())
            values = {
                place: _summary(output) for place, output in outputs.comparable(result).items()
            }
            return FirstCall(None, device, dict(seen.names), values, drew)
    except Exception as error:
        return FirstCall(one_line(error, plain_call.LONGEST_ERROR))
    finally:
        for part, training in modes:
            if part.training != training:
                part.training = training
        before.restorer(frozenset(before.changed()))()


def find_fault(subject: Subject, copy: torch.nn.Module) -> str | None:
    """Returns in what a first call of `copy` differs from one of the subject's module, if in any.

    The module is left as it was.
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


def seen_in_fork(module: torch.nn.Module, inputs: object) -> dict[str, Any]:
    """Returns what `seen` does, and calls `module` in a fork of this process, so it never changes.

    Without a result after FORK_S seconds, or where a process cannot be forked (a GPU is in use, or
    the system is no Linux), it is not called.
    """
    kept = seen(module, None)
    if sys.platform != "linux" or gpu_in_use():
        return kept
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a notebook has several threads
        child = os.fork()
    if child == 0:
        try:
            _answer(writing, module, inputs)
        finally:
            os._exit(0)
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as pipe:
            ready, _, _ = select.select([pipe], [], [], FORK_S)
            text = pipe.read() if ready else b""
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return json.loads(text) if text else kept


def _answer(writing: int, module: torch.nn.Module, inputs: object) -> None:
    silent = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # what the model prints, it prints in the processes that measure
        os.dup2(silent, stream)
    torch.set_num_threads(1)  # threads do not survive a fork
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(json.dumps(seen(module, inputs)).encode())


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
