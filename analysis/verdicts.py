"""What the speedups of a work say, in a sentence. Decided on intervals, never on their middles."""

from __future__ import annotations

from collections import Counter

import pandas as pd

from analysis import numbers, words
from analysis.rows import GROUP, parts, trusted


def reading(section: pd.DataFrame) -> str | None:
    """One sentence on what the forest plot of a SECTION shows; None where nothing is charted."""
    charted = trusted(section)
    if charted.empty:
        return None
    told = []
    for group in map(words.as_rows, parts(charted, GROUP)):
        found = Counter(row["verdict"] for row in group if not words.is_control(row))
        counts = ", ".join(f"{count} {name}" for name, count in sorted(found.items()))
        told.append(f"{words.contest(group[0])}: {counts or 'only the baseline against itself'}")
    least = charted["mde"].dropna().max()  # of single processes, as only they have one
    doubt = (
        "" if pd.isna(least)
        else f"; the least certain row would have shown a true change of {numbers.percent(least)} "
        "in 80 % of such runs"
    )  # fmt: skip
    return f"{'; '.join(told)}{doubt}."
