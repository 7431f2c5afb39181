"""The rates that were measured as a device's highest, for the header of a report."""

from __future__ import annotations

from collections.abc import Sequence

from modescope.analysis.format import numbers, phrases
from modescope.analysis.format.phrases import Row
from modescope.analysis.report.study import MOST_PLACES, Study


def ceilings(study: Study) -> str:
    """`Measured ceilings: matrix products 73 GFLOP/s in fp32; memory 29 to 94 GB/s`.

    Of each place, where there are several; empty where nothing was measured, or of too many places.
    Memory rates are those of transfers as large as the calls, which caches make differ.
    """
    named = [*phrases.PLACE, "dtype", "ceiling_flops_per_s", "ceiling_bytes_per_s"]
    rows = phrases.as_rows(study.rows[named])
    places = phrases.grouped((study.place(row), row) for row in rows)
    texts = {place: text for place, members in places.items() if (text := _rates(members))}
    if not texts or len(places) > MOST_PLACES:
        return ""
    if len(places) == 1:
        return f"Measured ceilings: {texts.popitem()[1]}"
    return "Measured ceilings: " + ". ".join(f"{place}: {text}" for place, text in texts.items())


def _rates(rows: Sequence[Row]) -> str:
    computing = phrases.grouped(
        (row["dtype"], row["ceiling_flops_per_s"]) for row in rows if row["ceiling_flops_per_s"]
    )
    products = [
        f"{_span(rates, 'FLOP/s')} in {dtype}" for dtype, rates in sorted(computing.items())
    ]
    texts = [f"matrix products {', '.join(products)}"] if products else []
    moving = [row["ceiling_bytes_per_s"] for row in rows if row["ceiling_bytes_per_s"]]
    texts += [f"memory {_span(moving, 'B/s')}"] if moving else []
    return "; ".join(texts)


def _span(rates: Sequence[float], unit: str) -> str:
    """`104 to 150 GB/s`; the unit of the lower end only where it differs."""
    low, high = (numbers.rate(end, unit) for end in (min(rates), max(rates)))
    value, _, its_unit = low.partition(" ")
    shown = value if high.endswith(f" {its_unit}") else low
    return low if low == high else f"{shown} to {high}"
