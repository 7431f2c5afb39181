"""Writes a comparison as text for a terminal, GitHub, Markdown, JSON or JUnit.

A new format is a function and a line of `arguments.FILES`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any
from xml.etree import ElementTree

from modescope.analysis.compare import wording
from modescope.analysis.compare.arguments import FAILED, NOT_COMPARED, UNDECIDED
from modescope.analysis.compare.gate import ComparedRow, StudyComparison, is_open
from modescope.analysis.format.phrases import indented_paragraph, paragraph
from modescope.analysis.rows.values import grouped, value_of
from modescope.bench import text as tables
from modescope.bench.text import escape

MOST_ROWS = 40  # changed ones and others, in a terminal and in Markdown; --json has all
MOST_ITEMS = 15  # differences, and works with eager's change
CELL = 200  # characters of a cell in Markdown: GitHub accepts 65,536 in a comment
ANNOTATIONS = 10  # of one level, that GitHub shows for a step
VERSION = 1
"""The version of the JSON. It rises when a name or a meaning changes, not when names are added."""

WORK = ("model", "model_args", "shape", "phase", "dtype", "mode", "baseline_mode", "threads")
ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, such as the escapes of colours in a torch message."""


def terminal(comparison: StudyComparison) -> str:
    """Formats the comparison for a terminal: result, differences, eager's own change, changed rows.

    Rows without a change are only counted.
    """
    lines = [
        line
        for text in (comparison.sentence, *wording.notes(comparison))
        for line in paragraph(text)
    ]
    lines += ["", "what differs", *_indent_items(wording.difference_texts(comparison))]
    if comparison.eager:
        lines += ["eager itself"]
        lines += _indent_items(
            [f"{wording.eager_change(eager)}  {eager.work}" for eager in comparison.eager]
        )
    changed, rest, count = wording.partition(comparison)
    if changed:
        lines += ["", *_table(changed)]
    if rest:
        undecided = grouped(
            (wording.timing_verdict(row.timing), row.pair.name) for row in rest if is_open(row)
        )
        lines += ["", *paragraph(count)]
        lines += _indent_items([
            f"{text}: {', '.join(dict.fromkeys(names))}" for text, names in undecided.items()
        ])  # fmt: skip
    return "\n".join(lines)


def _first(texts: Sequence[str]) -> list[str]:
    more = len(texts) - MOST_ITEMS
    return [*texts[:MOST_ITEMS], *([f"and {more} more; --json has all"] if more > 0 else [])]


def _indent_items(texts: Sequence[str]) -> list[str]:
    return [line for text in _first(texts) for line in indented_paragraph(text)]


def _table(rows: Sequence[ComparedRow]) -> Iterator[str]:
    """Yields a table grouped by model and size, with each row's verdict on the line below it."""
    works = grouped((row.pair.work, row) for row in rows[:MOST_ROWS])
    cells = [wording.cells(row)[:-1] for row in chain.from_iterable(works.values())]
    head, *lines = tables.plain(wording.TITLES[:-1], cells).splitlines()
    yield head
    left = iter(lines)
    for work, members in works.items():
        yield work
        for row in members:
            yield from (next(left), *indented_paragraph(wording.verdict(row)))
    if len(rows) > MOST_ROWS:
        yield f"and {len(rows) - MOST_ROWS} more rows that changed; --json has all"
    yield from paragraph(wording.LEGEND)


def markdown(comparison: StudyComparison) -> str:
    """Formats the comparison in Markdown, short enough for a comment on GitHub.

    If rows are left out, the text says how many.
    """
    lines = [f"**{_short(comparison.sentence)}**", ""]
    if comparison.status == NOT_COMPARED:
        return "\n".join(lines)
    for note in wording.notes(comparison):
        lines += [_short(note), ""]
    lines += ["What differs:", *_items(wording.difference_texts(comparison))]
    if comparison.eager:
        lines += ["", "Eager itself:"]
        lines += _items(
            [f"{eager.work}: {wording.eager_change(eager)}" for eager in comparison.eager]
        )
    changed, rest, count = wording.partition(comparison)
    if changed:
        lines += ["", _lines(changed), "", escape(wording.LEGEND)]
    if rest:
        lines += ["", f"<details><summary>{escape(count)}</summary>", ""]
        lines += [_lines(rest), "", "</details>"]
    if left_out := sum(max(len(rows) - MOST_ROWS, 0) for rows in (changed, rest)):
        lines += ["", f"{left_out} rows are left out here; --json has all."]
    return "\n".join([*lines, ""])


