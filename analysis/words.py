"""Numbers and cases in words: the one way each of them is written, in every output."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from bench.stats import Estimate

UNKNOWN = "–"
Row = Mapping[str, Any]  # a row of the derived table; what is unknown is None

_SIZES = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def as_rows(frame: pd.DataFrame) -> list[Row]:
    """The table as mappings in which everything unknown (NaN, NA) is None."""
    rows = frame.to_dict("records")
    return [{str(key): _known(value) for key, value in row.items()} for row in rows]


def _known(value: Any) -> Any:
    return None if pd.api.types.is_scalar(value) and pd.isna(value) else value


def on_cuda(row: Row) -> bool:
    """Whether host and device run beside each other, as on a GPU."""
    return str(row["device"]).startswith("cuda")


def is_smoke(row: Row) -> bool:
    """Whether the budget was one that proves only that the case runs."""
    return bool(row["budget_rank"] == 0)


def duration(seconds: float | None) -> str:
    """`357 µs`, three digits in the unit that suits."""
    if seconds is None:
        return UNKNOWN
    scale, unit = _unit(seconds)
    return f"{_digits(seconds / scale, 3)} {unit}"


def tick(seconds: float) -> str:
    """`0.5 ms`: a round number without trailing zeros, for an axis."""
    scale, unit = _unit(seconds)
    return f"{seconds / scale:g} {unit}" if seconds else "0"


def duration_interval(value: float | None, low: float | None, high: float | None) -> str:
    """`357 µs [355, 359]`, with as many digits as the interval's width asks for."""
    if value is None or low is None or high is None:
        return duration(value)
    # An interval around zero has no digits of its own: its ends decide.
    size = value if low > 0 else max(abs(low), abs(high))
    scale, unit = _unit(size)
    value, low, high, size = value / scale, low / scale, high / scale, size / scale
    places = _places(value, low, high, least=max(0, 2 - _magnitude(size)))
    return f"{value:.{places}f} {unit} [{low:.{places}f}, {high:.{places}f}]"


def _unit(seconds: float) -> tuple[float, str]:
    return next((unit for unit in _UNITS if abs(seconds) >= unit[0] * 0.9995), _UNITS[-1])


def _magnitude(value: float) -> int:
    """The power of ten of `value` as three digits show it: 0 for 9.99, 1 for 9.999."""
    return int(f"{value:.2e}".partition("e")[2])


def _digits(value: float, count: int) -> str:
    return f"{value:.{max(0, count - 1 - _magnitude(value))}f}"


def _places(value: float, low: float, high: float, least: int) -> int:
    """Decimals that keep the ends of an interval apart from its middle, one more at most."""
    half = min(value - low, high - value)
    return least if half >= 10.0**-least else least + 1


def speedup(row: Row) -> str:
    """`1.23× [1.21, 1.25]`; without the brackets where there is no interval."""
    return _factor_interval(row["speedup"], row["speedup_ci_low"], row["speedup_ci_high"])


def fusion_gain(row: Row) -> str:
    """The same of the fusion gain."""
    ends = row["fusion_gain_ci_low"], row["fusion_gain_ci_high"]
    return _factor_interval(row["fusion_gain"], *ends)


def ratio(value: Estimate) -> str:
    """The same of any estimate."""
    return _factor_interval(value.value, value.low, value.high)


def _factor_interval(value: float | None, low: float | None, high: float | None) -> str:
    if value is None or low is None or high is None:
        return factor(value)
    places = _places(value, low, high, least=2)
    return f"{value:.{places}f}× [{low:.{places}f}, {high:.{places}f}]"


def latency(row: Row) -> str:
    """The latency with its interval."""
    return duration_interval(row["latency_s"], row["latency_ci_low_s"], row["latency_ci_high_s"])


def estimate(value: Estimate | None) -> str:
    """A duration with its interval, from an estimate in seconds."""
    return UNKNOWN if value is None else duration_interval(value.value, value.low, value.high)


def share(part: float | None, whole: float | None) -> str:
    """`81 %`."""
    return UNKNOWN if part is None or whole is None else whole_percent(part / whole)


def whole_percent(fraction: float) -> str:
    """`81 %`, without decimals."""
    return f"{fraction * 100:.0f} %"


def factor(value: float | None) -> str:
    """`1.23×`."""
    return UNKNOWN if value is None else f"{value:.2f}×"


def times(value: float) -> str:
    """`5.1×`: about how many times."""
    return f"{_digits(value, 2)}×"


def first_call(row: Row) -> str:
    """`7.20 s`, marked where the compiler's cache was not emptied before."""
    text = duration(row["first_call_s"])
    return text if text == UNKNOWN or row["compile_cache"] == "cold" else f"{text} (warm cache)"


def calls(count: float | None) -> str:
    """`12,400`, three digits; `never` for infinity."""
    if count is None:
        return UNKNOWN
    if math.isinf(count):
        return "never"
    return f"{round(count, min(0, 2 - _magnitude(count))):,.0f}"


def count(number: float | None) -> str:
    """`12,431`: to the last one."""
    return UNKNOWN if number is None else f"{number:,.0f}"


def counted(number: float, one: str, more: str) -> str:
    """`1 kernel`, `42 kernels`."""
    return f"{count(number)} {one if number == 1 else more}"


def size(size_bytes: float | None) -> str:
    """`3.42 MiB`, three digits in the unit that suits."""
    if size_bytes is None:
        return UNKNOWN
    scale, unit = size_unit(size_bytes)
    return f"{size_bytes:.0f} B" if unit == "B" else f"{_digits(size_bytes / scale, 3)} {unit}"


def size_unit(size_bytes: float) -> tuple[float, str]:
    """The unit that suits and how many bytes it has."""
    return next((unit for unit in _SIZES if abs(size_bytes) >= unit[0] * 0.9995), _SIZES[-1])


