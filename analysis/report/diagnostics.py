"""The raised flags: their rows, their meaning and their remedies."""

from __future__ import annotations

from typing import Any

from modescope.analysis.derive import flags
from modescope.analysis.format import phrases
from modescope.analysis.report.names import NEEDED, named
from modescope.analysis.report.study import Study


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
