"""Why a mode is recommended and why others are not: lines of the first screen."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from modescope.analysis.causes import finding
from modescope.analysis.causes.types import EXPLAINING, Finding
from modescope.analysis.causes.verdicts import UNDECIDED, comparison, is_loser, lead
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
    """A line for each mode that is recommended, or is not and has a cause; losers always.

    `rows` and `causes`: by run_id. Of several sizes a mode has the line of its largest difference.
    """
    chosen = [one.choice.run_id for one in answers if one.choice and one.outcome == MODE]
    refused = {other.run_id: other.kind for one in answers for other in one.refused}
    several = len({one.question.shape for one in answers}) > 1
    others = _one_each(rows[run_id] for run_id in refused if _is_measured(rows[run_id]))
    losers = [row for row in others if _is_loser(row)]
    rest = [row for row in others if not _is_loser(row) and causes.get(row["run_id"])]

    def text(row: Row) -> str:
        line = _sentences(row, causes.get(row["run_id"], ()))
        return f"{phrases.sizes(row['shape'])}: {line}" if several else line

    recommended = _one_each(rows[one] for one in chosen if causes.get(one))
    return (
        *(WhyLine(WHY, text(row)) for row in recommended),
        *(WhyLine(LOSER, text(row)) for row in losers),
        *(
            WhyLine(LESS if refused[row["run_id"]] == "less" else WHY_NOT, text(row))
            for row in rest
            if not phrases.not_in_effect(row)
        ),
        *(WhyLine(WHY_NOT, each) for each in _not_in_effect(rest, causes)),
    )


def _sentences(row: Row, found: Sequence[Finding]) -> str:
    """What is explained, and its first cause; of a loss also that it is not explained."""
    if is_loser(row) and not (found and found[0].kind in EXPLAINING):
        undecided = f"{comparison(row)}: {UNDECIDED}."
        return " ".join((undecided, *(finding.alone(one) for one in found[:1])))
    return found[0].text if found else f"{lead(row)}."


def _not_in_effect(rows: Sequence[Row], causes: Mapping[str, Sequence[Finding]]) -> Iterator[str]:
    """`reduce-overhead and max-autotune are not in effect: no CUDA graph was launched`."""
    without = [row for row in rows if phrases.not_in_effect(row)]
    first = [causes[row["run_id"]][0] for row in without]
    same = phrases.grouped(
        ((one.sentence, one.remedy), row) for one, row in zip(first, without, strict=True)
    )
    for (sentence, remedy), members in same.items():
        names = list(dict.fromkeys(map(phrases.mode, members)))
        verb = "is" if len(names) == 1 else "are"
        yield f"{phrases.listed(names)} {verb} not in effect: {sentence} {remedy}".strip()


def _is_loser(row: Row) -> bool:
    """Whether the mode itself is slower by a tenth, and not another one that ran in its place."""
    return is_loser(row) and not phrases.not_in_effect(row)


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
