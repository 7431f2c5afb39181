"""One step of training in its parts, and all the state that it changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer

from bench.records import Training, Variant
from bench.training.optimizers import optimizer

Forward = Callable[[], Any]  # returns the loss

FIRST_SCALE = 2.0**16  # of the loss, as GradScaler begins by itself

MOST_HALVINGS = 24
"""Of it before the first step: at 2**-8 gradients that still overflow are no matter of scale."""

HEADROOM = 4.0
"""By this much the scale stays below the largest that fits, as other batches have larger gradients:
a step of theirs must not be skipped where it is compared with float64."""


@dataclass(frozen=True)
class Start:
    """What training starts from. Values lie beside the parameters that they are of."""

    values: tuple[torch.Tensor, ...]  # of the parameters that are trained
    scale: float = FIRST_SCALE  # of the loss, where it is scaled

    def on_host(self) -> Start:
        """The same where it takes none of a GPU's memory; from there it is slow to restore."""
        return replace(self, values=tuple(value.to("cpu") for value in self.values))


def start_of(module: torch.nn.Module) -> Start:
    """Copies of what `module` trains as it is now."""
    trained = (each for each in module.parameters() if each.requires_grad)
    return Start(tuple(parameter.detach().clone() for parameter in trained))


@dataclass
class Trainer:
    """A step, its parts, and what it starts from. Parts are called in the order of `step`."""

    optimizer: Optimizer
    scaler: GradScaler | None
    forward: Forward  # contexts, model and loss
    start: Start
    captured: tuple[torch.Tensor | None, ...] = ()  # gradients that a captured step writes

    @property
    def trained(self) -> list[torch.nn.Parameter]:
        """The parameters that a step changes."""
        return [p for group in self.optimizer.param_groups for p in group["params"]]

    def step(self) -> torch.Tensor:
        """Forward, loss, backward and optimizer, as a user writes them; returns the loss."""
        self.clear()
        loss: torch.Tensor = self.forward()
        self.backward(loss)
        self.update()
        return loss

    def clear(self) -> None:
        """Drops the gradients of the step before."""
        self.optimizer.zero_grad(set_to_none=True)

    def backward(self, loss: torch.Tensor) -> None:
        """Gradients of the loss, scaled if there is a scaler."""
        (self.scaler.scale(loss) if self.scaler else loss).backward()

    def update(self) -> None:
        """The optimizer's step; a scaler leaves it out where gradients overflowed."""
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()

    def state(self) -> list[torch.Tensor]:
        """What the optimizer keeps from step to step."""
        kept = (value for state in self.optimizer.state.values() for value in state.values())
        return [value for value in kept if isinstance(value, torch.Tensor)]

    def is_captured(self) -> None:
        """Tells that the step was just captured, its gradients with it."""
        self.captured = tuple(parameter.grad for parameter in self.trained)

    def gradients(self) -> list[torch.Tensor]:
        """Those of the last step."""
        return [p.grad for p in self.trained if p.grad is not None]

    def restore(self) -> None:
        """The next step is the first again.

        Written in place, because compiled code and captured graphs know the addresses. An
        optimizer's state of zeros is what it begins with (torch.optim: SGD, AdamW). After a capture
        the gradients are again those that replays write.
        """
        for parameter, gradient in zip(self.trained, self.captured, strict=bool(self.captured)):
            parameter.grad = gradient
        with torch.no_grad():
            for parameter, value in zip(self.trained, self.start.values, strict=True):
                parameter.copy_(value)
            for tensor in self.state():
                tensor.zero_()
        if self.scaler is not None:
            first = {"scale": self.start.scale, "_growth_tracker": 0}
            self.scaler.load_state_dict({**self.scaler.state_dict(), **first})

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Undoes what steps change: on leaving, the next step is the first again."""
        try:
            yield
        finally:
            self.restore()

    def settle_scale(self, step: Callable[[], object]) -> None:
        """Finds a loss scale at which gradients do not overflow, as GradScaler does in first steps.

        From then on training starts with it and some room, so that no timed step is skipped, which
        would be shorter. Blocks of thousands of steps may still raise it.
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


def trainer(
    module: torch.nn.Module,
    forward: Forward,
    training: Training,
    variant: Variant,
    device_type: str,
    start: Start | None = None,
) -> Trainer:
    """Trains `module`, whose loss `forward` computes, from `start` or else from what it is now."""
    start = start or start_of(module)
    made = optimizer(module.parameters(), training, variant.mode)
    scaler = GradScaler(device_type, start.scale) if training.scales(variant) else None
    return Trainer(made, scaler, forward, start)
