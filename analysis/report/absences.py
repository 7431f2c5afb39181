"""Says which modes have no result that counts, which were not measured, and why.

It stands below the answers on the first screen of a report, whose sentences are `Reason`s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from modescope.analysis.causes.outcome import is_compiled
from modescope.analysis.format import phrases, skips, style
from modescope.analysis.recommend.types import Recommendation
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import grouped
from modescope.bench.records.outcomes import Status

_REPLAYING = {style.CUDA_GRAPH, style.COMPILE_GRAPHS}


@dataclass(frozen=True)
class Reason:
    """A sentence under an answer, with a label such as Why, Why not compile or Not run here."""

    label: str
    text: str


def why_left_out(rows: Iterable[Row]) -> Iterator[Reason]:
    """Yields a Reason for each way in which some of `rows` lack a result that counts."""
    by_label = grouped((label, (why, row)) for row in rows for label, why in _why_not_counted(row))
    for label, members in by_label.items():
        texts = [
            f"{phrases.listed(list(dict.fromkeys(map(phrases.mode, same))))} ({reason})"
            for reason, same in grouped(members).items()
        ]
        yield Reason(label, f"{'; '.join(texts)}.")


def _why_not_counted(row: Row) -> Iterator[tuple[str, str]]:
    """Yields the label and, in short words, the reason if a row has no result that counts."""
    if row["status"] in (Status.SKIPPED, Status.FAILED):
        yield (
            "Not run here" if row["status"] == Status.SKIPPED else "Failed",
            skips.in_short(row),
        )
    elif row["status"] != Status.OK:
        yield "Failed", skips.shortened(predicates.status_and_reason(row))
    elif predicates.not_in_effect(row):
        yield "Not in effect", skips.shortened(row["in_effect_note"] or "for an unknown reason")
    elif why := predicates.why_left_out(row):
        yield "Not counted", skips.shortened(why)


def not_measured(preferred: Sequence[Row], answers: Sequence[Recommendation]) -> Iterator[Reason]:
    """Yields a Reason that names what might be faster than the first answer and has no row.

    `preferred` has the rows at the precision of that answer, `answers` are those at all precisions.
    """
    first, families = answers[0].question, {style.family(row) for row in preferred}
    kinds = (
        ("torch.compile", not any(map(is_compiled, preferred))),
        ("CUDA graphs", predicates.on_cuda(first.as_row()) and not _REPLAYING & families),
    )
    missing = [kind for kind, is_missing in kinds if is_missing]
    parts = (
        f"{phrases.listed(missing)} in {first.dtype}" if missing else "",
        "any mode in tf32" if any(answer.tf32_off for answer in answers) else "",
    )
    if any(parts):
        yield Reason("Not measured", f"{'; '.join(filter(None, parts))}.")
