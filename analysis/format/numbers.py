"""Formats numbers, so that durations, bytes, ratios and counts look the same in every output."""

from __future__ import annotations

import math
from collections.abc import Callable

from modescope.analysis.estimates import point
from modescope.bench.stats.estimates import Estimate, is_wide

UNKNOWN = "–"

_SIZES = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))
_DECIMAL_SIZES = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "KB"))
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def duration(seconds: float | None) -> str:
    """Formats a time with three digits in the unit that fits: `357 µs`."""
    if seconds is None:
        return UNKNOWN
    if not seconds:
        return "0 s"
    scale, unit = time_unit(seconds)
    return f"{_digits(seconds / scale, 3)} {unit}"


def duration_interval(estimate: Estimate | None) -> str:
    """Formats a time and its interval, with enough digits for its width: `357 µs [355, 359]`.

    Without an interval: `357 µs`.
    """
    if estimate is None or estimate.low is None or estimate.high is None:
        return duration(point(estimate))
    value, low, high = estimate.value, estimate.low, estimate.high
    # The value of an interval around zero may be tiny: its ends choose the unit.
    size = value if low > 0 else max(abs(low), abs(high))
    scale, unit = time_unit(size)
    least = max(0, 2 - _magnitude(size / scale))
    return _interval(value / scale, low / scale, high / scale, f" {unit}", least)


def factor(value: float | None) -> str:
    """Formats a ratio with two decimals: `1.23×`."""
    return UNKNOWN if value is None else f"{value:.2f}×"


def factor_interval(estimate: Estimate | None) -> str:
    """Formats a ratio with its interval, `1.23× [1.21, 1.25]`, or without: `1.23×`."""
    if estimate is None or estimate.low is None or estimate.high is None:
        return factor(point(estimate))
    value, low, high = estimate.value, estimate.low, estimate.high
    is_on_a_limit = {f"{low:.2f}", f"{high:.2f}"} & _LIMITS
    is_close = min(value - low, high - value) < 0.01  # then there is one decimal more anyway
    return _interval(value, low, high, "×", least=3 if is_on_a_limit and not is_close else 2)


_LIMITS = {"0.99", "1.01"}
"""The verdict's limits (1 ÷ 1.01 and 1.01): of an end here two decimals do not show the side."""


def ratio(value: Estimate) -> str:
    """Formats a ratio for a sentence, with its interval: `1.23× [1.21, 1.25]`.

    Of a wide interval (`estimates.is_wide`) only the ends: `at least 1.29×`, `at most 0.78×`, or
    `between 0.81× and 1.55×` if they lie on both sides of 1.
    """
    return _ends_alone(value) or factor_interval(value)


def middle(value: Estimate) -> str:
    """Formats a ratio for a sentence without its interval: `1.23×`; a wide one as `ratio` does."""
    return _ends_alone(value) or factor(value.value)


def _ends_alone(value: Estimate) -> str:
    low, high = value.low, value.high
    if low is None or high is None or not is_wide(value):
        return ""
    if low > 1:
        return f"at least {factor(low)}"
    return f"at most {factor(high)}" if high < 1 else f"between {factor(low)} and {factor(high)}"


def share(part: float | None, whole: float | None) -> str:
    """Formats `part` ÷ `whole` in percent: `81 %`."""
    return UNKNOWN if part is None or whole is None else whole_percent(part / whole)


def share_interval(estimate: Estimate | None) -> str:
    """Formats a share in percent with its interval, `81 % [80, 82]`, or without: `81 %`."""
    if estimate is None or estimate.low is None or estimate.high is None:
        return share(point(estimate), 1)
    value, low, high = (100 * part for part in (estimate.value, estimate.low, estimate.high))
    return _interval(value, low, high, " %", least=0)


def whole_percent(fraction: float) -> str:
    """Formats a fraction in percent without decimals: `81 %`."""
    return f"{fraction * 100:.0f} %"


def percent(fraction: float | None) -> str:
    """Formats a fraction in percent with two digits: `0.53 %`."""
    return UNKNOWN if fraction is None else f"{float(f'{fraction * 100:.2g}'):g} %"


def scientific(value: float | None) -> str:
    """Formats a number in scientific notation: `2.1e-7`."""
    return UNKNOWN if value is None else f"{value:.1e}".replace("e-0", "e-")


def cosine(value: float | None) -> str:
    """Formats a cosine with six decimals: `0.999940`."""
    return UNKNOWN if value is None else f"{value:.6f}"


def calls(number: float | None) -> str:
    """Formats a number of calls with three digits, `12,400`, and infinity as `never`."""
    if number is None:
        return UNKNOWN
    if math.isinf(number):
        return "never"
    return f"{round(number, min(0, 2 - _magnitude(number))):,.0f}"


def count(number: float | None) -> str:
    """Formats a whole number without rounding: `12,431`."""
    return UNKNOWN if number is None else f"{number:,.0f}"


def counted(number: float, noun: str, plural: str) -> str:
    """Formats a count with its noun, in singular or plural: `1 kernel`, `42 kernels`."""
    return f"{count(number)} {noun if number == 1 else plural}"


def size(size_bytes: float | None) -> str:
    """Formats bytes with three digits in the unit that fits: `3.42 MiB`."""
    if size_bytes is None:
        return UNKNOWN
    scale, unit = size_unit(size_bytes)
    return f"{size_bytes:.0f} B" if unit == "B" else f"{_digits(size_bytes / scale, 3)} {unit}"


def limit(size_bytes: int) -> str:
    """Formats a size that a user chose, in the unit with the shortest text: `8 GB`, `8 GiB`."""
    units = [unit for unit in (*_SIZES, *_DECIMAL_SIZES) if size_bytes >= unit[0]]
    texts = [f"{size_bytes / scale:.10g} {unit}" for scale, unit in units]
    return min(texts, key=lambda text: (len(text.partition(" ")[0]), len(text)))


def size_unit(size_bytes: float) -> tuple[float, str]:
    """Returns the unit that fits the size: its number of bytes and its name."""
    return next((unit for unit in _SIZES if abs(size_bytes) >= unit[0] * 0.9995), _SIZES[-1])


def time_unit(seconds: float) -> tuple[float, str]:
    """Returns the unit that fits the time: its number of seconds and its name."""
    return next((unit for unit in _UNITS if abs(seconds) >= unit[0] * 0.9995), _UNITS[-1])


def tick(value: float, unit_of: Callable[[float], tuple[float, str]]) -> str:
    """Formats a round number on an axis, without trailing zeros: `0.5 ms`, `20 MiB`."""
    scale, unit = unit_of(value)
    return f"{value / scale:g} {unit}"


def _magnitude(value: float) -> int:
    """Returns the power of ten of `value` rounded to three digits: 0 for 9.99, 1 for 9.999."""
    return int(f"{value:.2e}".partition("e")[2])


def _digits(value: float, count_: int) -> str:
    return f"{value:.{max(0, count_ - 1 - _magnitude(value))}f}"


def _interval(value: float, low: float, high: float, unit: str, least: int) -> str:
    """Formats `value unit [low, high]` with `least` decimals.

    There is one decimal more if an end of the interval would look like the value.
    """
    places = least if min(value - low, high - value) >= 10.0**-least else least + 1
    return f"{value:.{places}f}{unit} [{low:.{places}f}, {high:.{places}f}]"
