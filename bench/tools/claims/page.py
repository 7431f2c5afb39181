"""Answers in words: as a page, in HTML that stands alone and in Markdown, and as lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import jinja2
from markupsafe import Markup, escape

from modescope.bench.text import markup
from modescope.bench.tools.claims.checking import SKIPPED, ClaimResult
from modescope.bench.tools.claims.figures import Figure, written
from modescope.bench.tools.claims.table import CHAPTERS, cited
from modescope.bench.tools.claims.verdict import HOLDS, REFUTED, UNDECIDED, WITHIN_LIMITS

PACKAGE = "modescope.bench.tools.claims"
TITLE = "The textbook, checked on this machine"
NOTE = (
    "The statements are those of documents that explain how PyTorch executes a step; a verdict "
    "follows, by the rule that stands with it, from what was observed in this run alone."
)

NAMES = {HOLDS: "holds", WITHIN_LIMITS: "within limits", REFUTED: "refuted", UNDECIDED: "undecided"}
NOT_RUN = "not run here"

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
    engine.filters["as_is"] = Markup
    engine.filters["code"] = _code
    return engine.get_template(template).render(contents)


def contents(
    heading: Sequence[str], results: Sequence[ClaimResult], figures: Sequence[Figure]
) -> Contents:
    """Of both pages."""
    by_chapter = {
        title: [each for each in results if each.chapter == title] for title in CHAPTERS.values()
    }
    return {
        "title": TITLE,
        "summary": summary(results),
        "note": NOTE,
        "heading": heading,
        "failures": failures(results),
        "chapters": [
            {
                "title": title,
                "summary": summary(own),
                "claims": [_claim(result, figures) for result in own],
            }
            for title, own in by_chapter.items()
            if own
        ],
    }


def _claim(result: ClaimResult, figures: Sequence[Figure]) -> dict[str, Any]:
    several = len(result.devices) > 1
    shown = [
        {
            "names": [each.figure, *([each.observed_on] if several else [])],
            "value": written(each),
            "is_number": each.number is not None,
        }
        for each in figures
        if each.claim == result.claim
    ]
    facts = {
        "counter-example": result.counter_example,
        "measured": result.measured,
        "rule": result.rule,
        "source": "; ".join(map(cited, result.source)),
        "needs": ", ".join(result.needs),
        "observed on": ", ".join(result.devices),
        "failed": None if result.status in ("ok", "skipped") else result.reason,
    }
    return {
        "id": result.claim,
        "answer": result.verdict,
        "verdict": NAMES[result.verdict],
        "statement": result.statement,
        "because": result.because,
        "facts": [(name, text) for name, text in facts.items() if text],
        "limits": result.limits,
        "headers": ["figure", *(["on"] if several else []), "observed"],
        "figures": shown,
        "snippet": result.snippet,
        "printed": None if result.printed is None else result.printed.rstrip("\n"),
        "not_run": NOT_RUN,
    }


def summary(results: Sequence[ClaimResult]) -> str:
    """`of 44 statements 27 hold, 9 within limits, 5 are refuted, 3 undecided here`"""
    counts = Counter(result.verdict for result in results)
    refuted = counts[REFUTED]
    text = [
        f"{counts[HOLDS]} {'holds' if counts[HOLDS] == 1 else 'hold'}",
        f"{counts[WITHIN_LIMITS]} within limits",
        f"{refuted} {'is' if refuted == 1 else 'are'} refuted",
        f"{counts[UNDECIDED]} undecided here",
    ]
    statements = "statement" if len(results) == 1 else "statements"
    return f"of {len(results)} {statements} {', '.join(text)}"


def failures(results: Sequence[ClaimResult]) -> list[str]:
    """A line for each claim whose experiment or snippet did not end as it should."""
    return [
        f"{result.claim}: {result.status}, {result.reason}"
        for result in results
        if result.status not in ("ok", SKIPPED)
    ]


def line(result: ClaimResult) -> str:
    """An answer for a terminal."""
    against = [result.counter_example] if result.counter_example else []
    text = f"{NAMES[result.verdict]:13}  {result.claim}: {result.because}"
    return "\n".join([text, *(f"{'':15}{each}" for each in (*result.limits, *against))])
