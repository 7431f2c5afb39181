"""A comparison in GitHub Actions: annotations and the summary of the step."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from modescope.analysis.compare.formats import markdown, words
from modescope.analysis.compare.rules.gate import (
    FAILED,
    NOT_COMPARED,
    UNDECIDED,
    Compared,
    Comparison,
)  # fmt: skip

SUMMARY = "GITHUB_STEP_SUMMARY"
"""The environment variable with the file that GitHub shows as the summary of a step."""

SUMMARY_BYTES = 2**20
_LEAST_ROOM = 2**16  # bytes, for all but the rows

ANNOTATIONS = 10
"""Annotations of one level that GitHub shows for a step."""


def commands(comparison: Comparison) -> list[str]:
    """Lines that GitHub reads from the output of a step: the sentence, and the rows that fail."""
    level = {FAILED: "error", NOT_COMPARED: "error", UNDECIDED: "warning"}
    first = _line(level.get(comparison.status, "notice"), "modescope", comparison.sentence)
    failed = [row for row in comparison.rows if row.failures]
    return [first, *_of_rows(failed)]


def _of_rows(failed: Sequence[Compared]) -> list[str]:
    """At most ANNOTATIONS errors with the sentence; the last one counts the others."""
    room = ANNOTATIONS - 1
    shown = failed if len(failed) <= room else failed[: room - 1]
    lines = [
        _line("error", f"{row.pair.name}, {row.pair.work}", words.verdict(row)) for row in shown
    ]
    if len(failed) > len(shown):
        text = f"{len(failed) - len(shown)} more rows fail; the summary of the step has them"
        lines.append(_line("error", "modescope", text))
    return lines


def _line(level: str, title: str, message: str) -> str:
    return f"::{level} title={_escaped(title, ':,')}::{_escaped(message)}"


def _escaped(text: str, more: str = "") -> str:
    """Percent-encodes what would end a command or one of its properties."""
    return "".join(f"%{ord(each):02X}" if each in f"%\r\n{more}" else each for each in text)


def add_summary(comparison: Comparison) -> str | None:
    """Appends the comparison to the summary of the step; returns why it could not.

    Raises OSError if the file cannot be written.
    """
    if not (name := os.environ.get(SUMMARY)):
        return f"${SUMMARY} is not set, so no summary is written; GitHub sets it in a step"
    path = Path(name)
    used = path.stat().st_size if path.exists() else 0
    if SUMMARY_BYTES - used < _LEAST_ROOM:
        return f"{path} is nearly as long as GitHub allows, so no summary is written"
    text = markdown.text(comparison, SUMMARY_BYTES - used - 2, bytes_count=True)
    with path.open("a", encoding="utf-8") as summary:
        summary.write(f"\n{text}\n")
    return None
