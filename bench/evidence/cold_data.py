"""Sets up `data=cold` and `data=cold_weights`, and shows whether data were evicted.

In a loop over one model, a call finds in the caches what the last one left there. One block of
many finds its weights in memory, because the others have been called in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from operator import truediv
from statistics import median

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from modescope.bench.devices.devices import Evictor, Hardware, evict_first, prepare_call
from modescope.bench.model import trees
from modescope.bench.model.subject import Built
from modescope.bench.records.cases import COLD_WEIGHTS, WARM
from modescope.bench.records.columns.checks import Checks
from modescope.bench.records.columns.timing import CachedData
from modescope.bench.timing import timers

LEAST_SLOWDOWN = 1.1
"""Data count as evicted if reading them takes this many times as long as out of the caches."""

TOO_LARGE = 4
"""Data of this many times the last level evict themselves, as each call leaves only its last."""

READINGS = 25  # with and without eviction each; their medians are compared

_ROWS = ("values", "crow_indices", "col_indices")
_COLUMNS = ("values", "ccol_indices", "row_indices")

SPARSE = {
    torch.sparse_coo: ("_values", "_indices"),
    torch.sparse_csr: _ROWS,
    torch.sparse_bsr: _ROWS,
    torch.sparse_csc: _COLUMNS,
    torch.sparse_bsc: _COLUMNS,
}
"""Layout -> the methods that return the tensors that a sparse tensor consists of."""

NO_WEIGHTS = "the model has no weights or buffers that could be evicted"

FITS_NOWHERE = "these data do not fit into a cache anyway"

MOST_MOVED = 0.1
"""A call may replace as large a part of the evicted bytes, such as a counter in a buffer."""

MOVED = "a call replaces its weights or buffers, so that the next one finds new ones in a cache"

UNTIMED = "whether they were evicted is unknown: the device could not be held while they are read"

NOTHING = "nothing was evicted: reading these data takes as long as before"


@dataclass(frozen=True)
class Cold:
    """The steps with their evictions, what is known of the data, and whether they are cold."""

    built: tuple[Built, ...]  # with an `evictor` each, unless nothing is to be evicted
    columns: CachedData = field(default_factory=CachedData)
    doubt: str | None = None  # why the data are not cold although that is asked for

    def add_to(self, checks: Checks) -> Checks:
        """Returns `checks`, in which the mode did not take effect if the data are not cold."""
        if self.doubt is None:
            return checks
        note = "; ".join(filter(None, (self.doubt, checks.in_effect_note)))
        return replace(checks, in_effect=False, in_effect_note=note)


def set_up(built: Sequence[Built], data: str, device: Hardware) -> Cold:
    """Returns the case's steps, and the baseline's if any, as `data` asks for.

    `data`: warm, cold or cold_weights. The steps must have been called before. The columns say how
    large the data of a call are; if they are evicted, also how long that takes, and reading them
    after it and without it.
    """
    l2_bytes, last_bytes = device.cache_bytes()
    columns = CachedData(_working_set_bytes(built[0]), l2_bytes, last_bytes)
    if data == WARM:
        return Cold(tuple(built), columns)
    evicted = [_evicted(step, data) for step in built]
    sizes_bytes = [_storage_bytes(tensors) for tensors in evicted]
    columns = replace(columns, evicted_bytes=sizes_bytes[0])
    if len(sizes_bytes) > 1:
        columns = replace(columns, baseline_evicted_bytes=sizes_bytes[1])
    if not min(sizes_bytes):
        return Cold(tuple(built), columns, NO_WEIGHTS)
    if any(
        _moved_bytes(step, data) > MOST_MOVED * s
        for step, s in zip(built, sizes_bytes, strict=True)
    ):
        return Cold(tuple(built), columns, MOVED)
    if last_bytes and sizes_bytes[0] > TOO_LARGE * last_bytes:
        return Cold(tuple(built), columns, FITS_NOWHERE)
    evictors = [
        with_its_time(device.evictor(tensors, _kept(step, data)), device)
        for step, tensors in zip(built, evicted, strict=True)
    ]
    cold_s, warm_s = zip(*(_read_s(evictor, device) for evictor in evictors), strict=True)
    columns = replace(columns, evicted_with=evictors[0].means, eviction_s=evictors[0].seconds)
    cold = tuple(replace(step, evictor=e) for step, e in zip(built, evictors, strict=True))
    if not all(cold_s):
        return Cold(cold, columns, UNTIMED)
    columns = replace(columns, cold_read_s=median(cold_s[0]), warm_read_s=median(warm_s[0]))
    slower = all(
        median(map(truediv, *sides)) >= LEAST_SLOWDOWN for sides in zip(cold_s, warm_s, strict=True)
    )
    return Cold(cold, columns, None if slower else NOTHING)


def _evicted(built: Built, data: str) -> list[torch.Tensor]:
    return _weights(built) + (
        [] if data == COLD_WEIGHTS else _with_memory(built.subject.given.tensors())
    )


def _kept(built: Built, data: str) -> list[torch.Tensor]:
    return _with_memory(built.subject.given.tensors()) if data == COLD_WEIGHTS else []


def _weights(built: Built) -> list[torch.Tensor]:
    module = built.subject.module
    return _with_memory([*module.parameters(), *module.buffers()])


def _with_memory(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors that hold the elements of `tensors`: of sparse ones and of wrappers, the parts.

    Nested tensors are left out, unless they wrap another.
    """
    return [part for tensor in tensors for part in _parts(tensor)]


