"""Numbers in words: durations, bytes, ratios and counts, written the same way in every output."""

from __future__ import annotations

import math

from bench.stats import Estimate

UNKNOWN = "–"

_SIZES = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))
_DECIMAL_SIZES = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "KB"))
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


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


def estimate(value: Estimate | None) -> str:
    """A duration with its interval, from an estimate in seconds."""
    return UNKNOWN if value is None else duration_interval(value.value, value.low, value.high)


def factor(value: float | None) -> str:
    """`1.23×`."""
    return UNKNOWN if value is None else f"{value:.2f}×"


def factor_interval(value: float | None, low: float | None, high: float | None) -> str:
    """`1.23× [1.21, 1.25]`; without the brackets where there is no interval."""
    if value is None or low is None or high is None:
        return factor(value)
    places = _places(value, low, high, least=2)
    return f"{value:.{places}f}× [{low:.{places}f}, {high:.{places}f}]"


def ratio(value: Estimate) -> str:
    """The same of an estimate."""
    return factor_interval(value.value, value.low, value.high)


def times(value: float) -> str:
    """`5.1×`: about how many times."""
    return f"{_digits(value, 2)}×"


def share(part: float | None, whole: float | None) -> str:
    """`81 %`."""
    return UNKNOWN if part is None or whole is None else whole_percent(part / whole)


def whole_percent(fraction: float) -> str:
    """`81 %`, without decimals."""
    return f"{fraction * 100:.0f} %"


def percent(fraction: float | None) -> str:
    """`0.53 %`."""
    return UNKNOWN if fraction is None else f"{float(f'{fraction * 100:.2g}'):g} %"


def scientific(value: float | None) -> str:
    """`2.1e-7`."""
    return UNKNOWN if value is None else f"{value:.1e}".replace("e-0", "e-")


def calls(number: float | None) -> str:
    """`12,400`, three digits; `never` for infinity."""
    if number is None:
        return UNKNOWN
    if math.isinf(number):
        return "never"
    return f"{round(number, min(0, 2 - _magnitude(number))):,.0f}"


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


def limit(size_bytes: int) -> str:
    """`8 GB`, `8 GiB`: a size that somebody chose, in the unit in which it is shortest."""
    units = [unit for unit in (*_SIZES, *_DECIMAL_SIZES) if size_bytes >= unit[0]]
    told = [f"{size_bytes / scale:.10g} {unit}" for scale, unit in units]
    return min(told, key=lambda text: (len(text.partition(" ")[0]), len(text)))


def size_unit(size_bytes: float) -> tuple[float, str]:
    """The unit that suits and how many bytes it has."""
    return next((unit for unit in _SIZES if abs(size_bytes) >= unit[0] * 0.9995), _SIZES[-1])


def size_tick(size_bytes: float) -> str:
    """`20 MiB`: a round number without trailing zeros, for an axis."""
    scale, unit = size_unit(size_bytes)
    return f"{size_bytes / scale:g} {unit}" if size_bytes else "0"


def _unit(seconds: float) -> tuple[float, str]:
    return next((unit for unit in _UNITS if abs(seconds) >= unit[0] * 0.9995), _UNITS[-1])


def _magnitude(value: float) -> int:
    """The power of ten of `value` as three digits show it: 0 for 9.99, 1 for 9.999."""
    return int(f"{value:.2e}".partition("e")[2])


def _digits(value: float, count_: int) -> str:
    return f"{value:.{max(0, count_ - 1 - _magnitude(value))}f}"


def _places(value: float, low: float, high: float, least: int) -> int:
    """Decimals that keep the ends of an interval apart from its middle, one more at most."""
    half = min(value - low, high - value)
    return least if half >= 10.0**-least else least + 1
