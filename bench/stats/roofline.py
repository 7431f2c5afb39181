"""The least time that a call can take, from its work and the device's highest rates.

The roofline model (Williams, Waterman and Patterson, "Roofline", CACM 52(4), 2009): a call takes at
least as long as its arithmetic at the highest rate, and at least as long as its bytes at the
highest bandwidth. Does not import torch.
"""

from __future__ import annotations

from dataclasses import dataclass

from modescope.bench.records.columns.passes import WorkCounts


@dataclass(frozen=True)
class Ceilings:
    """The highest rates that a device reaches with one dtype."""

    flops_per_s: float | None  # of a large matrix product
    transfers: tuple[tuple[int, float], ...]  # bytes moved at a time, and bytes per second

    def bytes_per_s(self, moved_bytes: int) -> float | None:
        """Returns the highest bandwidth for a call that moves `moved_bytes`; None if unmeasured.

        Data that fits a cache moves faster than data from memory. So only transfers of as many
        bytes or more count, and the largest smaller transfer. The fastest of these is returned.
        """
        smaller = [size for size, _ in self.transfers if size <= moved_bytes]
        return max(
            (rate for size, rate in self.transfers if size >= max(smaller, default=0)), default=None
        )


@dataclass(frozen=True)
class Floor:
    """The least time that one call can take on a device, and what bounds it."""

    seconds: float
    bound: str  # compute | memory


def floor(work: WorkCounts, ceilings: Ceilings) -> Floor | None:
    """Returns the least time for `work` within `ceilings`; None if a count or rate is unknown.

    It assumes warm caches: a call that reads its weights from memory each time takes much longer.
    """
    if work.flops is None or work.least_bytes is None or not ceilings.flops_per_s:
        return None
    bytes_per_s = ceilings.bytes_per_s(work.least_bytes)
    if not bytes_per_s:
        return None
    compute_s = work.flops / ceilings.flops_per_s
    memory_s = work.least_bytes / bytes_per_s
    if compute_s >= memory_s:
        return Floor(compute_s, "compute")
    return Floor(memory_s, "memory")
