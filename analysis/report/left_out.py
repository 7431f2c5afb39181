"""The rows and files that are neither charted nor recommended, with the reasons."""

from __future__ import annotations

from typing import Any

from modescope.analysis.format import phrases
from modescope.analysis.format.phrases import Row
from modescope.analysis.report.names import NEEDED, named
from modescope.analysis.report.study import Study

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
