"""The first screen of a report: which mode to use, its speedup, its cost, its certainty."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from modescope.analysis.format import disturbed, numbers, phrases
from modescope.analysis.format.phrases import Row
from modescope.analysis.recommend.merge_sizes import Advice, Span, fold
from modescope.analysis.recommend.types import Question, Recommendation
from modescope.analysis.report.certainty import by_work, facts
from modescope.analysis.report.glyphs import Glyph, glyph
from modescope.analysis.report.study import Study
from modescope.analysis.report.why_lines import NEEDED, WhyLine, lines
from modescope.bench.records.cases import canonical_json

MOST_WORKS = 8  # on the first screen; the others are folded


@dataclass(frozen=True)
class AdviceLine:
    """The advice for some sizes: `lead` is the mode's name, `glyph` and `anchor` are its own."""

    sizes: str
    lead: str
    rest: str
    glyph: Glyph | None
    anchor: str | None


@dataclass(frozen=True)
class Precision:
    """The answers at one output precision, remarks about them, causes, and code."""

    name: str
    answers: tuple[AdviceLine, ...]
    remarks: tuple[str, ...]
    why: tuple[WhyLine, ...]
    programs: Mapping[str, str]  # code by the name of its mode


@dataclass(frozen=True)
class WorkAdvice:
    """The advice for one work, and the facts about its cost and certainty."""

    title: str
    precisions: tuple[Precision, ...]
    facts: tuple[tuple[str, str], ...]  # name, text


def which(study: Study) -> dict[str, Any]:
    """The works in reading order: `works` on the first screen, `others` folded."""
    advice = fold(study.answers)
    several = len({_place(one) for one in advice}) > 1
    rows = {row["run_id"]: row for row in phrases.as_rows(study.rows[list(_NEEDED)])}
    processes = by_work(study)
    works = [
        WorkAdvice(
            title,
            tuple(_precision(study, one, rows) for one in members),
            facts(_recommendations(members), rows, processes),
        )
        for title, members in phrases.grouped(
            (_title(study, one, several), one) for one in advice
        ).items()
    ]
    return {
        "works": works[:MOST_WORKS],
        "others": works[MOST_WORKS:],
        "wishes": _wishes(study),
        "banner": disturbed.banner(list(rows.values())),
    }


_NEEDED = tuple(
    dict.fromkeys(
        (*NEEDED, *disturbed.NEEDED, "autocast", "baseline_error", "checked", "checked_against")
    )
)


def _wishes(study: Study) -> str:
    """The command-line options that changed the answers."""
    if not study.answers:
        return ""
    wishes = study.answers[0].wishes
    limit = wishes.memory_limit_bytes
    options = (
        "" if wishes.calls is None else f"--calls {numbers.calls(wishes.calls)}",
        "" if limit is None else f"--memory-limit {numbers.limit(limit).replace(' ', '')}",
    )
    return " and ".join(filter(None, options))


def _recommendations(members: Sequence[Advice]) -> list[Recommendation]:
    return [one for advice in members for span in advice.spans for one in span.recommendations]


def _question(advice: Advice) -> Question:
    return advice.spans[0].recommendations[0].question


def _place(advice: Advice) -> tuple[object, ...]:
    question = _question(advice)
    return question.environment, question.device, question.threads


def _title(study: Study, advice: Advice, several: bool) -> str:
    """`transformer, seq 64, inference`: the work, with the sizes that all answers share."""
    row = asdict(_question(advice))
    shapes = [json.loads(one.question.shape) for one in _recommendations([advice])]
    same = {n: v for n, v in shapes[0].items() if all(s.get(n) == v for s in shapes)}
    work = phrases.work_at(row, canonical_json(same))
    return f"{work}, on {study.place(row)}" if several else work


def _precision(study: Study, advice: Advice, rows: dict[str, Row]) -> Precision:
    question = _question(advice)
    cache = question.compile_cache
    name = question.dtype if cache == "cold" else f"{question.dtype}, {cache} compiler cache"
    answers = tuple(_answer(study, span, rows) for span in advice.spans)
    why = lines(_recommendations([advice]), rows, study.causes)
    return Precision(name, answers, advice.remarks, why, advice.programs)


def _answer(study: Study, span: Span, rows: dict[str, Row]) -> AdviceLine:
    choice = span.recommendations[0].choice
    lead = choice.mode if choice is not None and span.text.startswith(choice.mode) else ""
    row = rows.get(choice.run_id) if choice is not None and lead else None
    rest = span.text.removeprefix(lead)
    if row is None:
        return AdviceLine(span.label, lead, rest, None, None)
    return AdviceLine(span.label, lead, rest, glyph(row), study.anchor(row))
