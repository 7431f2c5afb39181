"""The training step, its parts, and all state that it changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.amp.grad_scaler import GradScaler
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    _CHECKPOINT_PREFIX,
    checkpoint_wrapper,
)
from torch.nn import Module, ModuleDict, ModuleList, Parameter
from torch.optim import Optimizer

from modescope.bench.devices.allocators import storage_bytes
from modescope.bench.model.subject import Built, State, StateSizes, StepPart
from modescope.bench.records.cases import Mode, Training
from modescope.bench.records.optimizers import IMPLEMENTATIONS, OPTIMIZERS

FIRST_SCALE = 2.0**16  # of the loss: GradScaler's default

MOST_HALVINGS = 24
"""The loss scale is halved at most this number of times before the first step: gradients that
overflow at 2**-8 overflow at any scale."""

HEADROOM = 4.0
"""The largest scale without overflow is divided by this factor, because other batches have larger
gradients, and their steps must not be skipped in the comparison with float64."""

FUSED_UNSCALES = "the fused optimizer unscales gradients itself, which is part of its time"


def _whole(module: Module, random: bool) -> Module:
    """Wraps `module` in one activation checkpoint, which recomputes its activations in backward.

    `random`: whether `module` draws random numbers. Only then does recomputing restore their state,
    because a CUDA graph cannot capture that.
    """
    return checkpoint_wrapper(module, preserve_rng_state=random)


def _children(module: Module, random: bool) -> Module:
    for name, child in list(module.named_children()):
        inside = isinstance(child, (ModuleList, ModuleDict))  # containers that are never called
        wrapped = _children(child, random) if inside else _whole(child, random)
        setattr(module, name, wrapped)
    return module


def trained_parameters(module: Module) -> dict[str, Parameter]:
    """Returns the parameters that require a gradient; names are without checkpoint wrappers."""
    named = {name.replace(_CHECKPOINT_PREFIX, ""): p for name, p in module.named_parameters()}
    return {name: parameter for name, parameter in named.items() if parameter.requires_grad}


RECOMPUTING: dict[str, Callable[[Module, bool], Module]] = {
    "none": lambda module, random: module,
    "children": _children,
    "model": _whole,
}
"""Maps the value of train.checkpoint to a function that adds activation checkpointing to a module
and returns it. The function may change the given module; its second argument says whether the
module draws random numbers."""

ComputeLoss = Callable[[], Any]


def optimizer(
    parameters: Iterable[torch.nn.Parameter], training: Training, mode: Mode
) -> Optimizer:
    """Makes the optimizer that `training` asks for; capturable if `mode` captures its step."""
    named = OPTIMIZERS[training.optimizer]
    options: dict[str, Any] = dict(IMPLEMENTATIONS[training.implementation])
    if named.counts_steps:
        capturable = training.capturable
        options["capturable"] = training.captures_step(mode) if capturable is None else capturable
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    made: Optimizer = getattr(torch.optim, named.torch_name)(trained, lr=training.lr, **options)
    return made


def unscales(made: Optimizer) -> bool:
    """Whether the optimizer unscales gradients and skips steps itself, instead of GradScaler."""
    return bool(getattr(made, "_step_supports_amp_scaling", False))


@dataclass(frozen=True)
class Start:
    """The initial state of training; `values` are in the order of the parameters."""

    values: tuple[torch.Tensor, ...]  # of the parameters that are trained
    scale: float = FIRST_SCALE  # of the loss, where it is scaled


def start_of(module: torch.nn.Module) -> Start:
    """Returns copies of the trained parameters of `module` as they are now."""
    trained = (parameter for parameter in module.parameters() if parameter.requires_grad)
    return Start(tuple(parameter.detach().clone() for parameter in trained))


@dataclass
class Trainer(State):
    """The state that training steps change, and the steps themselves: as a whole and in parts."""

    optimizer: Optimizer
    scaler: GradScaler | None
    forward: ComputeLoss  # contexts, model and loss
    start: Start
    captured: tuple[torch.Tensor | None, ...] = ()  # gradients that a captured step writes

    @property
    def trained(self) -> list[torch.nn.Parameter]:
        """The parameters that a step updates."""
        return [p for group in self.optimizer.param_groups for p in group["params"]]

    def step(self) -> torch.Tensor:
        """Runs forward, loss, backward and optimizer, as a user writes them; returns the loss."""
        self.clear()
        loss: torch.Tensor = self.forward()
        self.backward(loss)
        self.update()
        return loss

    def clear(self) -> None:
        """Drops the gradients of the previous step."""
        self.optimizer.zero_grad(set_to_none=True)

    def backward(self, loss: torch.Tensor) -> None:
        """Computes the gradients of the loss, scaled if there is a scaler."""
        (self.scaler.scale(loss) if self.scaler else loss).backward()

    def update(self) -> None:
        """Takes the optimizer's step; a scaler skips it if gradients overflowed."""
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()

    def tensors(self) -> list[torch.Tensor]:
        """Returns the tensors of the optimizer's state."""
        kept = (value for state in self.optimizer.state.values() for value in state.values())
        return [value for value in kept if isinstance(value, torch.Tensor)]

    def note_capture(self) -> None:
        """Remembers the gradients that replays write; call it after a capture of the step."""
        self.captured = tuple(parameter.grad for parameter in self.trained)

    def gradients(self) -> list[torch.Tensor]:
        """Returns the gradients of the last step."""
        return [p.grad for p in self.trained if p.grad is not None]

    def restore(self) -> None:
        """Restores the initial state, so that the next step is the first again.

        Writes in place, because compiled code and captured graphs contain the addresses. The
        optimizers' initial state is zero (torch.optim: SGD, AdamW). After a capture, gradients are
        again the tensors that replays write.
        """
        for parameter, gradient in zip(self.trained, self.captured, strict=bool(self.captured)):
            parameter.grad = gradient
        with torch.no_grad():
            for parameter, value in zip(self.trained, self.start.values, strict=True):
                parameter.copy_(value)
            for tensor in self.tensors():
                tensor.zero_()
        if self.scaler is not None:
            first = {"scale": self.start.scale, "_growth_tracker": 0}
            self.scaler.load_state_dict({**self.scaler.state_dict(), **first})

    def written(self, step: Callable[[], object]) -> list[torch.Tensor]:
        """Calls `step`; returns the tensors that it overwrites.

        These are the trained parameters that have a gradient (not the gradients themselves), and
        the tensors of the optimizer's state.
        """
        step()
        return [
            *(parameter for parameter in self.trained if parameter.grad is not None),
            *self.tensors(),
        ]

    def parts(self) -> tuple[StepPart, ...]:
        """Returns the parts of `step` that are timed, in order."""
        clear: StepPart = ("optimizer", lambda loss: self.clear())
        forward: StepPart = ("forward", lambda loss: self.forward())
        backward: StepPart = ("backward", lambda loss: loss.backward())
        scaler, optimizer = self.scaler, self.optimizer
        if scaler is None:
            return clear, forward, backward, ("optimizer", lambda loss: optimizer.step())
        unscale: StepPart = ("scaler", lambda loss: scaler.unscale_(optimizer))
        return (
            clear,
            forward,
            ("scaler", scaler.scale),
            backward,
            *(() if unscales(optimizer) else (unscale,)),
            ("optimizer", lambda loss: scaler.step(optimizer)),
            ("scaler", lambda loss: scaler.update()),
        )

    def parts_note(self) -> str | None:
        """Returns a note if the optimizer's time includes unscaling gradients, else None."""
        return FUSED_UNSCALES if self.scaler and unscales(self.optimizer) else None

    def sizes(self) -> StateSizes:
        """Returns the bytes of gradients and of the optimizer's state."""
        return StateSizes(storage_bytes(self.gradients()), storage_bytes(self.tensors()))

    def leave_device(self) -> None:
        """Moves the initial state to the host, from where restoring it is slow."""
        values = tuple(value.to("cpu") for value in self.start.values)
        self.start = replace(self.start, values=values)

    def copies_bytes(self) -> int:
        """Returns the bytes of the initial state if parameters are on the host too; else 0."""
        shares = all(parameter.device.type == "cpu" for parameter in self.trained)
        return storage_bytes(self.start.values) if shares else 0

    def adjust_start(self, step: Callable[[], object]) -> None:
        """Lowers the loss scale in `start` until the gradients of `step` do not overflow.

        `start` gets the scale found, divided by HEADROOM, so that no timed step is skipped, which
        would make it shorter. Without a loss scaler nothing is done. In blocks of thousands of
        steps GradScaler may still raise the scale.
        """
        if self.scaler is None:
            return
        for _ in range(MOST_HALVINGS):
            self.restore()
            step()
            scale = self.scaler.get_scale()
            if scale >= self.start.scale:
                break
            self.start = replace(self.start, scale=scale)
        self.start = replace(self.start, scale=self.start.scale / HEADROOM)
        self.restore()


def trainer_of(built: Built) -> Trainer:
    """Returns the state of `built`, whose steps train."""
    assert isinstance(built.state, Trainer)
    return built.state