def _parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    if is_traceable_wrapper_subclass(tensor):
        names, _ = tensor.__tensor_flatten__()
        return _with_memory(getattr(tensor, name) for name in names)
    if tensor.layout in SPARSE:
        with torch.no_grad():
            return _with_memory(getattr(tensor, name)() for name in SPARSE[tensor.layout])
    if tensor.is_nested or tensor.layout != torch.strided:
        return []
    try:
        return [tensor] if tensor.untyped_storage().data_ptr() else []
    except (NotImplementedError, RuntimeError):  # a wrapper that does not tell what it wraps
        return []


def _storage_bytes(tensors: Sequence[torch.Tensor]) -> int:
    storages = (tensor.untyped_storage() for tensor in tensors)
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def _working_set_bytes(built: Built) -> int:
    """Bytes of weights, buffers, inputs, the state of steps, and what a further call returns."""
    with built.keep_state():
        returned = trees.tensors(prepare_call(built.step)())
    return _storage_bytes(_with_memory([*built.tensors(), *returned]))


def _moved_bytes(built: Built, data: str) -> int:
    """Bytes of what would be evicted after a further call that lie where nothing did before it."""
    with built.keep_state():
        call = prepare_call(built.step)
        before = _evicted(built, data)  # kept, so that no address is used again
        known = {tensor.untyped_storage().data_ptr() for tensor in before}
        call()
        after = _evicted(built, data)
    return _storage_bytes([t for t in after if t.untyped_storage().data_ptr() not in known])


def with_its_time(evictor: Evictor, device: Hardware) -> Evictor:
    """Returns `evictor` with the seconds that it takes, which decide how many calls fit."""
    evicting = timers.latency(evictor.evict, device, READINGS)
    return replace(evictor, seconds=median(evicting.samples_s))


def _read_s(evictor: Evictor, device: Hardware) -> tuple[list[float], list[float]]:
    """Returns seconds of reading the data once after an eviction, and at once again.

    They are taken in turns, because a machine's speed changes; of the device's work where it has a
    queue.
    """
    timer = timers.device_time if device.queues else timers.latency
    steps = evict_first(evictor.read, evictor), evictor.read
    taken = [[timer(step, device, 1).median_s for step in steps] for _ in range(READINGS)]
    known = [(cold_s, warm_s) for cold_s, warm_s in taken if cold_s and warm_s]
    return [cold_s for cold_s, _ in known], [warm_s for _, warm_s in known]
