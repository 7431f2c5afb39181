"""A comparison as JUnit XML: a test case per row, with undecided rows skipped."""

from __future__ import annotations

import re
from collections import Counter
from xml.etree import ElementTree

from modescope.analysis.compare.formats import words
from modescope.analysis.compare.rules.gate import NOT_COMPARED, Compared, Comparison

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, such as the escapes of colours in a torch message."""


def text(comparison: Comparison) -> str:
    """The document; rows that are not compared count as skipped, a refusal as an error."""
    root = ElementTree.Element("testsuites", name="modescope")
    suite = ElementTree.SubElement(root, "testsuite", name="modescope.compare")
    _properties(suite, comparison)
    if comparison.status == NOT_COMPARED:
        case = ElementTree.SubElement(
            suite, "testcase", classname="modescope.compare", name="comparison"
        )
        ElementTree.SubElement(case, "error", message=_legal(comparison.sentence), type="refused")
    used: Counter[tuple[str, str]] = Counter()
    for row in comparison.rows:
        _case(suite, row, used)
    for tag in ("failure", "error", "skipped"):
        count = sum(1 for _ in suite.iter(tag))
        name = {"failure": "failures", "error": "errors"}.get(tag, tag)
        for element in (root, suite) if tag != "skipped" else (suite,):
            element.set(name, str(count))
    for element in (root, suite):
        element.set("tests", str(sum(1 for _ in suite.iter("testcase"))))
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, "unicode")}\n'


def _properties(suite: ElementTree.Element, comparison: Comparison) -> None:
    request = comparison.request
    values = [("sentence", comparison.sentence), ("old", request.old), ("new", request.new)]
    values += [("gates", ",".join(comparison.gates))]
    values += [
        (f"differs.{one.column}", f"{one.old} → {one.new}") for one in comparison.differences
    ]
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in values:
        ElementTree.SubElement(properties, "property", name=name, value=_legal(str(value)))


def _case(suite: ElementTree.Element, row: Compared, used: Counter[tuple[str, str]]) -> None:
    classname, name = _legal(row.pair.work), _legal(row.pair.name)
    used[classname, name] += 1
    if (times := used[classname, name]) > 1:
        name = f"{name} ({times})"
        used[classname, name] += 1
    case = ElementTree.SubElement(suite, "testcase", classname=classname, name=name)
    old, new, against, latency, verdict = map(_legal, words.cells(row))
    detail = f"old {old}, new {new}, against eager {against}, latency {latency}: {verdict}"
    if row.failures:
        failure = ElementTree.SubElement(
            case, "failure", message=_legal("; ".join(row.failures)), type="regression"
        )
        failure.text = detail
    elif not (row.pair.old and row.pair.new):
        ElementTree.SubElement(case, "skipped", message=verdict)
    elif words.is_open(row) or row.timing.verdict is None:
        ElementTree.SubElement(case, "skipped", message=_legal(verdict))
    else:
        ElementTree.SubElement(case, "system-out").text = detail


def _legal(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
