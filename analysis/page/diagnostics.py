"""Which flags were raised, on which rows, what each means and what helps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from analysis import flags, words
from analysis.page.names import NEEDED, named
from analysis.page.study import Study
from analysis.words import Row


def diagnostics(study: Study) -> dict[str, list[dict[str, Any]]]:
    """`raised`: a dict per raised flag, in the order of FLAGS and then of appearance."""
    raised: dict[str, list[Row]] = {}
    for row in words.as_rows(study.rows[[*NEEDED, "flags"]]):
        for flag in words.flags(row):
            raised.setdefault(flag, []).append(row)
    known = [flag for flag in flags.FLAGS if flag in raised]
    unknown = [flag for flag in raised if flag not in flags.FLAGS]
    return {"raised": [_told(study, flag, raised[flag]) for flag in (*known, *unknown)]}


def _told(study: Study, flag: str, rows: Sequence[Row]) -> dict[str, Any]:
    meaning = flags.FLAGS.get(flag, "this version of modescope does not know it.")
    return {"flag": flag, "meaning": meaning, "rows": named(study, rows)}
