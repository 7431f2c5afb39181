"""Relates answers in tf32 to eager in fp32, and says of which answers over fp32 tf32 is missing.

Modes in tf32 are ranked by their paired ratios over eager in tf32. Answers in other precisions are
over eager in fp32, so an answer in tf32 also tells its chained speedup over that
(`analysis.derive.chained`), by which precisions are put in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from modescope.analysis.derive.over_fp32 import COMMON, LINKED
from modescope.analysis.derive.select import values_of
from modescope.analysis.recommend.types import Outcome, Recommendation
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.bench.records.environment import TF32_CAPABILITY


def relate(section: Sequence[Row], answers: Sequence[Recommendation]) -> list[Recommendation]:
    """Returns the answers for one model and size, those in tf32 related to eager in fp32.

    `section` has the rows that the answers are for. The row that links tf32 to fp32, and nothing
    else, would be an answer by itself: eager in tf32. It is left out if a mode is faster than that;
    else it is the answer, and has the answer over eager in tf32 as its `within`.
    """
    is_off = _is_never_on(section)
    marked = [replace(answer, tf32_off=is_off and _is_over_fp32(answer)) for answer in answers]
    links = {row["run_id"]: row for row in section}
    left = list(marked)
    for inner in marked:
        link = next((links[i] for i in _links_of(inner, section) if i in links), None)
        if link is None:
            continue
        outer = next((answer for answer in marked if _is_of(link, answer, section)), None)
        if inner.outcome is Outcome.MODE:
            linked = replace(inner, link=link["speedup"])
            left = [linked if answer is inner else answer for answer in left if answer is not outer]
        elif outer is not None:
            related = replace(outer, within=inner)
            left = [
                related if answer is outer else answer for answer in left if answer is not inner
            ]
    return left


def _rows_of(answer: Recommendation, section: Sequence[Row]) -> list[Row]:
    question = answer.question
    names: tuple[str, ...] = (
        "dtype",
        "quantize",
        "baseline_mode",
        "baseline_dtype",
        "compile_cache",
    )
    names = names if question.compile_cache else names[:-1]
    key = values_of(question.as_row(), names)
    return [row for row in section if values_of(row, names) == key]


def _links_of(answer: Recommendation, section: Sequence[Row]) -> list[str]:
    rows = _rows_of(answer, section)
    return [row["link_run_id"] for row in rows if row["link_run_id"] is not None]


def _is_of(link: Row, answer: Recommendation, section: Sequence[Row]) -> bool:
    """Whether the answer rests on nothing but the link."""
    return [row["run_id"] for row in _rows_of(answer, section)] == [link["run_id"]]


def _is_over_fp32(answer: Recommendation) -> bool:
    question = answer.question
    return question.baseline_dtype == COMMON and question.dtype not in (COMMON, LINKED)


def _is_never_on(section: Sequence[Row]) -> bool:
    """Whether the GPU has tf32, and no row in it counts; False on a CPU."""
    first = section[0]
    if not predicates.on_cuda(first):
        return False
    known = first["compute_capability"]
    has = known is None or tuple(map(int, str(known).split("."))) >= TF32_CAPABILITY
    rows = (row for row in section if row["dtype"] == LINKED)
    return has and all(predicates.why_left_out(row) is not None for row in rows)
