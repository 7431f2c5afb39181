"""What is neither charted nor recommended, and why."""

from __future__ import annotations

from typing import Any

from analysis import words
from analysis.page.names import NEEDED, named
from analysis.page.study import Study
from analysis.words import Row

_ASKED = (
    "status", "reason", "in_effect", "in_effect_note", "budget", "budget_rank", "speedup_ci_low",
)  # fmt: skip
MOST_FILES = 50  # that could not be read are listed

# what is wrong comes before what was only skipped
_ORDER = ("wrong_result", "crashed", "oom", "timeout", "failed", "ok", "skipped")


def left_out(study: Study) -> dict[str, Any]:
    """`reasons`: a dict for each with the rows it is about, faults first; `unread`: files."""
    reasons: dict[str, list[Row]] = {}
    for row in words.as_rows(study.rows[[*NEEDED, *_ASKED]]):
        if why := words.why_left_out(row):
            reasons.setdefault(why, []).append(row)
    found = sorted(reasons.items(), key=lambda item: _rank(item[1][0]))
    return {
        "reasons": [{"why": why, "rows": named(study, rows)} for why, rows in found],
        "unread": list(study.unread.items())[:MOST_FILES],
        "more": max(0, len(study.unread) - MOST_FILES),
    }


def _rank(row: Row) -> int:
    status = str(row["status"])
    return _ORDER.index(status) if status in _ORDER else 0
