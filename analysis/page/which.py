"""The first screen: which mode to use, by how much, at what cost, how sure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from analysis import numbers, words
from analysis.page.facts import by_work, facts
from analysis.page.glyphs import Glyph, glyph
from analysis.page.study import Study
from analysis.recommendation import Advice, Question, Recommendation, Span, fold
from analysis.words import Row
from bench.records import canonical_json

MOST_WORKS = 8  # on the first screen; the others are folded away


@dataclass(frozen=True)
class Answer:
    """What is said for some sizes: `lead` is the mode's name, with its looks and its run."""

    sizes: str
    lead: str
    rest: str
    glyph: Glyph | None
    anchor: str | None


@dataclass(frozen=True)
class Precision:
    """The answers at one output precision, with what has to be known beside them."""

    name: str
    answers: tuple[Answer, ...]
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class Work:
    """What is advised for one work, and how sure all of it is."""

    title: str
    precisions: tuple[Precision, ...]
    facts: tuple[tuple[str, str], ...]  # name, text


def which(study: Study) -> dict[str, Any]:
    """The works in reading order, those on the first screen apart from the others."""
    advice = fold(study.answers)
    several = len({_place(one) for one in advice}) > 1
    rows = {row["run_id"]: row for row in words.as_rows(study.rows[list(_NEEDED)])}
    processes = by_work(study)
    by_title: dict[str, list[Advice]] = {}
    for one in advice:
        by_title.setdefault(_title(study, one, several), []).append(one)
    found = [
        Work(
            title,
            tuple(_precision(study, one, rows) for one in members),
            facts(_recommendations(members), rows, processes),
        )
        for title, members in by_title.items()
    ]
    return {
        "works": found[:MOST_WORKS],
        "others": found[MOST_WORKS:],
        "wishes": _wishes(study),
    }


_NEEDED = ("run_id", "mode", "autocast", "compile", "graph", "baseline_error")


def _wishes(study: Study) -> str:
    """What was asked for on the command line, which the answers depend on."""
    if not study.answers:
        return ""
    asked = study.answers[0].wishes
    limit = asked.memory_limit_bytes
    told = (
        "" if asked.calls is None else f"--calls {numbers.calls(asked.calls)}",
        "" if limit is None else f"--memory-limit {numbers.limit(limit).replace(' ', '')}",
    )
    return " and ".join(filter(None, told))


def _recommendations(members: Sequence[Advice]) -> list[Recommendation]:
    return [one for advice in members for span in advice.spans for one in span.recommendations]


def _question(advice: Advice) -> Question:
    return advice.spans[0].recommendations[0].question


def _place(advice: Advice) -> tuple[object, ...]:
    question = _question(advice)
    return question.environment, question.device, question.threads


def _title(study: Study, advice: Advice, several: bool) -> str:
    """`transformer, seq 64, inference`: with the sizes that are equal in all answers."""
    row = asdict(_question(advice))
    shapes = [json.loads(one.question.shape) for one in _recommendations([advice])]
    same = {n: v for n, v in shapes[0].items() if all(s.get(n) == v for s in shapes)}
    work = words.work_at(row, canonical_json(same))
    return f"{work}, on {study.place(row)}" if several else work


def _precision(study: Study, advice: Advice, rows: dict[str, Row]) -> Precision:
    question = _question(advice)
    cache = question.compile_cache
    name = question.dtype if cache == "cold" else f"{question.dtype}, {cache} compiler cache"
    answers = tuple(_answer(study, span, rows) for span in advice.spans)
    return Precision(name, answers, advice.remarks)


def _answer(study: Study, span: Span, rows: dict[str, Row]) -> Answer:
    choice = span.recommendations[0].choice
    lead = choice.mode if choice is not None and span.text.startswith(choice.mode) else ""
    row = rows.get(choice.run_id) if choice is not None and lead else None
    rest = span.text.removeprefix(lead)
    if row is None:
        return Answer(span.label, lead, rest, None, None)
    return Answer(span.label, lead, rest, glyph(row), study.anchor(row))
