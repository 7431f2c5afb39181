"""Answers as a page: HTML that stands alone, and Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jinja2
from markupsafe import Markup, escape

from bench import markup
from bench.claims import telling
from bench.claims.asking import Answer
from bench.claims.seen import Figure
from bench.claims.table import CHAPTERS, cited

TITLE = "The textbook, checked on this machine"
NOTE = (
    "The statements are those of documents that explain how PyTorch executes a step; a verdict "
    "follows, by the rule that stands with it, from what was observed in this run alone."
)


def html_page(heading: Sequence[str], answers: Sequence[Answer], found: Sequence[Figure]) -> str:
    """All of it, in one file."""
    return _render("claims.html.j2", markup.html_engine("bench"), heading, answers, found)


def markdown_page(
    heading: Sequence[str], answers: Sequence[Answer], found: Sequence[Figure]
) -> str:
    """The same as Markdown."""
    engine = markup.markdown_engine("bench", markup.prose)
    return _render("claims.md.j2", engine, heading, answers, found)


def _code(text: str) -> Markup:
    """For HTML: what stands in backticks is code."""
    parts = str(escape(text)).split("`")
    return Markup("".join(f"<code>{p}</code>" if i % 2 else p for i, p in enumerate(parts)))


def _render(
    template: str,
    engine: jinja2.Environment,
    heading: Sequence[str],
    answers: Sequence[Answer],
    found: Sequence[Figure],
) -> str:
    engine.filters["capitalize_first"] = lambda text: text[:1].upper() + text[1:]
    engine.filters["as_is"] = Markup
    engine.filters["code"] = _code
    return engine.get_template(template).render(
        title=TITLE,
        summary=telling.summary(answers),
        note=NOTE,
        heading=heading,
        failures=telling.failures(answers),
        chapters=[_chapter(title, answers, found) for title in _chapters(answers)],
    )


def _chapters(answers: Sequence[Answer]) -> list[str]:
    asked = {answer.chapter for answer in answers}
    return [title for title in CHAPTERS if title in asked]


def _chapter(title: str, answers: Sequence[Answer], found: Sequence[Figure]) -> dict[str, Any]:
    own = [answer for answer in answers if answer.chapter == title]
    return {
        "title": title,
        "summary": telling.summary(own),
        "claims": [_claim(answer, found) for answer in own],
    }


def _claim(answer: Answer, found: Sequence[Figure]) -> dict[str, Any]:
    several = len(answer.devices) > 1
    figures = [
        {
            "names": [each.figure, *([each.observed_on] if several else [])],
            "value": telling.figure(each),
            "is_number": each.number is not None,
        }
        for each in found
        if each.claim == answer.claim
    ]
    facts = {
        "counter-example": answer.counter_example,
        "measured": answer.measured,
        "rule": answer.rule,
        "source": "; ".join(map(cited, answer.source)),
        "needs": ", ".join(answer.needs),
        "observed on": ", ".join(answer.devices),
        "failed": None if answer.status in ("ok", "skipped") else answer.reason,
    }
    return {
        "id": answer.claim,
        "answer": answer.verdict,
        "verdict": telling.NAMES[answer.verdict],
        "statement": answer.statement,
        "because": answer.because,
        "facts": [(name, text) for name, text in facts.items() if text],
        "limits": answer.limits,
        "headers": ["figure", *(["on"] if several else []), "observed"],
        "figures": figures,
        "snippet": answer.snippet,
        "printed": None if answer.printed is None else answer.printed.rstrip("\n"),
        "not_run": telling.NOT_RUN,
    }
