"""Why a mode is recommended and why others are not: lines of the first screen."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from modescope.analysis.causes import finding
from modescope.analysis.causes.types import EXPLAINING, Finding
from modescope.analysis.causes.verdicts import (
    UNDECIDED,
    comparison,
    comparison_of,
    is_loser,
    lead,
    name,
    outcome,
)
from modescope.analysis.format import phrases
from modescope.analysis.format.phrases import Row
from modescope.analysis.recommend.types import MODE, Recommendation

WHY, LOSER, LESS, WHY_NOT = "Why", "Slower", "Also faster, but less", "Why not"
NEEDED = (
    "run_id", "mode", "apart", "dtype", "shape", "status", "budget_rank", "in_effect", "verdict",
    "speedup", "speedup_ci_low", "speedup_ci_high", "baseline_mode", "baseline_dtype",
    "compile_mode", "graph", "first_call_s", "break_even_calls", "baseline_latency_s",
)  # fmt: skip
"""The columns that `lines` reads."""


@dataclass(frozen=True)
class WhyLine:
    """`kind`: WHY, LOSER, LESS or WHY_NOT."""

    kind: str
    text: str


def lines(
    answers: Sequence[Recommendation],
    rows: Mapping[str, Row],
    causes: Mapping[str, Sequence[Finding]],
) -> tuple[WhyLine, ...]:
    """A line for each mode that is recommended, and for those that are not and share a cause.

    `rows` and `causes`: by run_id. Without a cause only losers have a line. Of several sizes a mode
    has the line of its largest difference.
    """
    chosen = [one.choice.run_id for one in answers if one.choice and one.outcome == MODE]
    refused = {other.run_id: other.kind for one in answers for other in one.refused}
    several = len({one.question.shape for one in answers}) > 1
    others = _one_each(rows[run_id] for run_id in refused if _is_measured(rows[run_id]))
    in_effect = [row for row in others if not phrases.not_in_effect(row)]
    told = [row for row in in_effect if is_loser(row) or causes.get(row["run_id"])]
    recommended = _one_each(rows[one] for one in chosen if causes.get(one))

    def kind(row: Row) -> str:
        if is_loser(row):
            return LOSER
        return LESS if refused[row["run_id"]] == "less" else WHY_NOT

    def size(row: Row) -> str:
        return f"{phrases.sizes(row['shape'])}: " if several else ""

    def key(row: Row) -> tuple[str, ...]:
        found = causes.get(row["run_id"], ())
        code = found[0].code if found else ""
        return kind(row), size(row), code, outcome(row), row["baseline_mode"], row["dtype"]

    def line(kind: str, members: Sequence[Row]) -> WhyLine:
        return WhyLine(kind, size(members[0]) + _sentences(members, causes))

    grouped = phrases.grouped((key(row), row) for row in told)
    by_kind = sorted(grouped.items(), key=lambda pair: (LOSER, LESS, WHY_NOT).index(pair[0][0]))
    return (
        *(line(WHY, [row]) for row in recommended),
        *(line(key[0], members) for key, members in by_kind),
        *(WhyLine(WHY_NOT, each) for each in _not_in_effect(others, causes)),
    )


def _sentences(rows: Sequence[Row], causes: Mapping[str, Sequence[Finding]]) -> str:
    """What is explained of rows with one cause, and that cause; of a loss also that it is not.

    Of several rows the figures are those of the one that differs most from its baseline.
    """
    row = max(rows, key=_size)
    found = causes.get(row["run_id"], ())
    explains = bool(found) and found[0].kind in EXPLAINING
    if is_loser(row) and not explains:
        undecided = f"{_compared(rows)}: {UNDECIDED}."
        return " ".join((undecided, *(finding.alone(one) for one in found[:1])))
    if not found or len(rows) == 1:
        return found[0].text if found else f"{lead(row)}."
    link = ":" if explains else ";"
    figures = f"{_compared(rows)}{link} in {name(row)}, {found[0].sentence}"
    return f"{figures} {found[0].remedy}".strip()


def _compared(rows: Sequence[Row]) -> str:
    return comparison(rows[0]) if len(rows) == 1 else comparison_of(rows)


def _not_in_effect(rows: Sequence[Row], causes: Mapping[str, Sequence[Finding]]) -> Iterator[str]:
    """`reduce-overhead and max-autotune are not in effect: no CUDA graph was launched`."""
    without = [row for row in rows if phrases.not_in_effect(row) and causes.get(row["run_id"])]
    first = [causes[row["run_id"]][0] for row in without]
    same = phrases.grouped(
        ((one.sentence, one.remedy), row) for one, row in zip(first, without, strict=True)
    )
    for (sentence, remedy), members in same.items():
        names = list(dict.fromkeys(map(phrases.mode, members)))
        verb = "is" if len(names) == 1 else "are"
        yield f"{phrases.listed(names)} {verb} not in effect: {sentence} {remedy}".strip()


def _is_measured(row: Row) -> bool:
    return bool(row["status"] == "ok" and not phrases.is_smoke(row))


def _one_each(rows: Iterable[Row]) -> list[Row]:
    """For each mode the row that differs most from its baseline, the slowest first."""
    groups = phrases.grouped((phrases.mode(row), row) for row in rows)
    return sorted((max(of, key=_size) for of in groups.values()), key=_speedup)


def _speedup(row: Row) -> float:
    return math.inf if row["speedup"] is None else float(row["speedup"])


def _size(row: Row) -> float:
    return 0.0 if row["speedup"] is None else abs(math.log(row["speedup"]))
