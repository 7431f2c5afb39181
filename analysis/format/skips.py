"""Lists cases that could not be measured here: a line per reason, which it says once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from modescope.analysis.format import phrases
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import grouped
from modescope.bench.records.outcomes import Status

MOST_LETTERS = 120  # of a reason

_CLAUSE = re.compile(r";| \(|, (?:and|so|which) ")
_SAME_CODE = re.compile(r"would measure the kernels of mode=(\S+) again")


def shortened(reason: str) -> str:
    """Returns the first clause of `reason`, at most MOST_LETTERS of it."""
    return _CLAUSE.split(reason, maxsplit=1)[0].strip()[:MOST_LETTERS]


def in_short(row: Row) -> str:
    """Returns why a row has no result, in few words: `a CUDA graph needs an NVIDIA GPU`."""
    reason = predicates.reason(row)
    if again := _SAME_CODE.search(reason):
        return f"same code as {again[1]}{'' if predicates.on_cuda(row) else ' on a CPU'}"
    return shortened(reason)


def by_reason(rows: Iterable[Row], whole: bool = False) -> Mapping[str, Sequence[Row]]:
    """Groups the skipped ones of `rows` by their reasons, in short or as they were stored."""
    skipped = (row for row in rows if row["status"] == Status.SKIPPED)
    return grouped((predicates.reason(row) if whole else in_short(row), row) for row in skipped)


def lines(rows: Iterable[Row], whole: bool = False) -> list[str]:
    """Returns a line per reason: `skipped: cuda-graph (fp32): a CUDA graph needs ...`.

    `whole`: with the whole reason, which also says what to do instead.
    """
    groups = by_reason(rows, whole)
    return [f"skipped: {_names(same)}: {reason}" for reason, same in groups.items()]


def _names(rows: Iterable[Row]) -> str:
    """Names modes, those with the same precisions together: `cuda-graph, amp (bf16, fp32)`."""
    dtypes = grouped((phrases.mode(row), row["dtype"]) for row in rows)
    together = grouped((tuple(dict.fromkeys(held)), mode) for mode, held in dtypes.items())
    return "; ".join(f"{', '.join(modes)} ({', '.join(held)})" for held, modes in together.items())
