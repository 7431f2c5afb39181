"""Says the answers of one work in one line, for the top of a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from modescope.analysis.causes.outcome import range_of
from modescope.analysis.derive.over_fp32 import COMMON
from modescope.analysis.format import numbers
from modescope.analysis.recommend.advice import Advice, Precision, Span
from modescope.analysis.recommend.types import Outcome, Recommendation
from modescope.analysis.recommend.wording import modes
from modescope.analysis.rows.values import required


@dataclass(frozen=True)
class Part:
    """A part of a line: `before`, then the name of a mode, `lead`, which stands out, and `rest`."""

    before: str
    lead: str
    rest: str


def parts(advice: Advice) -> list[Part]:
    """Returns the answers of a work, a Part per precision and size, the largest gain first.

    `bf16: inference_mode 2.19×, relative error 4.0e-3`, `with the precision unchanged (fp32)
    no_grad 1.04×`. Speedups over another baseline than most, and chained ones, say so.
    """
    named = _named(advice.precisions)
    over = [precision.recommendations[0].question.baseline_dtype for precision in named]
    common = COMMON if COMMON in over else over[0]
    found = list[Part]()
    for precision in named:
        found += _parts(precision, common, is_first=not found)
    return found


def _named(precisions: Sequence[Precision]) -> list[Precision]:
    """Returns those of `precisions` that the line names, at least the first one.

    Answers for filled caches beside others, all packages but the first, precisions at which nothing
    can be recommended, and fewer bits that gain nothing are left to the text below.
    """
    labels = {precision.recommendations[0].question.cache_label for precision in precisions}
    packages = [p for p in precisions if p.recommendations[0].question.of_packages]
    kept = [
        precision
        for precision in precisions
        if precision not in packages[1:]
        and not (precision.recommendations[0].question.cache_label and len(labels) > 1)
        and any(_is_told(answer) for answer in precision.recommendations)
    ]
    return kept or list(precisions[:1])


def _is_told(answer: Recommendation) -> bool:
    untold = (Outcome.NOTHING, *((Outcome.BASELINE,) if answer.question.quantize else ()))
    return answer.outcome not in untold


def _parts(precision: Precision, common: str | None, is_first: bool) -> Iterator[Part]:
    asked = precision.recommendations[0].question
    dtype = asked.dtype
    name = f"{precision.name}: "
    if precision.name == dtype == common and not is_first:
        name = f"with the precision unchanged ({precision.name}) "
    spans = _spans(precision.spans)
    for number, span in enumerate(spans):
        before = f"{'' if number else name}{f'{span.label}: ' if span.label else ''}"
        if span.recommendations[0].outcome is Outcome.MODE:
            error = "" if dtype == common and not asked.quantize else _error(span)
            doubt = max(
                choice.name.removeprefix(choice.mode) for choice in modes(span.recommendations)
            )
            yield Part(before, span.lead, f"{doubt} {_gain(span, common)}{error}")
        elif disputed := span.recommendations[0].disputed:
            both = range_of([disputed.speedup, required(disputed.again)])
            yield Part(before, "", f"undecided between processes ({disputed.mode} {both})")
        elif spans[1:]:
            yield Part(before, span.lead, span.rest.partition(": ")[0])  # why stands below
        else:
            why = span.rest.replace(": ", " (", 1)
            yield Part(before, span.lead, f"{why})" if why != span.rest else why)


def _spans(spans: Sequence[Span]) -> Sequence[Span]:
    """Returns `spans`, or a single one for all sizes if the same mode is recommended at each."""
    every = tuple(answer for span in spans for answer in span.recommendations)
    same = len({span.lead for span in spans}) == 1
    if not same or any(answer.outcome is not Outcome.MODE for answer in every):
        return spans
    return [replace(spans[0], recommendations=every, label="" if spans[1:] else spans[0].label)]


def _gain(span: Span, common: str | None) -> str:
    chosen, question = modes(span.recommendations), span.recommendations[0].question
    chained = [choice.chained for choice in chosen if choice.chained]
    if len(chained) == len(chosen):
        return f"{range_of(chained)} chained"
    starts = span.recommendations[0].wishes.starts
    told = range_of([each for one in chosen for each in ([one.gain] if starts else one.speedups)])
    over = {answer.question.baseline_dtype for answer in span.recommendations}
    if over == {common}:
        return told
    return f"{told} over {question.baseline_mode} {' or '.join(sorted(filter(None, over)))}"


def _error(span: Span) -> str:
    chosen = modes(span.recommendations)
    known = sorted(error for choice in chosen if (error := choice.row["error"]) is not None)
    ends = " to ".join(dict.fromkeys(map(numbers.scientific, known[:: max(1, len(known) - 1)])))
    return f", relative error {ends}" if known else ""
