"""Short lists of rows: those with a flag, and those that do not count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from modescope.analysis.derive import flags
from modescope.analysis.format import phrases
from modescope.analysis.format.phrases import Row
from modescope.analysis.report.render import Glyph, glyph
from modescope.analysis.report.study import Study

NEEDED = (
    "run_id", "mode", "apart", "dtype", "autocast", "compile_mode", "graph", "model", "model_args",
    "model_inputs", "shape", "phase", "optimizer", "training", "calls",
    *phrases.PLACE, "compile_cache",
)  # fmt: skip
"""The columns that a row needs to be named."""
MOST_NAMES, MOST_WORKS = 24, 12  # names per work; works per list


@dataclass(frozen=True)
class Name:
    """The name of a row within its work, and the anchor of its command on the page."""

    text: str
    glyph: Glyph
    anchor: str | None


@dataclass(frozen=True)
class Named:
    """Rows of one work."""

    work: str
    names: tuple[Name, ...]
    more: int  # further rows of this work, not named


@dataclass(frozen=True)
class Names:
    """Rows grouped by work."""

    works: tuple[Named, ...]
    more: int  # further works, not listed
    count: int  # rows in all


def named(study: Study, rows: Sequence[Row]) -> Names:
    """The names of `rows`, in their order."""
    places = [f" on {study.place(row)}" if study.has_letters else "" for row in rows]
    pairs = zip(rows, places, strict=True)
    by_work = phrases.grouped((phrases.work(row) + place, row) for row, place in pairs)
    shown = list(by_work.items())[:MOST_WORKS]
    return Names(
        tuple(_of_work(study, work, members) for work, members in shown),
        len(by_work) - len(shown),
        len(rows),
    )


def _of_work(study: Study, work: str, rows: Sequence[Row]) -> Named:
    names = tuple(name(study, row) for row in rows[:MOST_NAMES])
    return Named(work, names, max(0, len(rows) - MOST_NAMES))


def name(study: Study, row: Row) -> Name:
    """The name of one row; with its compiler cache if rows of the study differ in it."""
    cache = f" ({row['compile_cache']} cache)" if study.has_caches else ""
    return Name(phrases.variant(row) + cache, glyph(row), study.anchor(row))


def diagnostics(study: Study) -> dict[str, list[dict[str, Any]]]:
    """`raised`: a dict per raised flag, in the order of FLAGS; unknown flags come last."""
    rows = phrases.as_rows(study.rows[[*NEEDED, "flags"]])
    raised = phrases.grouped((flag, row) for row in rows for flag in phrases.flags(row))
    known = {flag: one.meaning for flag, one in flags.FLAGS.items()}
    unknown = dict.fromkeys(raised, "this version of modescope does not know this flag.")
    meanings = known | {flag: unknown[flag] for flag in raised if flag not in known}
    return {
        "raised": [
            {"flag": flag, "meaning": meaning, "rows": named(study, raised[flag])}
            for flag, meaning in meanings.items()
            if flag in raised
        ]
    }


_REASONS = (
    "status", "reason", "in_effect", "in_effect_note", "budget", "budget_rank", "speedup_ci_low",
)  # fmt: skip
MOST_FILES = 50  # of the unreadable files, this many are listed

# errors come before skipped rows
_ORDER = ("wrong_result", "crashed", "oom", "timeout", "failed", "ok", "skipped")


def left_out(study: Study) -> dict[str, Any]:
    """`reasons`: a dict per reason with its rows, errors first; `unread`: unreadable files."""
    rows = phrases.as_rows(study.rows[[*NEEDED, *_REASONS]])
    pairs = ((why, row) for row in rows if (why := phrases.why_left_out(row)))
    reasons = sorted(phrases.grouped(pairs).items(), key=lambda item: _rank(item[1][0]))
    return {
        "reasons": [{"why": why, "rows": named(study, rows)} for why, rows in reasons],
        "unread": list(study.unread.items())[:MOST_FILES],
        "more": max(0, len(study.unread) - MOST_FILES),
    }


def _rank(row: Row) -> int:
    status = str(row["status"])
    return _ORDER.index(status) if status in _ORDER else 0
