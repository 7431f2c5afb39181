"""A comparison as text: each form is one function. A new one is a function and a line of FILES."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from modescope.analysis.compare import words
from modescope.analysis.compare.rules.gate import (
    FAILED,
    NOT_COMPARED,
    UNDECIDED,
    Compared,
    Comparison,
    is_open,
)
from modescope.analysis.format import numbers, phrases
from modescope.analysis.format.paragraphs import WIDTH, beneath, paragraph
from modescope.bench.text.markup import escape

MOST_LINES = 40  # of one kind in a terminal; files hold all
MOST_ITEMS = 15  # differences, and works with eager's change, in Markdown
CELL = 200  # characters of a cell in Markdown
COMMENT_BYTES = 65_536
"""GitHub accepts so many characters in a comment."""

ENDING_BYTES = 400  # for what stands beneath the last row
SUMMARY = "GITHUB_STEP_SUMMARY"
"""The environment variable with the file that GitHub shows as the summary of a step."""

SUMMARY_BYTES = 2**20
LEAST_ROOM_BYTES = 2**16  # for all but the rows
ANNOTATIONS = 10
"""Annotations of one level that GitHub shows for a step."""

VERSION = 1
"""Of the JSON; increased when a name or a meaning changes. New names may be added without."""

WORK = ("model", "model_args", "shape", "phase", "dtype", "mode", "baseline_mode", "threads")
ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, such as the escapes of colours in a torch message."""


def terminal(comparison: Comparison) -> str:
    """The sentence, what differs, eager's own change, the changed rows; the others are counted."""
    lines = []
    for text in (comparison.sentence, words.gates(comparison), *comparison.notes):
        lines += paragraph(text)
    lines += ["", "what differs", *_first(words.differing(comparison))]
    if comparison.eager:
        lines += ["eager itself"]
        lines += _first([f"{words.eager(one)}  {one.work}" for one in comparison.eager])
    changed, rest = words.parted(comparison)
    if changed:
        lines += ["", *_table(changed)]
    if rest:
        count, more = numbers.counted(len(rest), "row", "rows"), "more " if changed else ""
        text = f"{count} {more}without a change that was shown: {words.counts(rest)}"
        lines += ["", *paragraph(text), *_undecided([row for row in rest if is_open(row)])]
    return "\n".join(lines)


def _first(texts: Sequence[str]) -> Iterator[str]:
    for text in texts[:MOST_LINES]:
        yield from beneath(text)
    if len(texts) > MOST_LINES:
        yield f"    and {len(texts) - MOST_LINES} more; --json has all"


def _table(rows: Sequence[Compared]) -> Iterator[str]:
    """A block per work; verdicts that do not fit stand beneath their row."""
    shown = [(row.pair.work, (f" {row.pair.name}", *words.cells(row))) for row in rows[:MOST_LINES]]
    titles = ("row", *words.TITLES)
    columns = list(zip(titles, *(cells for _, cells in shown), strict=True))[:-1]
    widths = [max(map(len, column)) for column in columns]

    def line(cells: Sequence[str]) -> str:
        padded = [f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=False)]
        return "  ".join([*padded, *cells[len(widths) :]]).rstrip()

    yield line(titles)
    for work, members in phrases.grouped(shown).items():
        yield work
        for cells in members:
            fits = len(line(cells)) <= WIDTH
            yield line(cells if fits else cells[:-1])
            yield from () if fits else beneath(cells[-1])
    if len(rows) > len(shown):
        yield f"and {len(rows) - len(shown)} more rows that changed; --markdown and --json have all"
    yield from paragraph(words.LEGEND)


def _undecided(rows: Sequence[Compared]) -> Iterator[str]:
    """Why rows are undecided, what they could have shown, and what would show more."""
    for why, number in Counter(row.timing.why for row in rows if row.timing.why).items():
        yield from beneath(f"{number} undecided: {why}")
    timings = [row.timing for row in rows if row.timing.detectable]
    if not timings:
        return
    known = sorted(timing.detectable for timing in timings if timing.detectable)
    span = " to ".join(dict.fromkeys(map(numbers.percent, (known[0], known[-1]))))
    needed = [timing.replicates for timing in timings if timing.replicates]
    more = len(needed) == len(timings) and max(needed) > min(timings[0].old, timings[0].new)
    target = numbers.percent(timings[0].target)
    advice = f"; {max(needed)} replicates a side would show {target}" if more else ""
    yield from beneath(
        f"{len(timings)} undecided: a change of {span} would be shown in 80 % of such "
        f"comparisons{advice}"
    )


