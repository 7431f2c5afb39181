"""Made-up rows for the rules of causes, and `World`: a study that has a cause."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from modescope.analysis.causes.finding import findings
from modescope.analysis.causes.types import Finding
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import as_rows
from modescope.bench.records.results import Record
from tests.helpers.derivations import table_of
from tests.helpers.rows import row_with
from tests.helpers.studies import PACE_S, ROUNDS_OF_CLOCKS, content, save

Kernel = tuple[str, float, float]  # name, count, seconds


def profiled(span_s: float, *kernels: Kernel, overhead: float = 1.1, **columns: Any) -> Any:
    """The columns of a profiled call that takes `span_s`, with these kernels in it."""
    listed = [{"name": name, "count": count, "seconds": s} for name, count, s in kernels]
    return {
        "heaviest_kernels": json.dumps(listed),
        "kernels": sum(count for _, count, _ in kernels),
        "kernels_s": sum(s for _, _, s in kernels),
        "profiled_kernels_rounds_s": (sum(s for _, _, s in kernels),) * ROUNDS_OF_CLOCKS,
        "profiled_span_s": span_s,
        "profiler_overhead": overhead,
        "profiled_pace_s": PACE_S,
        **columns,
    }


_known: dict[str, list[Row]] = {}  # the tests of a file derive the same few studies


def rows_of(records: Iterable[Record], study: Path) -> list[Row]:
    """The derived rows of these records, saved as the study `study`, in their order."""
    kept = list(records)
    if (text := content(kept)) not in _known:
        by_id = {row["run_id"]: row for row in as_rows(table_of(save(kept, study)))}
        _known[text] = [by_id[one.attempt.run_id] for one in kept]
    return list(map(row_with, _known[text]))


def of_last(rows: Sequence[Row], **columns: Any) -> tuple[Finding, ...]:
    """The causes of the last row after these columns of it were changed or added."""
    return findings([*rows[:-1], row_with(rows[-1], **columns)])[-1]


def codes(found: Iterable[Finding]) -> list[str]:
    """The codes of causes, in their order."""
    return [one.code for one in found]


Change = Callable[[Sequence[Row]], Sequence[Row]]
"""A function that returns the derived rows of a world with something changed."""


@dataclass(frozen=True)
class World:
    """A study whose last row has the cause, with the share of a call expected.

    `figures` are what the cause's sentence takes from the rows, in its order.

    `silent` has, by a description, changes after which the cause must not be found; each changes
    one fact that the rule depends on. `still` has changes after which it must be found. Where a
    rule compares with a threshold, `silent` has a value on one side and `still` on the other.
    """

    records: Sequence[Record]
    figures: Sequence[str]
    silent: Mapping[str, Change]
    still: Mapping[str, Change] = field(default_factory=dict)
    share: float | None = None


def last(**columns: Any) -> Change:
    """Changes these columns of the last row, which is the one that is explained."""
    return lambda rows: [*rows[:-1], row_with(rows[-1], **columns)]


def first(**columns: Any) -> Change:
    """Changes these columns of the first row, with which the last one is compared."""
    return lambda rows: [row_with(rows[0], **columns), *rows[1:]]


def alone(rows: Sequence[Row]) -> Sequence[Row]:
    """Leaves only the last row, so that there is none to compare it with."""
    return rows[-1:]


def kernels(*heaviest: Kernel) -> str:
    """A value of the column `heaviest_kernels`, with these kernels."""
    return json.dumps([{"name": name, "count": n, "seconds": s} for name, n, s in heaviest])