def _items(texts: Sequence[str]) -> list[str]:
    return [f"- {_short(text)}" for text in _first(texts)]


def _lines(rows: Sequence[ComparedRow]) -> str:
    cells = [(row.pair.work, *wording.cells(row)) for row in rows[:MOST_ROWS]]
    return tables.markdown(("work", *wording.TITLES), [list(map(_cut, line)) for line in cells])


def _short(text: str) -> str:
    return escape(_cut(text))


def _cut(text: str) -> str:
    return text if len(text) <= CELL else f"{text[: CELL - 1]}…"


def document(comparison: StudyComparison) -> str:
    """Returns the comparison as JSON with all rows, in the format of docs/compare.schema.json."""
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
        "differences": [asdict(difference) for difference in comparison.differences],
        "eager": [
            {
                "work": eager.work,
                "change": asdict(eager.change),
                "readings": _both(eager.old, eager.new),
            }
            for eager in comparison.eager
        ],
        "rows": [_content(row) for row in comparison.rows],
    }
    return f"{json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)}\n"


def _content(row: ComparedRow) -> dict[str, Any]:
    timing, names = row.timing, ("case_id", "device", "compile_cache", *WORK)
    return {
        **{name: value_of(row.pair.row, name) for name in names},
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
        "findings": [asdict(finding) for finding in row.findings],
        "failures": row.failures,
    }


def _both(old: Any, new: Any) -> dict[str, Any]:
    return {"old": old, "new": new}


def junit(comparison: StudyComparison) -> str:
    """Returns the comparison as JUnit XML, with a test case per row.

    A row that does not fail counts as skipped if its timing has no verdict or an undecided one.
    """
    root = ElementTree.Element("testsuites", name="modescope")
    suite = ElementTree.SubElement(root, "testsuite", name="modescope.compare")
    around = ElementTree.SubElement(suite, "properties")
    said = {
        "sentence": comparison.sentence,
        "what differs": "; ".join(wording.difference_texts(comparison)),
    }
    for name, value in said.items():
        ElementTree.SubElement(around, "property", name=name, value=_legal(value))
    if comparison.status == NOT_COMPARED:
        refused = {"classname": "modescope.compare", "name": "comparison"}
        case = ElementTree.SubElement(suite, "testcase", refused)
        ElementTree.SubElement(case, "error", message=_legal(comparison.sentence), type="refused")
    for row in comparison.rows:
        names = {"classname": _legal(row.pair.work), "name": _legal(row.pair.name)}
        _outcome(ElementTree.SubElement(suite, "testcase", names), row)
    found = Counter(element.tag for element in suite.iter())
    counts = {"tests": "testcase", "failures": "failure", "errors": "error", "skipped": "skipped"}
    for name, tag in counts.items():
        suite.set(name, str(found[tag]))
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, "unicode")}\n'


def _outcome(case: ElementTree.Element, row: ComparedRow) -> None:
    _, old, new, against, latency, verdict = map(_legal, wording.cells(row))
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


def github(comparison: StudyComparison) -> str:
    """Returns workflow commands that make GitHub annotate a step with the comparison.

    The annotations are the result in a sentence and the first rows that fail.
    """
    level = {FAILED: "error", NOT_COMPARED: "error", UNDECIDED: "warning"}
    lines = [_command(level.get(comparison.status, "notice"), "modescope", comparison.sentence)]
    failed = [row for row in comparison.rows if row.failures][: ANNOTATIONS - 1]
    lines += [
        _command("error", f"{row.pair.name}, {row.pair.work}", wording.verdict(row))
        for row in failed
    ]
    return "\n".join(lines)


def _command(level: str, title: str, message: str) -> str:
    def encoded(text: str, more: str = "") -> str:
        return "".join(f"%{ord(char):02X}" if char in f"%\r\n{more}" else char for char in text)

    return f"::{level} title={encoded(title, ':,')}::{encoded(message)}"
