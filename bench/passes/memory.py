"""Reads the memory columns of a model in one mode, which must be alone in its process."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef

from modescope.bench.devices.allocators import Allocations, Allocator, parts, storage_bytes
from modescope.bench.devices.devices import Step, prepare_call
from modescope.bench.model.compiler import OperatorMode
from modescope.bench.model.subject import Built, Inputs, Subject
from modescope.bench.records.cases import Variant
from modescope.bench.records.columns.passes import Memory

COMPILED_CASTS = "casts of weights are part of the compiled kernels and cannot be measured"
GRAPHED = (
    "saved activations and casts of weights are in the memory pool of the graphs of forward and "
    "backward, where they cannot be distinguished"
)
OWN_WEIGHTS = (
    "resident_bytes has the weights twice: those of the module, which the package does not need, "
    "and {:,} bytes in the package, by the sizes that were packaged"
)
NO_STORAGE = "a weight or input has no storage whose size could be read (a sparse tensor)"

CASTS = (torch.ops.aten._to_copy, torch.ops.aten.to)
"""Operators by which autocast casts an argument; the second in inference mode."""


def read(built: Built, variant: Variant, allocator: Allocator) -> Memory:
    """Returns all memory columns of a variant that has been called before.

    It must be the only variant in the process. Its step is called four times, and all state is
    restored on return. The harness's copies of the initial state are moved to the host and do not
    count.
    """
    subject, state = built.subject, built.state
    state.leave_device()
    saved = copies = None
    with built.keep_state():
        call = steady_call(built.step, allocator)
        resident = allocator.resident_bytes()
        pools = allocator.pools()  # afterwards, because resident_bytes() collects garbage first
        sizes = state.sizes()
        if not built.graphed:
            saved = saved_activation_bytes(built.live, subject)
            copies = autocast_copy_bytes(built.live, subject.module, variant)
    workspaces = allocator.workspace_bytes()  # last, because it changes what is allocated
    if resident is not None:
        resident -= state.copies_bytes() + _kept_bytes(subject)
        resident += built.made.weights_bytes  # which only C++ holds
    weights, inputs = weights_bytes(subject.module), input_bytes(subject.inputs)
    reasons = (
        allocator.unreadable,
        NO_STORAGE if weights is None or inputs is None else None,
        OWN_WEIGHTS.format(built.made.weights_bytes) if built.made.weights_bytes else None,
        GRAPHED if built.graphed else COMPILED_CASTS if copies is None else None,
    )
    return Memory(
        step_peak_bytes=call.peak_bytes if call else None,
        step_left_bytes=call.left_bytes if call else None,
        allocations_per_call=call.allocations if call else None,
        allocated_bytes_per_call=call.allocated_bytes if call else None,
        weights_bytes=weights,
        input_bytes=inputs,
        gradient_bytes=sizes.gradient_bytes,
        optimizer_state_bytes=sizes.optimizer_bytes,
        resident_bytes=resident,
        workspace_bytes=workspaces,
        saved_activation_bytes=saved,
        autocast_copy_bytes=copies,
        **pools,
        memory_note="; ".join(reason for reason in reasons if reason) or None,
    )


def weights_bytes(module: torch.nn.Module) -> int | None:
    """Returns the bytes of parameters and buffers, tied ones once. None if any is sparse."""
    return _bytes_or_none(_weights(module))


def input_bytes(inputs: Inputs) -> int | None:
    """Returns the bytes of the inputs, views of one storage once. None if any is sparse."""
    return _bytes_or_none(inputs.tensors())


def _kept_bytes(subject: Subject) -> int:
    """Returns the bytes of inputs and state that are kept to undo what forward changes."""
    state = subject.restore.values if subject.restore else ()
    return storage_bytes([*state, *(kept for _, kept in subject.copied(changed=True))])


def steady_call(step: Step, allocator: Allocator) -> Allocations | None:
    """Counts the allocations and releases of a steady call, whose result is dropped.

    None if the allocator is unreadable. Calls twice and counts the second call: a watch may miss
    the release of older memory, and state that a call replaces would then look like a leak.
    """
    gc.collect()
    for _ in range(2):
        call = prepare_call(step)
        with allocator.watch() as watched:
            call()
    return watched.result


def saved_activation_bytes(live: Step, subject: Subject) -> int | None:
    """Returns the most bytes saved for backward that exist at one time in a call of `live`.

    `live` must call the module itself and not replay a CUDA graph. The result is 0 if gradients are
    off, and None if a tensor has no storage (a sparse tensor). Each storage counts once. Weights,
    buffers and inputs of `subject` do not count, because they exist anyway. Compiled code saves
    through the same hooks (torch.autograd.graph.saved_tensors_hooks) and does not compile again.
    Tensors that a custom autograd function keeps without `save_for_backward` are missed.
    """
    saved = _Alive()

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.untyped_storage()._cdata not in known:
            saved.add(tensor)
        return tensor.detach()  # a saved output would otherwise keep itself alive

    try:
        known = _storages(subject.tensors())
        with saved_tensors_hooks(keep, lambda kept: kept):
            live()
    except NotImplementedError:  # from a sparse tensor, which has no storage
        return None
    return saved.peak_bytes


def autocast_copy_bytes(live: Step, module: torch.nn.Module, variant: Variant) -> int | None:
    """Returns the most bytes that autocast's copies of weights take at one time in a call.

    `live` must call `module` itself and not replay a CUDA graph. Autocast keeps copies of
    parameters that require a gradient until its context ends, except in inference mode. Other
    copies are freed after use. The result is 0 without autocast. It is None if the call is
    compiled, or if a weight has no storage to identify it by.
    """
    if not variant.mode.autocast:
        return 0
    if variant.mode.compiles:
        return None
    try:
        casts = _Casts(_storages(_weights(module)))
        with casts:
            live()
    except NotImplementedError:
        return None
    return casts.copies.peak_bytes


class _Alive:
    """Remembers storages, and the largest number of bytes of them that existed at one time.

    Its weak references keep no storage alive, but prevent the reuse of an address.
    """

    def __init__(self) -> None:
        self._sizes: dict[int, tuple[StorageWeakRef, int]] = {}
        self.peak_bytes = 0

    def add(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        self._sizes = {key: entry for key, entry in self._sizes.items() if not entry[0].expired()}
        self._sizes[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
        self.peak_bytes = max(self.peak_bytes, sum(size for _, size in self._sizes.values()))


class _Casts(OperatorMode):
    """Notes the copies in another dtype that autocast makes of the storages in `weights`."""

    def __init__(self, weights: set[int]) -> None:
        super().__init__()
        self.weights = weights
        self.copies = _Alive()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket in CASTS:
            source, copy = _storages([args[0]]), _storages([result])
            if source <= self.weights and copy != source:  # equal where nothing was cast
                self.copies.add(result)
        return result


def _weights(module: torch.nn.Module) -> list[torch.Tensor]:
    return [*module.parameters(), *module.buffers()]


def _storages(tensors: Iterable[torch.Tensor]) -> set[int]:
    return {part.untyped_storage()._cdata for tensor in tensors for part in parts(tensor)}


def _bytes_or_none(tensors: list[torch.Tensor]) -> int | None:
    try:
        return storage_bytes(tensors)
    except NotImplementedError:
        return None
