"""Builds the first screen of a report: which mode to use, why, why no other, and how sure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from modescope.analysis.causes.outcome import (
    comparison,
    comparison_of,
    is_compiled,
    is_loss,
    long_first_call,
    name,
    outcome,
    range_of,
    undecided,
)
from modescope.analysis.causes.types import EXPLAINING, Finding, Kind
from modescope.analysis.derive import against, bits
from modescope.analysis.derive.flags import banner
from modescope.analysis.derive.mix import mix_of
from modescope.analysis.derive.select import FAMILY, SECTION, values_of
from modescope.analysis.estimates import high, low
from modescope.analysis.figures.registry import Picture
from modescope.analysis.format import numbers, phrases
from modescope.analysis.format.baselines import against as against_heading
from modescope.analysis.recommend.advice import Advice, Precision, fold
from modescope.analysis.recommend.constraints import Wishes
from modescope.analysis.recommend.types import Outcome, Recommendation
from modescope.analysis.report import headline
from modescope.analysis.report.absences import Reason, not_measured, why_left_out
from modescope.analysis.report.chapters import Chapter
from modescope.analysis.report.headline import Part
from modescope.analysis.report.study import Study
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import grouped, required
from modescope.bench.records.outcomes import Status
from modescope.bench.stats.estimates import Estimate, Verdict, verdict

MOST_WORKS = 8  # on the first screen; the others are folded
_PICTURES = ("bits", "heatmap", "speedup")  # beside the answer, the first that there is
MAINLY = 0.5
"""The least share of a mode's added time that a cause must explain to be named as the reason.

