"""Answers in words: as a page, in HTML that stands alone and in Markdown, and as lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import jinja2
from markupsafe import Markup, escape

from modescope.bench.stats.estimates import Estimate
from modescope.bench.text import markup
from modescope.bench.tools.claims.checking import (
    CHAPTERS,
    DOCUMENTS,
    OK,
    SKIPPED,
    ClaimRow,
    NumberRow,
)
from modescope.bench.tools.claims.claim import HOLDS, REFUTED, UNDECIDED, WITHIN_LIMITS, written

PACKAGE = "modescope.bench.tools.claims"
NAMES = {HOLDS: "holds", WITHIN_LIMITS: "within limits", REFUTED: "refuted", UNDECIDED: "undecided"}

Contents = dict[str, Any]
"""What the templates are filled with."""


def html_page(contents: Contents) -> str:
    """All of it, in one file."""
    return _render("claims.html.j2", markup.html_engine(PACKAGE), contents)


def markdown_page(contents: Contents) -> str:
    """The same as Markdown."""
    return _render("claims.md.j2", markup.markdown_engine(PACKAGE, markup.prose), contents)


def _code(text: str) -> Markup:
    """For HTML: what stands in backticks is code."""
    parts = str(escape(text)).split("`")
    return Markup("".join(f"<code>{p}</code>" if i % 2 else p for i, p in enumerate(parts)))


def _render(template: str, engine: jinja2.Environment, contents: Contents) -> str:
    engine.filters["capitalize_first"] = lambda text: text[:1].upper() + text[1:]
    engine.filters |= {"as_is": Markup, "code": _code}
    return engine.get_template(template).render(contents)


def contents(
    heading: Sequence[str], results: Sequence[ClaimRow], numbers: Sequence[NumberRow]
) -> Contents:
    """What both pages show."""
    chapters = []
    for title in CHAPTERS:
        own = [each for each in results if each.chapter == title]
        claims = [_claim(row, [n for n in numbers if n.claim == row.claim]) for row in own]
        if own:
            chapters.append({"title": title, "summary": summary(own), "claims": claims})
    return {
        "summary": summary(results),
        "heading": heading,
        "failures": failures(results),
        "chapters": chapters,
    }


def _claim(row: ClaimRow, numbers: Sequence[NumberRow]) -> dict[str, Any]:
    facts = {
        "counter-example": row.counter_example,
        "measured": row.method,
        "source": "; ".join(map(cited, row.source)),
        "needs": ", ".join(row.needs),
        "checked on": ", ".join(row.devices),
        "failed": None if row.status in (OK, SKIPPED) else row.reason,
    }
    several = len(row.devices) > 1
    return {
        "row": row,
        "verdict": NAMES[row.verdict],
        "facts": [(name, text) for name, text in facts.items() if text],
        "numbers": [
            (f"{each.label}, on {each.checked_on}" if several else each.label, _written(each))
            for each in numbers
        ],
        "printed": None if row.printed is None else row.printed.rstrip("\n"),
    }


def _written(row: NumberRow) -> str:
    if row.number is None:
        return written(row.text, "")
    return written(Estimate(row.number, row.low, row.high), row.unit)


def cited(source: str) -> str:
    """`003 §6` with the title of the document."""
    document, _, where = source.partition(" ")
    return f"{DOCUMENTS[document]}, {where}" if where else DOCUMENTS[document]


def summary(results: Sequence[ClaimRow]) -> str:
    """`of 44 statements 7 hold, 17 within limits, 9 are refuted, 11 undecided here`."""
    counts = Counter(row.verdict for row in results)
    decided = f"{counts[HOLDS]} hold, {counts[WITHIN_LIMITS]} within limits"
    others = f"{counts[REFUTED]} are refuted, {counts[UNDECIDED]} undecided here"
    return f"of {len(results)} statements {decided}, {others}"


def failures(results: Sequence[ClaimRow]) -> list[str]:
    """A line for each claim whose check or snippet did not end as it should."""
    failed = [row for row in results if row.status not in (OK, SKIPPED)]
    return [f"{row.claim}: {row.status}, {row.reason}" for row in failed]


def line(row: ClaimRow) -> str:
    """An answer for a terminal."""
    text = f"{NAMES[row.verdict]:13}  {row.claim}: {row.because}"
    more = [*row.limits, *filter(None, [row.counter_example])]
    return "\n".join([text, *(f"{'':15}{each}" for each in more)])