def size_tick(size_bytes: float) -> str:
    """`20 MiB`: a round number without trailing zeros, for an axis."""
    scale, unit = size_unit(size_bytes)
    return f"{size_bytes / scale:g} {unit}" if size_bytes else "0"


def launches(row: Row) -> str:
    """`42 launches`, `1 graph launch`: what the host hands to a GPU for a call."""
    kinds = (("launch", row["launches"]), ("graph launch", row["graph_launches"]))
    named = (counted(n, kind, f"{kind}es") for kind, n in kinds if n)
    return " + ".join(named) or (UNKNOWN if row["launches"] is None else "0 launches")


def roofline(row: Row) -> str:
    """`62 % (compute)`: how near to the floor, and what sets it."""
    told = share(row["roofline_fraction"], 1)
    return told if told == UNKNOWN else f"{told} ({row['floor_bound']})"


def break_even(row: Row) -> str:
    """After how many calls the first one is paid back."""
    count = row["break_even_calls"]
    return UNKNOWN if is_control(row) else "at once" if count == 0 else calls(count)


def percent(share: float | None) -> str:
    """`0.53 %`."""
    return UNKNOWN if share is None else f"{share * 100:.2g} %"


def process_spread(row: Row) -> str:
    """`0.4 % (latency 2.1 %)`: how far the speedup differs between processes of the case."""
    ratio, latency_too = row["speedup_process_spread"], row["latency_process_spread"]
    if latency_too is None:
        return UNKNOWN
    return f"{percent(ratio)} (latency {percent(latency_too)})"


def error(value: float | None) -> str:
    """`2.1e-7`."""
    return UNKNOWN if value is None else f"{value:.1e}".replace("e-0", "e-")


def sizes(shape: str) -> str:
    """`batch 4, seq 64` from the canonical JSON; batch and sequence length first."""
    first = ("batch", "seq")
    named = sorted(json.loads(shape).items(), key=lambda size: size[0] not in first)
    return ", ".join(f"{name} {size}" for name, size in named)


def work(row: Row) -> str:
    """`transformer, batch 4, seq 64, inference`: what is computed."""
    return work_at(row, row["shape"])


def work_at(row: Row, shape: str) -> str:
    """The same with the sizes of `shape` alone, canonical JSON."""
    arguments = row["model_args"] if row["model_args"] not in (None, "{}") else None
    parts = (row["model"], arguments, sizes(shape), row["phase"])
    return ", ".join(part for part in parts if part)


def place(row: Row, letter: bool) -> str:
    """`AMD EPYC, 1 thread`: where; with the environment's letter where a study has several."""
    threads = f"{row['threads']} thread{'' if row['threads'] == 1 else 's'}"
    parts = (row["device_name"] or row["device"], threads)
    return ", ".join((*parts, f"environment {row['environment']}") if letter else parts)


def baseline(row: Row) -> str:
    """`eager fp32`, or that there was none."""
    mode, dtype = row["baseline_mode"], row["baseline_dtype"]
    return "no baseline" if mode is None else f"{mode} {dtype}"


def contest(row: Row) -> str:
    """`fp32 against eager fp32`: which precision is compared with what."""
    return f"{row['dtype']} against {baseline(row)}"


def variant(row: Row) -> str:
    """`compile fp32`: one of the things that are compared."""
    return f"{row['mode']} {row['dtype']}"


def listed(names: Sequence[str]) -> str:
    """`eager, no_grad and compile`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def is_control(row: Row) -> bool:
    """Whether the row compares its baseline with itself."""
    return bool(row["mode"] == row["baseline_mode"] and row["dtype"] == row["baseline_dtype"])


def not_in_effect(row: Row) -> bool:
    """Whether the mode is known not to have done what its name says."""
    return row["in_effect"] is not None and not row["in_effect"]


def flags(row: Row) -> list[str]:
    """The diagnostics that were raised."""
    return [] if row["flags"] is None else list(row["flags"])


def remarks(row: Row) -> str:
    """What a reader must know beside the numbers: smoke budget, flags, repeated measurement."""
    found = [f"budget={row['budget']}"] if is_smoke(row) else []
    found += flags(row)
    found += [f"newest of {row['measured_times']}"] if row["measured_times"] > 1 else []
    found += [_REPLICATES.get(row["replicates"], f"{row['replicates']} replicates")]
    lost = row["replicates_not_ok"] if row["replicates"] else 0  # else its status says it
    found += [f"{lost} more not ok"] if lost else []
    return ", ".join(filter(None, found))


# Two have no 95 % interval between them (bench.stats.combine).
_REPLICATES = {0: "", 1: "", 2: "2 replicates (range of two processes)"}


def all_remarks(row: Row) -> str:
    """The remarks, and whether the mode was not in effect, for tables without a mark for it."""
    found = ("not in effect" if not_in_effect(row) else "", remarks(row))
    return ", ".join(remark for remark in found if remark)


def ended(row: Row) -> str:
    """`oom: out of memory while compiling`: how a run ended that is not ok, on one line."""
    return f"{row['status']}: {' '.join((row['reason'] or 'no reason was recorded').split())}"


def why_left_out(row: Row) -> str | None:
    """Why a row is neither charted nor recommended, in one clause; None where it is."""
    if row["status"] != "ok":
        return ended(row)
    if not_in_effect(row):
        return f"not in effect: {row['in_effect_note'] or 'no note was recorded'}"
    if row["in_effect"] is None:
        return "not known to have been in effect"
    if is_smoke(row):
        return f"budget={row['budget']} proves only that it runs"
    if row["speedup_ci_low"] is None:
        return "no interval: no baseline, or fewer than 12 rounds"
    return None
