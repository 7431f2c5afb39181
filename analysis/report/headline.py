"""Says the answers of one work in one line, for the top of a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from modescope.analysis.causes.outcome import range_of
from modescope.analysis.format import numbers
from modescope.analysis.recommend.advice import Advice, Precision, Span
from modescope.analysis.recommend.types import Outcome
from modescope.analysis.recommend.wording import modes


@dataclass(frozen=True)
class Part:
    """A part of a line: `before`, then the name of a mode, `lead`, which stands out, and `rest`."""

    before: str
    lead: str
    rest: str


def parts(advice: Advice) -> list[Part]:
    """Returns the answers of a work, a Part per precision and size, the largest gain first.

    `bf16: inference_mode 2.19×, relative error 4.0e-3`, `with the precision unchanged (fp32)
    no_grad 1.04×`.
    """
    found = list[Part]()
    for precision in _named(advice.precisions):
        found += _parts(precision, is_first=not found)
    return found


def _named(precisions: Sequence[Precision]) -> list[Precision]:
    """Returns those of `precisions` that the line names, at least the first one.

    Answers for filled caches, all packages but the first, and precisions at which nothing can be
    recommended are left to the text below.
    """
    packages = [p for p in precisions if p.recommendations[0].question.of_packages]
    kept = [
        precision
        for precision in precisions
        if precision not in packages[1:]
        and not precision.recommendations[0].question.cache_label
        and any(a.outcome is not Outcome.NOTHING for a in precision.recommendations)
    ]
    return kept or list(precisions[:1])


def _parts(precision: Precision, is_first: bool) -> Iterator[Part]:
    question = precision.recommendations[0].question
    unchanged = question.dtype == question.baseline_dtype
    name = f"{precision.name}: "
    if unchanged and not is_first and precision.name == question.dtype:
        name = f"with the precision unchanged ({precision.name}) "
    for number, span in enumerate(precision.spans):
        label = f"{span.label}: " if span.label else ""
        before = f"{'' if number else name}{label}"
        if span.recommendations[0].outcome is Outcome.MODE:
            yield Part(before, span.lead, f" {_gain(span)}{'' if unchanged else _error(span)}")
        else:
            why = span.rest.replace(": ", " (", 1)
            yield Part(before, span.lead, f"{why})" if why != span.rest else why)


def _gain(span: Span) -> str:
    chosen = modes(span.recommendations)
    if chained := [choice.chained for choice in chosen if choice.chained]:
        return f"{range_of(chained)} chained"
    starts = span.recommendations[0].wishes.starts
    return range_of([choice.gain if starts else choice.speedup for choice in chosen])


def _error(span: Span) -> str:
    chosen = modes(span.recommendations)
    known = sorted(error for choice in chosen if (error := choice.row["error"]) is not None)
    ends = " to ".join(dict.fromkeys(map(numbers.scientific, known[:: max(1, len(known) - 1)])))
    return f", relative error {ends}" if known else ""
