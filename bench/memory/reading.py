"""What is the memory made of? Asked of a variant that is alone in its process."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from bench.devices import Step
from bench.findings import Memory
from bench.memory.allocators import Allocations, Allocator, storage_bytes
from bench.modes import Built
from bench.records import Variant
from bench.subject import Inputs, Subject
from bench.training.trainer import Trainer

COMPILED_CASTS = "casts of weights are part of the compiled kernels, where they cannot be seen"
GRAPHED = (
    "saved activations and casts of weights lie in the pool of the graphs of forward and backward, "
    "where they cannot be told apart"
)
NO_STORAGE = "a weight or input has no storage whose size could be asked (a sparse tensor)"

CASTS = (torch.ops.aten._to_copy, torch.ops.aten.to)
"""What autocast calls to cast an argument; the second in inference mode."""


def read(built: Built, variant: Variant, allocator: Allocator) -> Memory:
    """All of the below for a variant that has been called before and is alone in the process.

    Calls it four times; buffers and what is trained are as before when it returns. What training
    starts from is on the host from then on: it is the harness's, and no part of any figure.
    """
    subject, trainer = built.subject, built.trainer
    if trainer:
        trainer.start = trainer.start.on_host()
    saved = copies = None
    with built.kept():
        called = steady_call(built.step, allocator)
        resident = allocator.resident_bytes()
        pools = allocator.pools()  # after it, as what it collects is live in neither of them
        gradients, state = _of_training(trainer)
        if not built.graphed:
            saved = saved_activation_bytes(built.live, subject)
            copies = autocast_copy_bytes(built.live, subject.module, variant)
    if resident is not None and trainer:
        resident -= _kept_by_the_harness(trainer)
    weights, inputs = weights_bytes(subject.module), input_bytes(subject.inputs)
    reasons = (
        allocator.unreadable,
        NO_STORAGE if weights is None or inputs is None else None,
        GRAPHED if built.graphed else COMPILED_CASTS if copies is None else None,
    )
    return replace(
        _of_call(called),
        weights_bytes=weights,
        input_bytes=inputs,
        gradient_bytes=gradients,
        optimizer_state_bytes=state,
        resident_bytes=resident,
        saved_activation_bytes=saved,
        autocast_copy_bytes=copies,
        reserved_bytes=pools.reserved_bytes,
        graph_pool_bytes=pools.graph_pool_bytes,
        graph_pool_live_bytes=pools.graph_pool_live_bytes,
        memory_note="; ".join(reason for reason in reasons if reason) or None,
    )


def _kept_by_the_harness(trainer: Trainer) -> int:
    """Of what is resident, where parameters are on the host too."""
    shares = all(parameter.device.type == "cpu" for parameter in trainer.trained)
    return storage_bytes(trainer.start.values) if shares else 0


def _of_training(trainer: Trainer | None) -> tuple[int | None, int | None]:
    """What gradients and the optimizer's state take."""
    if trainer is None:
        return None, None
    return storage_bytes(trainer.gradients()), storage_bytes(trainer.state())


def _of_call(called: Allocations | None) -> Memory:
    if called is None:
        return Memory()
    return Memory(
        step_peak_bytes=called.peak_bytes,
        step_requested_bytes=called.requested_peak_bytes,
        step_left_bytes=called.left_bytes,
        allocations_per_call=called.allocations,
        releases_per_call=called.releases,
        allocated_bytes_per_call=called.allocated_bytes,
    )


def weights_bytes(module: torch.nn.Module) -> int | None:
    """How much do parameters and buffers take? Tied ones count once; None if one is sparse."""
    return _bytes_or_none(_weights(module))


def input_bytes(inputs: Inputs) -> int | None:
    """How much do the inputs take? Views of one storage count once; None if one is sparse."""
    return _bytes_or_none(inputs.tensors())


def steady_call(step: Step, allocator: Allocator) -> Allocations | None:
    """What does a call do to memory once it has been called before? Its result is dropped.

    None where the allocator is unreadable. Called twice and the second counted, because a watch may
    not see the release of what was allocated before any watch: state that a call replaces would
    look like a leak.
    """
    gc.collect()
    for _ in range(2):
        with allocator.watch() as watched:
            step()
    return watched.found


def saved_activation_bytes(live: Step, subject: Subject) -> int | None:
    """How much does one call keep for a backward, at most? Nothing where gradients are off.

    Storages count once. Weights, buffers and inputs do not count: they are there anyway. Compiled
    code saves through the same hooks (torch.autograd.graph.saved_tensors_hooks), and they make it
    compile no more. What an autograd function of the user's keeps without `save_for_backward` is
    not seen. None where something has no storage to count (a sparse tensor).
    """
    saved = _Alive()

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.untyped_storage()._cdata not in known:
            saved.add(tensor)
        return tensor.detach()  # an output kept as it is would keep itself alive for ever

    try:
        known = _storages([*_weights(subject.module), *subject.inputs.tensors()])
        with saved_tensors_hooks(keep, lambda kept: kept):
            live()
    except NotImplementedError:  # what a sparse tensor says when asked for its storage
        return None
    return saved.peak_bytes


def autocast_copy_bytes(live: Step, module: torch.nn.Module, variant: Variant) -> int | None:
    """How much do casted copies of weights take at one time within a call, at most?

    Autocast keeps copies of parameters that require a gradient until its context ends, save in
    inference mode; what else it casts is gone after its use. None where the call is compiled, or a
    weight has no storage to tell it by.
    """
    if not variant.mode.autocast:
        return 0
    if variant.mode.compile != "none":
        return None
    try:
        casts = _Casts(_storages(_weights(module)))
        with casts:
            live()
    except NotImplementedError:
        return None
    return casts.copies.peak_bytes


class _Alive:
    """Storages by identity, and the most bytes of them that were alive at one time.

    Held weakly, so that watching prolongs no life; an address is not used again while somebody
    holds a weak reference to the storage that was there.
    """

    def __init__(self) -> None:
        self._seen: dict[int, tuple[StorageWeakRef, int]] = {}
        self.peak_bytes = 0

    def add(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        self._seen = {key: seen for key, seen in self._seen.items() if not seen[0].expired()}
        self._seen[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
        self.peak_bytes = max(self.peak_bytes, sum(size for _, size in self._seen.values()))


class _Casts(TorchDispatchMode):
    """Notes what is cast from one of the storages to another dtype."""

    def __init__(self, weights: set[int]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.weights = weights
        self.copies = _Alive()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket in CASTS:
            came, went = _storages([args[0]]), _storages([result])
            if came <= self.weights and went != came:  # equal where the dtype was right already
                self.copies.add(result)
        return result


def _weights(module: torch.nn.Module) -> list[torch.Tensor]:
    return [*module.parameters(), *module.buffers()]


def _storages(tensors: Iterable[torch.Tensor]) -> set[int]:
    return {tensor.untyped_storage()._cdata for tensor in tensors}


def _bytes_or_none(tensors: list[torch.Tensor]) -> int | None:
    try:
        return storage_bytes(tensors)
    except NotImplementedError:
        return None
