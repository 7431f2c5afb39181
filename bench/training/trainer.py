"""One step of training in its parts, and all the state that it changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer

from bench.records import Training, Variant
from bench.training.optimizers import optimizer

Forward = Callable[[], torch.Tensor]

MOST_HALVINGS = 24
"""Of the loss scale before the first step: from 2**16 it would end at 2**-8, where fp16 gradients
that still overflow are no matter of scale."""


@dataclass
class Trainer:
    """A step, its parts, and what it starts from. Parts are called in the order of `step`."""

    module: torch.nn.Module
    optimizer: Optimizer
    scaler: GradScaler | None
    forward: Forward  # contexts, model and loss
    initial: tuple[torch.Tensor, ...]  # values of `trained`, on the host
    scale: float | None  # of the loss, before the first step
    captured: tuple[torch.Tensor | None, ...] = ()  # gradients that a captured step writes

    @property
    def trained(self) -> list[torch.nn.Parameter]:
        """The parameters that a step changes."""
        return [p for group in self.optimizer.param_groups for p in group["params"]]

    def step(self) -> torch.Tensor:
        """Forward, loss, backward and optimizer, as a user writes them; returns the loss."""
        self.clear()
        loss = self.forward()
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
            for parameter, value in zip(self.trained, self.initial, strict=True):
                parameter.copy_(value, non_blocking=True)  # in order with what follows on a GPU
            for tensor in self.state():
                tensor.zero_()
        if self.scaler is not None:
            self.scaler.load_state_dict({**self.scaler.state_dict(), **self._first_scale()})

    def _first_scale(self) -> dict[str, Any]:
        return {"scale": self.scale, "_growth_tracker": 0}

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Undoes what steps change: on leaving, the next step is the first again."""
        try:
            yield
        finally:
            self.restore()

    def settle_scale(self, step: Callable[[], object]) -> None:
        """Finds the loss scale at which gradients no longer overflow, as first steps do.

        From then on training starts with it, so that no timed step is one that was skipped.
        """
        if self.scaler is None:
            return
        for _ in range(MOST_HALVINGS):
            self.restore()
            step()
            scale = self.scaler.get_scale()
            if scale >= (self.scale or 0.0):
                break
            self.scale = scale
        self.restore()


def trainer(
    module: torch.nn.Module,
    forward: Forward,
    training: Training,
    variant: Variant,
    device_type: str,
) -> Trainer:
    """Trains the parameters of `module`, whose loss `forward` computes."""
    made = optimizer(module.parameters(), training, variant.mode)
    scaler = GradScaler(device_type) if training.scales(variant) else None
    trained = [p for group in made.param_groups for p in group["params"]]
    initial = tuple(map(_on_host, trained))
    return Trainer(module, made, scaler, forward, initial, scaler.get_scale() if scaler else None)


def _on_host(parameter: torch.Tensor) -> torch.Tensor:
    """A copy that takes no memory of a GPU. Pinned there: it is written back before each block."""
    copy = parameter.detach().to("cpu", copy=True)
    return copy if parameter.device.type == "cpu" else copy.pin_memory()
