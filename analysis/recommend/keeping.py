"""Says whether kernels of the user's own (mode.kernels) are worth keeping.

The best mode with them is compared with the best mode of torch alone. Both were measured over the
same baseline, mostly in two processes (`derive.against`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import pandas as pd

from modescope.analysis.derive import against, formulas
from modescope.analysis.derive.select import GROUP, values_of
from modescope.analysis.format import numbers, phrases
from modescope.analysis.recommend import wording
from modescope.analysis.recommend.types import Recommendation, name_with_remark
from modescope.analysis.rows import predicates
from modescope.analysis.rows.confirming import contradicted, stays_ahead
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import as_rows, grouped, required
from modescope.bench.records.cases import KERNELS
from modescope.bench.records.outcomes import Status
from modescope.bench.stats import estimates
from modescope.bench.stats.estimates import Estimate, Verdict


class Keeping(StrEnum):
    """What to do with a kernel."""

    KEEP = "keep"  # a mode with it is surely faster than each of torch alone
    DROP = "drop"  # one of torch alone is surely faster, and it gains nothing uncompiled, either
    UNCOMPILED = "keep only where you do not compile"  # it gains there, and compiling gains more
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Answer:
    """Whether to keep the implementation `name`, for one work, precision and baseline."""

    name: str
    outcome: Keeping
    work: Row  # any row of that work
    kernel: Row | None = None  # the fastest with it; None if none counts
    torch: Row | None = None  # the fastest without it
    ratio: Estimate | None = None  # how many times as fast `kernel` is as `torch`
    plain: Row | None = None  # the fastest with it that does not compile
    plain_torch: Row | None = None  # the fastest without it that does not; None: the baseline
    plain_ratio: Estimate | None = None  # how many times as fast `plain` is as that
    doubt: str = ""  # why it is undecided, whatever the ratio

    @property
    def text(self) -> str:
        """The answer in a sentence."""
        head = f"{KERNELS}={self.name}: {self.outcome}"
        if self.doubt:
            return f"{head}: {self.doubt}"
        kernel, torch = required(self.kernel), required(self.torch)
        ratio = required(self.ratio)
        mine, theirs = map(_named, (kernel, torch))
        if self.outcome in (Keeping.KEEP, Keeping.UNDECIDED):
            compared = f"{mine} is {numbers.ratio(ratio)} as fast as {theirs}"
            moved = _moved(kernel, torch)
        else:
            turned = required(estimates.quotient(estimates.ONE, ratio))
            compared = f"{theirs} is {numbers.ratio(turned)} as fast as {mine}"
            moved = _moved(torch, kernel)
        gain = ""
        if self.outcome == Keeping.UNCOMPILED and self.plain is not None:
            over, other = numbers.ratio(required(self.plain_ratio)), self.plain_torch
            slower = _named(other) if other else self.plain["baseline_mode"]
            gain = f"; uncompiled, {_named(self.plain)} is {over} as fast as {slower}"
        more = "; replicates=5 narrows this" if self.outcome == Keeping.UNDECIDED else ""
        return f"{head}: {compared}{moved}{gain}{more}"


def answers(rows: pd.DataFrame, recommended: Iterable[Recommendation]) -> list[Answer]:
    """Returns an answer for each implementation, work, precision and baseline in derived `rows`.

    `recommended` are the modes recommended for `rows`. Where they say that the study was too
    disturbed for a mode that compiles or captures, and where a second process contradicts a
    compared mode, the answer is undecided.
    """
    disturbed = {
        values_of(answer.question.as_row(), GROUP) for answer in recommended if answer.is_disturbed
    }
    every = [row for row in as_rows(rows) if row["baseline_mode"] is not None]
    groups = grouped((values_of(row, GROUP), row) for row in every)
    return [
        _doubted(_answer(name, group), key in disturbed)
        for key, group in groups.items()
        for name in sorted({found for found in map(_kernels, group) if found})
    ]


def _answer(name: str, group: Sequence[Row]) -> Answer:
    mine = [row for row in group if _kernels(row) == name]
    good = [row for row in group if predicates.why_left_out(row) is None]
    with_it = [row for row in good if _kernels(row) == name]
    without = [row for row in good if _kernels(row) is None]
    if doubt := _missing(mine, with_it, [row for row in group if _kernels(row) is None]):
        return Answer(name, Keeping.UNDECIDED, mine[0], doubt=doubt)
    kernel, torch = _fastest(with_it), _fastest(without)
    plain, plain_torch = map(_fastest_uncompiled, (with_it, without))
    gain = None
    if plain is not None:
        gain = against.ratio(plain, plain_torch) if plain_torch else plain["speedup"]
    ratio = against.ratio(kernel, torch)
    verdict = estimates.verdict(ratio)
    decided = {Verdict.FASTER: Keeping.KEEP, Verdict.SLOWER: Keeping.DROP}
    outcome = decided.get(verdict, Keeping.UNDECIDED) if verdict else Keeping.UNDECIDED
    gains = estimates.verdict(gain) == Verdict.FASTER
    if outcome == Keeping.DROP and gains and torch["compile_mode"] != "none":
        outcome = Keeping.UNCOMPILED
    return Answer(name, outcome, mine[0], kernel, torch, ratio, plain, plain_torch, gain)


def _doubted(answer: Answer, is_disturbed: bool) -> Answer:
    """Returns `answer`, undecided if processes or disturbances leave its outcome open."""
    pairs = [(answer.kernel, answer.torch)]
    pairs += [(answer.plain, answer.plain_torch)] if answer.outcome == Keeping.UNCOMPILED else []
    for pair in pairs:
        compared = sorted(filter(None, pair), key=_speed, reverse=True)
        if not compared:
            continue
        first, *others = compared
        disputed = [row for row in others if contradicted(row, first)]
        if contradicted(first) and not (others and stays_ahead(first, others[0])):
            disputed.insert(0, first)
        doubt = ""
        if disputed:
            doubt = wording.between(disputed[0], required(disputed[0]["baseline_mode"]))
        elif is_disturbed and any(map(formulas.builds, compared)):
            doubt = wording.DISTURBED
        if doubt:
            return replace(answer, outcome=Keeping.UNDECIDED, doubt=doubt)
    return answer


def _kernels(row: Row) -> str | None:
    found: str | None = json.loads(row["axes"] or "{}").get(KERNELS)
    return found


def _fastest(rows: Sequence[Row]) -> Row:
    return max(rows, key=_speed)


def _speed(row: Row) -> float:
    return required(row["speedup"]).value


def _named(row: Row) -> str:
    return name_with_remark(phrases.mode(row), predicates.unchecked(row))


def _fastest_uncompiled(rows: Sequence[Row]) -> Row | None:
    plain = [row for row in rows if row["compile_mode"] == "none"]
    return _fastest(plain) if plain else None


def _missing(mine: Sequence[Row], with_it: Sequence[Row], without: Sequence[Row]) -> str:
    """Says which side of the comparison has no row that counts; empty if both have some.

    `mine` and `without` are all rows with and without the kernel, `with_it` those that count.
    """
    if not with_it:
        return f"no mode with it counts ({_why_not(mine[0])})"
    compiled = [row for row in without if row["compile_mode"] != "none"]
    if not compiled:
        return "no mode that compiles was measured without it; add mode=compile with kernels=torch"
    if all(map(predicates.why_left_out, compiled)):
        return f"no mode that compiles counts without it ({_why_not(compiled[0])})"
    return ""


def _why_not(row: Row) -> str:
    why = predicates.why_left_out(row) if row["status"] == Status.OK else row["status"]
    return f"{phrases.mode(row)}: {why}"


def _moved(row: Row, other: Row) -> str:
    """Says how many bytes compiled code of the two rows moves; empty if that is unknown."""
    there, here = row["bytes_accessed"], other["bytes_accessed"]
    if not there or not here:
        return ""
    return f" ({numbers.size(there)} moved against {numbers.size(here)})"
