"""A profile as columns of a record."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from statistics import median

from bench.findings import Profiled
from bench.profiling.capture import Profile
from bench.profiling.facts import Heavy


def columns(profile: Profile, launches: bool, trace: str | None = None) -> Profiled:
    """The typical step of `profile`, whatever the others were like; null where it has no step.

    launches: whether the device is one that work is launched on; a CPU has no launches to count.
    trace: name of the file, if one was to be written.
    """
    step = profile.typical
    note = "; ".join(profile.notes) or None
    if step is None:
        return Profiled(profiler_overhead=profile.overhead, profile_note=note)
    delays_s = step.launch_delays_s
    return Profiled(
        ops_dispatched=step.ops_top,
        ops_leaf=step.ops_leaf,
        leaf_ops_s=step.leaf_ops_s,
        kernels=step.kernels,
        kernels_s=step.kernels_s,
        launches=step.launches if launches else None,
        copies=step.copies if launches else None,
        fills=step.fills if launches else None,
        device_busy_s=step.busy_s,
        profiled_span_s=step.span_s,
        launch_delay_s=median(delays_s) if launches and delays_s else None,
        heaviest_kernels=_listed(step.heaviest_kernels),
        heaviest_ops=_listed(step.heaviest_ops),
        profiler_overhead=profile.overhead,
        profile_note=note,
        trace=trace if profile.saved and profile.saved.steps else None,
    )


def _listed(heavy: Iterable[Heavy]) -> str:
    """JSON in the order given."""
    return json.dumps([asdict(each) for each in heavy])