The added time is what the mode takes longer than the recommended one.
"""
DIFFERENCES = (Kind.DECISIVE, Kind.LOSS, Kind.PART, Kind.REST)


@dataclass(frozen=True)
class Block:
    """The recommendations at one precision (`precision`), with reasons.

    `why` is shown; `more` has further reasons, which the page folds.
    """

    precision: Precision
    why: Sequence[Reason]
    more: Sequence[Reason]


@dataclass(frozen=True)
class Card:
    """What the first screen shows of one model and phase on one machine.

    `against` names the baselines with their times, if the answers are for one size; `headline` says
    the answers in one line. `blocks` has a Block per precision of `advice`, that with the largest
    gain first. `left_out` says which modes lack a result that counts, and why. `picture` is one
    of _PICTURES; None if there is none, or if an earlier Card has it.
    """

    advice: Advice
    against: str
    headline: Sequence[Part]
    blocks: Sequence[Block]
    left_out: Sequence[Reason]
    picture: Picture | None


def answer_cards(study: Study, chapters: Sequence[Chapter]) -> dict[str, Any]:
    """Returns the template variables of the first screen.

    `chapters` provide the pictures of the Cards. `works` is a list of the first MOST_WORKS Cards,
    and `others` of the rest, which the page folds. `wishes` names the user's constraints, `banner`
    is a warning on the whole study, `bits` are sentences on fewer bits, `chained` says whether a
    mode in tf32 is linked to fp32, and `starts` whether the answers are for processes that start.
    """
    drawn = [(chapter.family, picture) for chapter in chapters for picture in chapter.pictures
             if picture.kind.name in _PICTURES]  # fmt: skip
    pictures = dict[tuple[Any, ...] | None, Picture]()
    for family, picture in sorted(drawn, key=lambda pair: _PICTURES.index(pair[1].kind.name)):
        pictures.setdefault(family, picture)
    cards = []
    for advice in fold(study.answers):
        family = values_of(advice.recommendations[0].question.as_row(), FAMILY)
        cards.append(_card(study, advice, pictures.pop(family, None)))
    return {
        "works": cards[:MOST_WORKS],
        "others": cards[MOST_WORKS:],
        "wishes": _wishes(study.answers[0].wishes) if study.answers else "",
        "banner": banner(list(study.by_id.values())),
        "bits": [f"{work}: {sentence}" for work, sentence in bits.told(study.rows)],
        "chained": bool(study.rows["chained_speedup"].notna().any()),
        "starts": bool(study.answers and study.answers[0].wishes.starts),
    }


def _wishes(wishes: Wishes) -> str:
    limit = wishes.memory_limit_bytes
    options = (
        "" if wishes.calls is None else f"--calls {numbers.calls(wishes.calls)}",
        "" if wishes.starts is None else f"--starts {wishes.starts}",
        "" if limit is None else f"--memory-limit {numbers.limit(limit).replace(' ', '')}",
    )
    return " and ".join(filter(None, options))


def _card(study: Study, advice: Advice, picture: Picture | None) -> Card:
    sections = {values_of(answer.question.as_row(), SECTION) for answer in advice.recommendations}
    mine = [row for row in study.by_id.values() if values_of(row, SECTION) in sections]
    dtype = advice.recommendations[0].question.dtype
    preferred = [row for row in mine if row["dtype"] == dtype]
    left_out = [*why_left_out(mine), *not_measured(preferred, advice.recommendations)]
    first, *others = advice.precisions
    compiles = _compiles(preferred) if len(sections) == 1 else ()
    blocks = [
        _block(study, first, True, compiles),
        *(_block(study, precision) for precision in others),
    ]
    timed = [row for row in mine if row["status"] == Status.OK]
    of_baseline = against_heading(timed) if len(sections) == 1 and timed else ""
    return Card(advice, of_baseline, headline.parts(advice), blocks, left_out, picture)


def _block(
    study: Study, precision: Precision, is_first: bool = False, further: Iterable[Reason] = ()
) -> Block:
    """Builds the Block of one precision.

    `is_first`: whether it is the first of its Card. The first Block, or one in which only the
    baseline is recommended, also says why the mode that a reader would expect is not recommended.
    `further` reasons are added to those that are shown.
    """
    answers = precision.recommendations
    several = len({answer.question.shape for answer in answers}) > 1
    why = [*_why(study, answers, several)]
    others = _others(study, answers)
    asked = _expected_mode(others) if is_first or not why else None

    def key(other: _OtherMode) -> tuple[object, ...]:
        alone = other is asked and other.cause is None and other.best is not None
        return other.size if several else "", other.key, alone

    more = list[Reason]()
    for (size, *_), group in grouped((key(other), other) for other in others).items():
        lines = why if asked in group else more
        lines.append(_reason_of_group(group, asked if asked in group else None, str(size)))
    return Block(precision, [*why, *further], more)


def _why(study: Study, answers: Sequence[Recommendation], several: bool) -> Iterator[Reason]:
    """Yields a Reason per recommended mode: the cause of its gain, or why it does not gain more.

    `several`: whether the `answers` are for several sizes, so that each reason names its size.
    """
    chosen = (row for answer in answers if (row := _recommended(answer)))
    of_mode = grouped((phrases.mode(row), row) for row in chosen)
    for row in (max(members, key=_size) for members in of_mode.values()):
        found = next(iter(study.causes.get(row["run_id"], ())), None)
        size = f"{phrases.sizes(row['shape'])}: " if several else ""
        if found is None or found.kind not in EXPLAINING:
            yield Reason("Why", f"{size}{undecided(row)}.")
        else:
            label = "Why" if found.kind in (Kind.DECISIVE, Kind.GAIN) else "Why not more"
            yield Reason(label, f"{size}{found.sentence} {found.remedy}".strip())


@dataclass(frozen=True)
class _OtherMode:
    """A mode that ran and is not recommended (`row`), and the recommended mode (`best`).

    `best` is None if the baseline is recommended.
    """

    row: Row
    best: Row | None
    ratio: Estimate | None  # its speedup over `best`, as `--against` tells it
    cause: Finding | None

    @property
    def size(self) -> str:
        return phrases.sizes(self.row["shape"])

    @property
    def times_slower(self) -> float:
        of_best = required(self.best["speedup"]).value if self.best else 1.0
        return of_best / required(self.row["speedup"]).value

    @property
    def key(self) -> tuple[object, ...]:
        """A key that is equal for modes that share a line on the page."""
        code = self.cause.code if self.cause else ""
        return code, verdict(self.ratio), None if self.best else outcome(self.row)


def _others(study: Study, answers: Sequence[Recommendation]) -> list[_OtherMode]:
    """Returns the modes that ran and are not recommended, the fastest first.

    A mode with rows at several sizes is represented by the row whose speedup is furthest from 1.
    """
    every = []
    for answer in answers:
        best = _recommended(answer)
        for refused in answer.refused:
            row = study.by_id[refused.run_id]
            if predicates.why_left_out(row) is None:
                ratio = against.ratio(row, best) if best else None
                every.append(_OtherMode(row, best, ratio, _cause(study, row, best)))
    of_mode = grouped((phrases.mode(other.row), other) for other in every)
    furthest = (max(members, key=lambda other: _size(other.row)) for members in of_mode.values())
    return sorted(furthest, key=lambda other: other.times_slower)


def _cause(study: Study, row: Row, best: Row | None) -> Finding | None:
    """Why a row is slower than `best`, or no faster than the baseline; None if undecided.

    A cause that `best` shares explains no difference, nor does a cause that takes a small part of
    the largest difference that the intervals allow, nor `near_floor`, because all modes have the
    same floor.
    """
    found = study.causes.get(row["run_id"], ())
    if best is None:
        return found[0] if found and found[0].kind in EXPLAINING else None
    least = MAINLY * (1 - low(row["speedup"]) / high(best["speedup"]))
    shared = {"near_floor", *(cause.code for cause in study.causes.get(best["run_id"], ()))}
    candidates = (
        cause for cause in found if cause.kind in DIFFERENCES and cause.code not in shared
    )
    return next(
        (cause for cause in candidates if is_loss(row) or (cause.share or 0.0) >= least), None
    )


def _expected_mode(others: Sequence[_OtherMode]) -> _OtherMode | None:
    """The mode that a reader would expect: plain torch.compile, or else the fastest of `others`."""
    plain = [
        other
        for other in others
        if other.row["compile_mode"] == "default" and not other.row["graph"]
    ]
    return next(iter((*plain, *others)), None)


def _reason_of_group(group: Sequence[_OtherMode], asked: _OtherMode | None, size: str) -> Reason:
    """Writes the Reason why the modes in `group`, which share a cause, are not recommended.

    `asked` is the mode in the group that a reader would expect, if any; the reason then has its
    figures. Otherwise it has those of the mode whose speedup is furthest from 1. `size` is the text
    that comes first, or empty.
    """
    shown = asked or max(group, key=lambda other: _size(other.row))
    compared = _comparison(group)
    if asked and shown.best and len(group) == 1:
        compared = f"it{compared.removeprefix(name(shown.row))}"
    if len(group) == 1 and long_first_call(shown.row) is not None:
        compared += f", after a {phrases.first_time(shown.row)}"
    text = f"{size}: {compared}" if size else compared
    label = "" if asked is None else f"Why not {name(asked.row)}" if shown.best else "Why"
    if shown.cause is None:
        why = f": {undecided(shown.row)}" if shown.best is None and is_loss(shown.row) else ""
        return Reason(label, f"{text}{why}.")
    inside = f" in {name(shown.row)}," if len(group) > 1 else ""
    remedy = f" {shown.cause.remedy}" if shown.best is None else ""
    return Reason(label, f"{text}:{inside} {shown.cause.sentence}{remedy}".strip())


def _comparison(group: Sequence[_OtherMode]) -> str:
    rows, best = [other.row for other in group], group[0].best
    if best is None:
        return comparison(rows[0]) if len(rows) == 1 else comparison_of(rows)
    names = list(dict.fromkeys(map(name, rows)))
    found = verdict(group[0].ratio)
    ratios = [other.ratio for other in group if other.ratio is not None]
    if found in _SHOWN:
        does = _SHOWN[found][len(names) > 1]
        told = range_of(ratios, inverted=found is Verdict.SLOWER)
        return f"{phrases.listed(names)} {does} {told} as {_MEASURE[found]} as {name(best)}"
    told = phrases.listed([*dict.fromkeys(map(numbers.ratio, ratios))])
    are = "is" if len(names) == 1 else "are"
    return f"{phrases.listed(names)} {are} not shown to be faster than {name(best)}, {told}"


_SHOWN = {Verdict.SLOWER: ("takes", "take"), Verdict.FASTER: ("is", "are")}
_MEASURE = {Verdict.SLOWER: "long", Verdict.FASTER: "fast"}


def _compiles(rows: Iterable[Row]) -> Iterator[Reason]:
    """Yields one Reason if the calls of `rows` differ in size, else nothing.

    For each compiled mode it says how many calls of a pass compile, and how many run in eager
    because torch reached its limit of compilations.
    """
    texts, calls = list[str](), 0
    for row in rows:
        mix = mix_of(row) if predicates.why_left_out(row) is None and is_compiled(row) else None
        if mix is None:
            continue
        seconds, calls = sum(compilation.seconds for compilation in mix.compiles), len(mix.calls)
        text = f"{name(row)} {len(mix.compiles)} ({numbers.duration(seconds)})"
        if mix.eager and mix.gave_up_at is not None:
            text += f", and {len(mix.eager)} run in eager from call {mix.gave_up_at} on"
        texts.append(text)
    if texts:
        yield Reason(f"Calls that compile, of {calls}", f"{'; '.join(texts)}.")


def _recommended(answer: Recommendation) -> Row | None:
    return answer.choice.row if answer.choice and answer.outcome is Outcome.MODE else None


def _size(row: Row) -> float:
    return 0.0 if row["speedup"] is None else abs(math.log(row["speedup"].value))
