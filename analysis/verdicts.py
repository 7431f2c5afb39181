"""What a reader may conclude, in sentences. Decided on intervals, never on their middles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pandas as pd

from analysis import numbers, words
from analysis.rows import GROUP, parts, trusted
from analysis.words import Row
from bench.stats import MARGIN

_BAND = f"±{numbers.whole_percent(MARGIN)}"


def verdict(group: pd.DataFrame) -> str:
    """What the rows of one GROUP (same work, place, dtype and baseline) say about its modes."""
    charted = words.as_rows(trusted(group))
    rivals = [row for row in charted if not words.is_control(row)]
    if not rivals:
        return _nothing(words.as_rows(group), bool(charted))
    faster = [row for row in rivals if row["verdict"] == "faster"]
    return _winner(faster, rivals) if faster else _no_winner(rivals)


def controls(section: pd.DataFrame) -> list[str]:
    """The noise floor of a SECTION: what each of its baselines reads against itself."""
    rows = words.as_rows(section)
    charted = words.as_rows(trusted(section))
    named = dict.fromkeys(words.baseline(row) for row in rows if row["baseline_mode"] is not None)
    found = {words.baseline(row): row for row in charted if words.is_control(row)}
    return [_control(name, found.get(name)) for name in named]


def _control(name: str, row: Row | None) -> str:
    if row is None:
        return f"Noise floor unknown: no run of {name} against itself can be charted."
    reads = f"{name} against itself reads {words.speedup(row)}"
    if row["verdict"] in ("faster", "slower"):
        return (
            f"Warning: {reads}, although both are the same. Differences of that size mean "
            "nothing here; measure again on a quieter machine."
        )
    return f"Noise floor: {reads}, {row['verdict']}."


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


def _winner(faster: Sequence[Row], rivals: Sequence[Row]) -> str:
    best = max(faster, key=lambda row: row["speedup_ci_low"])
    close = [row for row in rivals if row["speedup_ci_high"] >= best["speedup_ci_low"]]
    tied = [row["mode"] for row in close if row is not best]
    sentence = (
        f"{best['mode']} is faster than {words.baseline(best)}: {words.speedup(best)}; "
        f"{_cost(best)}."
    )
    if tied:
        sentence += f" Not told apart from it, as the intervals overlap: {', '.join(tied)}."
    if flags := words.flags(best):
        sentence += f" It was flagged: {', '.join(flags)}."
    return sentence


def _cost(row: Row) -> str:
    paid = words.break_even(row)
    first = f"first call {words.first_call(row)}"
    if paid == numbers.UNKNOWN:
        return f"{first}, when it pays is unknown"
    if paid == "at once":
        return f"{first}, no more than the baseline's"
    return f"{first}, pays after {paid} calls"


def _no_winner(rivals: Sequence[Row]) -> str:
    against = words.baseline(rivals[0])
    if all(row["verdict"] == "equivalent" for row in rivals):
        return f"No mode differs from {against} by more than {_BAND} on this data ({len(rivals)})."
    told = (
        (f"within {_BAND}", _of(rivals, "equivalent")),
        ("slower", _of(rivals, "slower")),
        ("cannot be said", _of(rivals, "inconclusive")),
    )
    parts = "; ".join(f"{name}: {', '.join(modes)}" for name, modes in told if modes)
    return f"No mode is shown to be faster than {against}. {parts[0].upper()}{parts[1:]}."


def _of(rows: Sequence[Row], verdict_word: str) -> list[str]:
    return [f"{row['mode']} {words.speedup(row)}" for row in rows if row["verdict"] == verdict_word]


def _nothing(rows: Sequence[Row], controlled: bool) -> str:
    why = [words.why_left_out(row) for row in rows]
    reasons = Counter(reason.partition(":")[0] for reason in why if reason is not None)
    told = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    if controlled and not told:
        return "Nothing can be said: only the baseline itself was measured."
    return f"Nothing can be said: no mode has a run that counts ({told})."
