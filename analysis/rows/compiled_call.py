"""A profiled call of compiled code by its parts: the cache lookup, the Python around it, the rest.

The profiler records the lookup and the ranges of compiled code within the call, so all parts are of
one call, also where no batch can be empty. Recording lengthens short ranges most, so the first two
are rather too long.
"""

from __future__ import annotations

from dataclasses import dataclass

from modescope.analysis.format.phrases import Row


@dataclass(frozen=True)
class CompiledCall:
    """Seconds of one profiled call and of its parts."""

    span_s: float
    lookup_s: float  # of compiled code, for which its guards are checked
    wrapper_s: float  # Python around compiled graphs

    @property
    def rest_s(self) -> float:
        """The compiled code (launches and kernels), and what is left to eager."""
        return self.span_s - self.lookup_s - self.wrapper_s

    @property
    def overhead_share(self) -> float:
        """The part of the call that lookup and Python take."""
        return (self.lookup_s + self.wrapper_s) / self.span_s


def of(row: Row) -> CompiledCall | None:
    """The parts of a row's profiled call.

    None where no compiled code was called or profiled, and where the parts are longer than the
    call, so that they are not of the same one.
    """
    span_s, lookup_s, wrapper_s = (
        row.get(name) for name in ("profiled_span_s", "guards_s", "compiled_wrapper_s")
    )
    if not span_s or lookup_s is None or wrapper_s is None or lookup_s + wrapper_s > span_s:
        return None
    return CompiledCall(span_s, lookup_s, wrapper_s)
