"""Builds the tables of a report: all rows, flagged rows, rows left out, and raw data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from modescope.analysis.causes import finding
from modescope.analysis.derive import over_fp32
from modescope.analysis.derive.flags import FLAGS, legend
from modescope.analysis.estimates import number_of
from modescope.analysis.format import cells, columns, numbers, phrases
from modescope.analysis.format.columns import (
    AGAINST,
    BUDGET,
    CACHE,
    DTYPE,
    MODE,
    SPEEDUP,
    Column,
    of_passes,
    wanted,
)
from modescope.analysis.report.study import Study
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import grouped
from modescope.bench.records.outcomes import Status

FIRST = (MODE, Column("verdict", cells.outcome), SPEEDUP, DTYPE)  # a phone shows the first three
# columns that rows of one work may differ in -> prefix of the text if all rows are equal
_OPTIONAL = {AGAINST: "against ", BUDGET: "budget=", CACHE: "compile_cache="}

# errors come before skipped rows
_ORDER = (
    *(Status.WRONG_RESULT, Status.CRASHED, Status.OOM, Status.TIMEOUT, Status.FAILED),
    *(Status.OK, Status.SKIPPED),
)


@dataclass(frozen=True)
class Columns:
    """The columns of the table of all rows.

    `filters` are those columns of model, sizes, phase and machine that vary: a reader can filter by
    them, but they are not shown, because the heading above a group of rows says the same.
    """

    leading: Sequence[Column]  # of every row
    measured: Sequence[Column]  # of rows that ended ok
    further: Sequence[Column]  # of the same; hidden until a reader asks for them
    filters: Sequence[Column]  # of works, as filters only: their headings show the same


def listing(study: Study) -> dict[str, Any]:
    """Returns the template variables of the table of all rows.

    `columns` is a Columns. `shared` is a text with the values of the optional columns in which all
    rows are equal. `legend` says what `~` before a number means.
    """
    rows = [*chain.from_iterable(study.sections)]
    by_work = (
        Column("model", lambda row: row["model"]),
        Column("arguments", phrases.arguments),
        Column("inputs", phrases.described_inputs),
        Column("shape", lambda row: phrases.sizes(row["shape"])),
        Column("phase", phrases.phase),
        Column("where", study.place),
    )
    shown = Columns(
        leading=[*FIRST, *_varying(_OPTIONAL, rows)],
        measured=of_passes(wanted((c for c in columns.REPORTED if c != SPEEDUP), rows), rows),
        further=of_passes(wanted(columns.FURTHER, rows), rows),
        filters=_varying(by_work, rows),
    )
    return {
        "columns": shown,
        "shared": _shared(rows),
        "legend": "; ".join(filter(None, (legend(rows), over_fp32.legend(rows)))),
    }


def _varying(candidates: Iterable[Column], rows: Sequence[Row]) -> list[Column]:
    return [column for column in candidates if len({column.cell(row) for row in rows}) > 1]


def _shared(rows: Sequence[Row]) -> str:
    texts = {column: {column.cell(row) for row in rows} for column in _OPTIONAL}
    same = {column: min(values) for column, values in texts.items() if len(values) == 1}
    return ", ".join(
        text if text == "no baseline" else _OPTIONAL[column] + text for column, text in same.items()
    )


def sort_key(column: Column, row: Row, text: str) -> str | None:
    """The number by which a browser sorts a cell, as text; None if `text` shows no number."""
    number = None if column.key is None else number_of(row, column.key)
    if number is None or text == numbers.UNKNOWN:
        return None
    return "1e308" if math.isinf(number) else f"{number:.7g}"


def flagged(study: Study) -> list[tuple[str, str, list[Row]]]:
    """Returns the name, the meaning and the rows of each raised flag, in the order of FLAGS."""
    raised = grouped((flag, row) for row in study.by_id.values() for flag in predicates.flags(row))
    return [(flag, entry.meaning, raised[flag]) for flag, entry in FLAGS.items() if flag in raised]


def left_out(study: Study) -> dict[str, list[Row]]:
    """Groups the rows that do not count by the reason; errors come first."""
    reasons = grouped(
        (why, row) for row in study.by_id.values() if (why := predicates.why_left_out(row))
    )
    return dict(sorted(reasons.items(), key=lambda item: _ORDER.index(item[1][0]["status"])))


def runs(study: Study) -> dict[str, Any]:
    """Returns template variables on the rows that a page lists: three dicts by run_id.

    `causes` has the texts of a row's causes; `files` has kind and path of its trace and of its
    memory snapshot, if these exist; `strips` those of rows whose rounds are known.
    """
    rows = [*chain.from_iterable(study.sections)]
    return {
        "causes": {row["run_id"]: _causes(study, row) for row in rows},
        "files": {row["run_id"]: [*_files(study, row)] for row in rows},
        "strips": study.strips,
    }


def _causes(study: Study, row: Row) -> list[str]:
    found = study.causes.get(row["run_id"], ())
    return [*(cause.text for cause in found[:1]), *map(finding.standalone_text, found[1:])]


def _files(study: Study, row: Row) -> Iterator[tuple[str, str]]:
    """The kind and path of the row's trace and memory snapshot, if these files exist.

    A study may be passed on without them.
    """
    for kind, file in (("trace", row["trace"]), ("memory snapshot", row["snapshot"])):
        if file and study.traces and (study.traces / file).is_file():
            yield kind, f"../traces/{file}"
