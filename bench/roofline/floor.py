"""How fast could this work be at best? Counted work against the device's ceilings.

The roofline model (Williams, Waterman and Patterson, "Roofline", CACM 52(4), 2009): work takes at
least as long as its arithmetic at the highest rate, and at least as long as its bytes at the
highest bandwidth. Arithmetic alone, no torch.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Work:
    """What one call has to do at least. None, and the reason in `note`, where it is not known."""

    flops: int | None  # of matrix products, convolutions and attention; a multiply-add is two
    least_bytes: int | None  # weights and inputs read once, outputs written once
    note: str | None = None
    eager_bytes: int | None = None  # that its operators move one by one; bounds nothing


@dataclass(frozen=True)
class Ceilings:
    """The highest rates seen on a device at one dtype."""

    flops_per_s: float | None  # a large matrix product
    transfers: tuple[tuple[int, float], ...]  # bytes moved at a time, and bytes per second

    def bytes_per_s(self, moved_bytes: int) -> float | None:
        """The highest bandwidth for a call that moves so many bytes; None if none was measured.

        What fits a cache comes from there, much faster than from memory. So the fastest transfer
        counts of all that moved as much or more, and the next smaller one, as it bounds them.
        """
        smaller = [size for size, _ in self.transfers if size <= moved_bytes]
        return max(
            (rate for size, rate in self.transfers if size >= max(smaller, default=0)), default=None
        )


@dataclass(frozen=True)
class Floor:
    """The least time that one call can take on a device, and what sets it."""

    seconds: float
    bound: str  # compute | memory


def floor(work: Work, ceilings: Ceilings) -> Floor | None:
    """The least time for `work` within `ceilings`; None unless both counts and rates are known.

    A floor of a warm cache: no call that reads its weights from memory each time comes near it.
    """
    if work.flops is None or work.least_bytes is None or not ceilings.flops_per_s:
        return None
    bytes_per_s = ceilings.bytes_per_s(work.least_bytes)
    if not bytes_per_s:
        return None
    compute_s = work.flops / ceilings.flops_per_s
    memory_s = work.least_bytes / bytes_per_s
    return max(
        Floor(compute_s, "compute"), Floor(memory_s, "memory"), key=lambda each: each.seconds
    )