def markdown(comparison: Comparison, limit_bytes: int = COMMENT_BYTES) -> str:
    """The whole comparison; rows that exceed the limit are left out, which the text says."""
    changed, rest = words.parted(comparison)
    titles = [escape(title) for title in ("work", "row", *words.TITLES)]
    table = f"| {' | '.join(titles)} |\n|{' --- |' * len(titles)}\n"
    folded = f"{len(rest)} rows without a change that was shown: {words.counts(rest)}"
    blocks = (
        (changed, "\n", f"\n{escape(words.LEGEND)}\n"),
        (rest, f"\n<details><summary>{escape(folded)}</summary>\n\n", "\n</details>\n"),
    )
    parts, shown = [_head(comparison)], 0
    room = limit_bytes - _size(parts[0]) - ENDING_BYTES
    for rows, before, after in blocks:
        around = _size(f"{before}{table}{after}") if rows else 0
        lines = list(_fitting(rows, room - around))
        if lines:
            parts += [before, table, *lines, after]
        room -= around + sum(map(_size, lines))
        shown += len(lines)
    if shown < len(comparison.rows):
        parts.append(f"\n{len(comparison.rows) - shown} rows are left out here; --json has all.\n")
    return "".join(parts)


def _head(comparison: Comparison) -> str:
    lines = [f"**{_short(comparison.sentence)}**", ""]
    if comparison.status != NOT_COMPARED:
        for note in (words.gates(comparison), *comparison.notes):
            lines += [_short(note), ""]
        lines += ["What differs:", *_items(map(_short, words.differing(comparison)))]
        if comparison.eager:
            eager = (f"{_short(one.work)}: {escape(words.eager(one))}" for one in comparison.eager)
            lines += ["", "Eager itself:", *_items(eager)]
        lines += [""]
    return "\n".join(lines)


def _items(texts: Iterable[str]) -> list[str]:
    items = [f"- {text}" for text in texts]
    more = len(items) - MOST_ITEMS
    return [*items[:MOST_ITEMS], *([f"- and {more} more"] if more > 0 else [])]


def _fitting(rows: Sequence[Compared], room_bytes: int) -> Iterator[str]:
    """The lines of the first rows, as many as there is room for; a repeated work is left empty."""
    work = None
    for row in rows:
        cells = ("" if row.pair.work == work else row.pair.work, row.pair.name, *words.cells(row))
        line = f"| {' | '.join(map(_short, cells))} |\n"
        room_bytes -= _size(line)
        if room_bytes < 0:
            return
        yield line
        work = row.pair.work


def _size(text: str) -> int:
    return len(text.encode())


def _short(text: str) -> str:
    return escape(text if len(text) <= CELL else f"{text[: CELL - 1]}…")


def document(comparison: Comparison) -> str:
    """JSON with a row for each row of either side; docs/compare.schema.json describes it."""
    request = comparison.request
    content = {
        "version": VERSION,
        "status": comparison.status,
        "sentence": comparison.sentence,
        "old": str(request.old),
        "new": str(request.new),
        "where": request.where,
        "allowed": request.allowed,
        "gates": comparison.gates,
        "margin": request.margin,
        "latency_margin": request.latency_margin,
        "interleaved": comparison.interleaved,
        "notes": comparison.notes,
        "differences": [asdict(one) for one in comparison.differences],
        "eager": [
            {"work": one.work, "change": asdict(one.change), "readings": _both(one.old, one.new)}
            for one in comparison.eager
        ],
        "rows": [_content(row) for row in comparison.rows],
    }
    return f"{json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)}\n"


def _content(row: Compared) -> dict[str, Any]:
    timing, described = row.timing, row.pair.row
    return {
        **{name: described[name] for name in ("case_id", "device", "compile_cache", *WORK)},
        "name": row.pair.name,
        "work": row.pair.work,
        "processes": _both(len(row.pair.old), len(row.pair.new)),
        "timed_processes": _both(timing.old, timing.new),
        "speedup": _both(timing.speedup_old, timing.speedup_new),
        "latency_s": _both(timing.latency_old_s, timing.latency_new_s),
        "against_eager_change": timing.against_eager and asdict(timing.against_eager),
        "latency_change": timing.latency and asdict(timing.latency),
        "verdict": timing.verdict,
        "why": timing.why,
        "detectable": timing.detectable,
        "replicates_needed": timing.replicates,
        "findings": [asdict(one) for one in row.findings],
        "failures": row.failures,
    }


def _both(old: Any, new: Any) -> dict[str, Any]:
    return {"old": old, "new": new}


