"""The parts of a training step, each waited for, beside the step that nobody takes apart.

Parts and step were timed in one process, the parts in a pass of their own. Waiting after each part
costs, and what one part leaves running while the next begins is lost; so the parts need not add up
to the step, and how far they do not is a figure of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pandas as pd

from analysis import intervals, style, words
from analysis.rows import SECTION, trusted
from analysis.words import Row
from bench.stats import Estimate

PARTS = ("forward", "backward", "optimizer", "scaler")

_SAME_WORK = (*SECTION, "grad", "baseline_mode", "baseline_dtype")


@dataclass(frozen=True)
class Faster:
    """How many times as fast as in plain eager is each part of a mode; None where unknown."""

    row: Row
    reference: Row
    parts: Mapping[str, Estimate | None]


def parts_of(row: Row) -> tuple[str, ...]:
    """The parts of a derived row's step, of which a GradScaler's is not always one."""
    return tuple(name for name in PARTS if row[f"{name}_s"] is not None)


def _parts(run: Row) -> Estimate | None:
    """Which share of the undivided step do its parts add up to? `run` is one process."""
    scaled = run["loss_scale"] is not None or run["_scaler"] is not None
    known = [run[f"_{name}"] for name in (PARTS if scaled else PARTS[:-1])]
    if run["_latency"] is None or None in known:
        return None
    return Estimate(sum(part.value for part in known) / run["_latency"].value, None, None)


SHARES: dict[str, Callable[[Row], Estimate | None]] = {"_parts": _parts}
"""What each process is asked besides its clocks; the answers of a case's processes are combined."""


def parts_ratio(rows: pd.DataFrame) -> pd.Series:
    """Which share of the undivided step do its parts add up to?"""
    told = [None if known is None else known.value for known in rows["_parts"]]
    return pd.Series(told, index=rows.index, dtype="float64")


def parts_residual_s(rows: pd.DataFrame) -> pd.Series:
    """What of the undivided step do its parts leave? Below 0 where they take longer."""
    return rows["latency_s"] * (1 - rows["parts_ratio"])


def charted(section: pd.DataFrame) -> list[Row]:
    """The trusted rows of a SECTION in the order of figures; none where no step is known by parts.

    Steps that could not be taken apart are among them, to be shown undivided.
    """
    rows = words.as_rows(trusted(section))
    known = any(row["parts_ratio"] is not None for row in rows)
    return sorted(rows, key=style.order) if known else []


def estimate(row: Row, name: str) -> Estimate | None:
    """A derived duration of `row` with its interval: `latency`, or one of PARTS."""
    value = row[f"{name}_s"]
    if value is None:
        return None
    return Estimate(value, row[f"{name}_ci_low_s"], row[f"{name}_ci_high_s"])


def against_eager(section: pd.DataFrame) -> list[Faster]:
    """What each mode of a SECTION gains in each part, in the order of figures.

    Against plain eager of the same options, grad axis and baseline, at the baseline's dtype. As
    processes differ in their pace, no raw times are compared: a part is taken by its share of the
    step in its own process, and the step by its speedup over the baseline, paired in that process.
    Intervals are the worst case of those that go into them.
    """
    rows = [row for row in charted(section) if row["parts_ratio"] is not None]
    references = {_key(row): row for row in rows if _is_reference(row)}
    return [
        Faster(row, references[_key(row)], _gains(row, references[_key(row)]))
        for row in rows
        if not _is_reference(row) and _key(row) in references
    ]


def _is_reference(row: Row) -> bool:
    plain = row["compile"] == "none" and not row["graph"] and not row["autocast"]
    return bool(plain and row["dtype"] == row["baseline_dtype"])


def _key(row: Row) -> tuple[object, ...]:
    return tuple(row[name] for name in _SAME_WORK)


def _gains(row: Row, reference: Row) -> dict[str, Estimate | None]:
    faster = intervals.quotient(_speedup(row), _speedup(reference))
    return {
        name: intervals.product(
            faster, intervals.quotient(_share(reference, name), _share(row, name))
        )
        for name in PARTS
    }


def _speedup(row: Row) -> Estimate:
    return Estimate(row["speedup"], row["speedup_ci_low"], row["speedup_ci_high"])


def _share(row: Row, name: str) -> Estimate | None:
    return intervals.quotient(estimate(row, name), estimate(row, "latency"))
