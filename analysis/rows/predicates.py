"""What is known of a row: its device, whether its mode was in effect, and whether it counts."""

from __future__ import annotations

import json

from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import value_of
from modescope.bench.modes.backends import BACKENDS, captures_graphs
from modescope.bench.records.caches import CACHES
from modescope.bench.records.outcomes import Checked, Status
from modescope.bench.stats.estimates import Estimate
from modescope.bench.summary import is_smoke as is_smoke
from modescope.bench.summary import on_cuda as on_cuda

_PREBUILT = {mode for backend in BACKENDS.values() if backend.before for mode in backend.modes}


def is_prebuilt(row: Row) -> bool:
    """Whether another process made the code of the row's mode ahead of time."""
    return row["compile_mode"] in _PREBUILT


def has_cache(row: Row) -> bool:
    """Whether the state of the compiler's caches matters to a process in the row's mode."""
    compiles = row["compile_mode"] not in {*BACKENDS["none"].modes, *_PREBUILT}
    return compiles or CACHES[row["compile_cache"]].backend is not None


def captures(row: Row) -> str | None:
    """Returns what captures CUDA graphs in a row's mode, on a GPU: `hand`, `compiler` or None."""
    if row["graph"]:
        return "hand"
    given = json.loads(row.get("compile_options") or "{}")
    return "compiler" if captures_graphs(row["compile_mode"], given) else None


def has_interval(row: Row) -> bool:
    """Whether the row has a speedup with an interval."""
    return row["speedup"] is not None and row["speedup"].low is not None


def shown_speedup(row: Row) -> Estimate | None:
    """Returns a row's speedup as shown to readers: None for a smoke budget, with too few rounds."""
    return None if is_smoke(row) else row["speedup"]


def calls(row: Row) -> dict[str, list[int]]:
    """Returns, for a row whose calls vary in size, the values of each size that varies.

    The dict has the name of the size -> its value in each call of a pass, which is the sequence of
    calls that is timed as a whole. It is empty if all calls are equal.
    """
    return json.loads(row["calls"]) if row["calls"] else {}


def calls_of_a_step(row: Row) -> int:
    """Returns how many calls are timed together: 1, or all calls of a pass if they vary."""
    return len(next(iter(calls(row).values()), [1]))


def is_control(row: Row) -> bool:
    """Whether the row has the mode and precision of its own baseline."""
    return bool(row["mode"] == row["baseline_mode"] and row["dtype"] == row["baseline_dtype"])


def not_in_effect(row: Row) -> bool:
    """Whether torch is known to have run something other than the mode's name says."""
    return row["in_effect"] is not None and not row["in_effect"]


def flags(row: Row, *touching: str) -> list[str]:
    """Returns the flags of the row.

    With `touching`, only flags that make one of these doubtful (`derive.flags.Doubted`).
    """
    if row["flags"] is None:
        return []
    if not touching:
        return list(row["flags"])
    pairs = zip(row["flags"], row["flags_touch"], strict=True)
    return [flag for flag, doubted in pairs if doubted in touching]


def unchecked(row: Row) -> str:
    """Returns why the results of a row that is ok could not be judged; empty if they could."""
    if row["status"] != Status.OK or row["checked"] != Checked.NOT:
        return ""
    return row["checked_note"] or "no reason was recorded"


def accepted_error(row: Row) -> float | None:
    """Returns the largest error that the case's check accepts; None if no limit is known."""
    limits = [limit for limit in (row["error_limit"], row["max_error"]) if limit is not None]
    return max(limits) if row["error_limit"] is not None else None


def reason(row: Row) -> str:
    """Returns why a run has no result, on one line: `out of memory while compiling`."""
    return " ".join((row["reason"] or "no reason was recorded").split())


def status_and_reason(row: Row) -> str:
    """Returns status and reason of a row that is not ok: `oom: out of memory while compiling`."""
    return f"{row['status']}: {reason(row)}"


def host_slower(row: Row) -> str | None:
    """Returns how many times its usual time the host of a GPU took in a row: `2.1`.

    None on a CPU, and if the host was not slow (flag `slow_pace`). A slow host changes a ratio,
    because it lengthens what waits for it and not what the device does.
    """
    pace = row["pace"] if on_cuda(row) and "slow_pace" in flags(row) else None
    return f"{1 / pace:.1f}" if pace else None


def why_left_out(row: Row) -> str | None:
    """Returns why a row is not charted or recommended; None if its result counts."""
    if row["status"] != Status.OK:
        return status_and_reason(row)
    if not_in_effect(row):
        return f"not in effect: {row['in_effect_note'] or 'no note was recorded'}"
    if row["in_effect"] is None:
        return "not known to have been in effect"
    if is_smoke(row):
        return f"budget={row['budget']} proves only that it runs"
    if slower := host_slower(row):
        return f"the host ran at {slower}× its usual time: undecided"
    if not has_interval(row):
        return row.get("baseline_note") or "no interval: no baseline, or fewer than 12 rounds"
    return None


def is_without(other: Row, row: Row, axis: str) -> bool:
    """Whether the mode of `other` is that of `row` but for `axis`, which only `row` has set.

    `axis` is a further axis of modes, such as `freezing` (`bench.modes.axes`).
    """
    same = ("grad", "dtype", "autocast", "compile_mode", "graph", "compile_options")
    axes, without = (json.loads(one["axes"] or "{}") for one in (row, other))
    return (
        axis in axes
        and without == {name: value for name, value in axes.items() if name != axis}
        and all(value_of(other, name) == value_of(row, name) for name in same)
    )