def junit(comparison: Comparison) -> str:
    """JUnit XML, a test case per row; rows that are not compared are skipped."""
    root = ElementTree.Element("testsuites", name="modescope")
    suite = ElementTree.SubElement(root, "testsuite", name="modescope.compare")
    request = comparison.request
    properties = {"sentence": comparison.sentence, "old": request.old, "new": request.new}
    properties |= {"gates": ",".join(comparison.gates)}
    around = ElementTree.SubElement(suite, "properties")
    changes = (
        (f"differs.{one.column}", f"{one.old} → {one.new}") for one in comparison.differences
    )
    for name, value in (*properties.items(), *changes):
        ElementTree.SubElement(around, "property", name=name, value=_legal(str(value)))
    if comparison.status == NOT_COMPARED:
        refused = {"classname": "modescope.compare", "name": "comparison"}
        case = ElementTree.SubElement(suite, "testcase", refused)
        ElementTree.SubElement(case, "error", message=_legal(comparison.sentence), type="refused")
    used: Counter[tuple[str, str]] = Counter()
    for row in comparison.rows:
        names = _legal(row.pair.work), _legal(row.pair.name)
        used[names] += 1
        times = f" ({used[names]})" if used[names] > 1 else ""
        case = ElementTree.SubElement(
            suite, "testcase", classname=names[0], name=f"{names[1]}{times}"
        )
        _outcome(case, row)
    counts = {tag: str(sum(1 for _ in suite.iter(tag)))
              for tag in ("testcase", "failure", "error", "skipped")}  # fmt: skip
    for element in (root, suite):
        element.set("failures", counts["failure"])
        element.set("errors", counts["error"])
        element.set("tests", counts["testcase"])
    suite.set("skipped", counts["skipped"])
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, "unicode")}\n'


def _outcome(case: ElementTree.Element, row: Compared) -> None:
    old, new, against, latency, verdict = map(_legal, words.cells(row))
    detail = f"old {old}, new {new}, against eager {against}, latency {latency}: {verdict}"
    if row.failures:
        message = _legal("; ".join(row.failures))
        ElementTree.SubElement(case, "failure", message=message, type="regression").text = detail
    elif row.timing.verdict is None or is_open(row):
        ElementTree.SubElement(case, "skipped", message=verdict)
    else:
        ElementTree.SubElement(case, "system-out").text = detail


def _legal(text: str) -> str:
    return ILLEGAL.sub("\ufffd", text)


def github(comparison: Comparison) -> str:
    """Commands to GitHub in the output of a step: the sentence, and the rows that fail.

    At most ANNOTATIONS are errors; the last one counts the others.
    """
    level = {FAILED: "error", NOT_COMPARED: "error", UNDECIDED: "warning"}
    lines = [_command(level.get(comparison.status, "notice"), "modescope", comparison.sentence)]
    failed = [row for row in comparison.rows if row.failures]
    room = ANNOTATIONS - len(lines)
    shown = failed if len(failed) <= room else failed[: room - 1]
    for row in shown:
        lines.append(_command("error", f"{row.pair.name}, {row.pair.work}", words.verdict(row)))
    if len(failed) > len(shown):
        text = f"{len(failed) - len(shown)} more rows fail; the summary of the step has them"
        lines.append(_command("error", "modescope", text))
    return "\n".join(lines)


def _command(level: str, title: str, message: str) -> str:
    def encoded(text: str, more: str = "") -> str:
        return "".join(f"%{ord(each):02X}" if each in f"%\r\n{more}" else each for each in text)

    return f"::{level} title={encoded(title, ':,')}::{encoded(message)}"


def add_summary(comparison: Comparison) -> str | None:
    """Appends the comparison to the summary of GitHub's step; returns why it could not.

    Raises OSError if the file cannot be written.
    """
    if not (name := os.environ.get(SUMMARY)):
        return f"${SUMMARY} is not set, so no summary is written; GitHub sets it in a step"
    path = Path(name)
    room = SUMMARY_BYTES - (path.stat().st_size if path.exists() else 0)
    if room < LEAST_ROOM_BYTES:
        return f"{path} is nearly as long as GitHub allows, so no summary is written"
    with path.open("a", encoding="utf-8") as summary:
        summary.write(f"\n{markdown(comparison, room - 2)}\n")
    return None


FILES: dict[str, tuple[Callable[[Comparison], str], str]] = {
    "markdown": (markdown, "Markdown, short enough for a comment on GitHub"),
    "json": (document, "every row, as docs/compare.schema.json describes"),
    "junit": (junit, "JUnit XML, a test case per row; undecided rows are skipped"),
}
"""Options that take a file: what is written to it, and its description."""
