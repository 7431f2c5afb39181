"""Writes a comparison as text for a terminal, GitHub, Markdown, JSON or JUnit.

A new format is a function and a line of FILES.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any
from xml.etree import ElementTree

from modescope.analysis.compare.gate import (
    FAILED,
    NOT_COMPARED,
    UNDECIDED,
    ComparedRow,
    StudyComparison,
    is_open,
)
from modescope.analysis.compare.timing import EagerChange, Timing
from modescope.analysis.format import numbers
from modescope.analysis.format.phrases import indented_paragraph, paragraph
from modescope.analysis.rows.values import grouped, value_of
from modescope.bench import text as tables
from modescope.bench.stats.estimates import Estimate
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

TITLES = ("row", "old", "new", "against eager [95 %]", "latency [95 %]", "verdict")
LEGEND = (
    "old and new: speedup over eager of the same side (without a baseline: latency); the other two "
    "are changes of time, + is slower"
)
SAME = "Nothing that is recorded differs: the same code on both sides."


def change(estimate: Estimate | None) -> str:
    """Formats a change in percent, with its interval if it has one: `+4.8 % [+4.1, +5.5]`."""
    if estimate is None:
        return numbers.UNKNOWN
    if estimate.low is None or estimate.high is None:
        return f"{_signed(estimate.value, 1)} %"
    places = 2 if estimate.high - estimate.low < 0.002 else 1
    value, low, high = (
        _signed(number, places) for number in (estimate.value, estimate.low, estimate.high)
    )
    return f"{value} % [{low}, {high}]"


def _signed(share: float, places: int) -> str:
    return f"{round(share * 100, places) + 0.0:+.{places}f}"  # what rounds to zero has a plus


def _cells(row: ComparedRow) -> tuple[str, ...]:
    """The cells of a row, in the order of TITLES."""
    timing = row.timing
    if timing.speedup_old is None:
        levels = map(numbers.duration, (timing.latency_old_s, timing.latency_new_s))
    else:
        levels = map(numbers.factor, (timing.speedup_old, timing.speedup_new))
    changes = map(change, (timing.against_eager, timing.latency))
    return (row.pair.name, *levels, *changes, _verdict(row))


def _verdict(row: ComparedRow) -> str:
    rest = [finding.text for finding in row.findings if finding.text not in row.failures]
    if row.timing.verdict not in row.failures and (row.timing.verdict or not row.findings):
        rest = [_timing_verdict(row.timing), *rest]
    failing = [f"FAILS: {'; '.join(row.failures)}"] if row.failures else []
    return " · ".join(filter(None, [*failing, *rest])) or numbers.UNKNOWN


def _timing_verdict(timing: Timing) -> str:
    if timing.verdict is None:
        return "" if timing.why in (None, "on one side only") else f"not timed: {timing.why}"
    if timing.why:
        return f"{timing.verdict} ({timing.why})"
    if timing.detectable is None:
        return timing.verdict
    shown = f"{numbers.percent(timing.detectable)} would be shown in 80 % of such comparisons"
    if timing.replicates is None:
        shown += "; more replicates do not help"
    elif timing.replicates > min(timing.old, timing.new):
        shown += f", {numbers.percent(timing.target)} with {timing.replicates} replicates"
    return f"{timing.verdict} ({shown})"


def _notes(comparison: StudyComparison) -> list[str]:
    request = comparison.request
    margins = {"speedup": request.margin, "latency": request.latency_margin}
    gates = (
        f"{name} (beyond {numbers.percent(margins[name])})" if name in margins else name
        for name in comparison.gates
    )
    return [f"Gates: {', '.join(gates)}.", *comparison.notes]


def _difference_texts(comparison: StudyComparison) -> list[str]:
    both = sum(1 for row in comparison.rows if row.pair.old and row.pair.new)
    return [
        f"{difference.column} {difference.old} → {difference.new}"
        + (f" ({difference.rows} of {both} rows)" if difference.rows < both else "")
        for difference in comparison.differences
    ] or [SAME]


def _eager(eager: EagerChange) -> str:
    return f"{change(eager.change)} ({eager.old} and {eager.new} readings)"


def _partition(comparison: StudyComparison) -> tuple[list[ComparedRow], list[ComparedRow], str]:
    """The changed rows (failing ones first), the other rows, and a text that counts the others."""
    changed = sorted((row for row in comparison.rows if row.changed), key=lambda r: not r.failures)
    rest = [row for row in comparison.rows if not row.changed]
    kinds = Counter(row.timing.verdict or "not timed" for row in rest)
    counts = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
    more = "more " if changed else ""
    count = numbers.counted(len(rest), f"{more}row", f"{more}rows")
    return changed, rest, f"{count} without a change that was shown: {counts}"


def terminal(comparison: StudyComparison) -> str:
    """Formats the comparison for a terminal: result, differences, eager's own change, changed rows.

    Rows without a change are only counted.
    """
    lines = [
        line for text in (comparison.sentence, *_notes(comparison)) for line in paragraph(text)
    ]
    lines += ["", "what differs", *_indent_items(_difference_texts(comparison))]
    if comparison.eager:
        lines += ["eager itself"]
        lines += _indent_items([f"{_eager(eager)}  {eager.work}" for eager in comparison.eager])
    changed, rest, count = _partition(comparison)
    if changed:
        lines += ["", *_table(changed)]
    if rest:
        undecided = grouped(
            (_timing_verdict(row.timing), row.pair.name) for row in rest if is_open(row)
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
    cells = [_cells(row)[:-1] for row in chain.from_iterable(works.values())]
    head, *lines = tables.plain(TITLES[:-1], cells).splitlines()
    yield head
    left = iter(lines)
    for work, members in works.items():
        yield work
        for row in members:
            yield from (next(left), *indented_paragraph(_verdict(row)))
    if len(rows) > MOST_ROWS:
        yield f"and {len(rows) - MOST_ROWS} more rows that changed; --json has all"
    yield from paragraph(LEGEND)


def markdown(comparison: StudyComparison) -> str:
    """Formats the comparison in Markdown, short enough for a comment on GitHub.

    If rows are left out, the text says how many.
    """
    lines = [f"**{_short(comparison.sentence)}**", ""]
    if comparison.status == NOT_COMPARED:
        return "\n".join(lines)
    for note in _notes(comparison):
        lines += [_short(note), ""]
    lines += ["What differs:", *_items(_difference_texts(comparison))]
    if comparison.eager:
        lines += ["", "Eager itself:"]
        lines += _items([f"{eager.work}: {_eager(eager)}" for eager in comparison.eager])
    changed, rest, count = _partition(comparison)
    if changed:
        lines += ["", _lines(changed), "", escape(LEGEND)]
    if rest:
        lines += ["", f"<details><summary>{escape(count)}</summary>", ""]
        lines += [_lines(rest), "", "</details>"]
    if left_out := sum(max(len(rows) - MOST_ROWS, 0) for rows in (changed, rest)):
        lines += ["", f"{left_out} rows are left out here; --json has all."]
    return "\n".join([*lines, ""])


def _items(texts: Sequence[str]) -> list[str]:
    return [f"- {_short(text)}" for text in _first(texts)]


def _lines(rows: Sequence[ComparedRow]) -> str:
    cells = [(row.pair.work, *_cells(row)) for row in rows[:MOST_ROWS]]
    return tables.markdown(("work", *TITLES), [list(map(_cut, line)) for line in cells])


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
        "what differs": "; ".join(_difference_texts(comparison)),
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
    _, old, new, against, latency, verdict = map(_legal, _cells(row))
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
        _command("error", f"{row.pair.name}, {row.pair.work}", _verdict(row)) for row in failed
    ]
    return "\n".join(lines)


def _command(level: str, title: str, message: str) -> str:
    def encoded(text: str, more: str = "") -> str:
        return "".join(f"%{ord(char):02X}" if char in f"%\r\n{more}" else char for char in text)

    return f"::{level} title={encoded(title, ':,')}::{encoded(message)}"


FILES: dict[str, tuple[Callable[[StudyComparison], str], str]] = {
    "markdown": (markdown, "Markdown, short enough for a comment on GitHub"),
    "json": (document, "every row, as docs/compare.schema.json describes"),
    "junit": (junit, "JUnit XML, a test case per row; undecided rows are skipped"),
}
"""The options that take a file: the function that makes its text, and its description."""
