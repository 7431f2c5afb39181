"""Says whether kernels of the user's own (mode.kernels) are worth keeping.

The best mode with them is compared with the best mode of torch alone. Both were measured over the
same baseline, mostly in two processes (`derive.against`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import pandas as pd

from modescope.analysis.derive import against
from modescope.analysis.derive.select import GROUP, values_of
from modescope.analysis.format import numbers, phrases
from modescope.analysis.rows import predicates
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

    @property
    def text(self) -> str:
        """The answer in a sentence."""
        head = f"{KERNELS}={self.name}: {self.outcome}"
        if self.kernel is None or self.torch is None or self.ratio is None:
            return f"{head}: {_missing(self)}"
        mine, theirs = map(phrases.mode, (self.kernel, self.torch))
        if self.outcome in (Keeping.KEEP, Keeping.UNDECIDED):
            compared = f"{mine} is {numbers.ratio(self.ratio)} as fast as {theirs}"
            moved = _moved(self.kernel, self.torch)
        else:
            turned = required(estimates.quotient(estimates.ONE, self.ratio))
            compared = f"{theirs} is {numbers.ratio(turned)} as fast as {mine}"
            moved = _moved(self.torch, self.kernel)
        gain = ""
        if self.outcome == Keeping.UNCOMPILED and self.plain is not None:
            over, other = numbers.ratio(required(self.plain_ratio)), self.plain_torch
            slower = phrases.mode(other) if other else self.plain["baseline_mode"]
            gain = f"; uncompiled, {phrases.mode(self.plain)} is {over} as fast as {slower}"
        more = "; replicates=5 narrows this" if self.outcome == Keeping.UNDECIDED else ""
        return f"{head}: {compared}{moved}{gain}{more}"


def answers(rows: pd.DataFrame) -> list[Answer]:
    """Returns an answer for each implementation, work, precision and baseline in derived `rows`."""
    every = [row for row in as_rows(rows) if row["baseline_mode"] is not None]
    groups = grouped((values_of(row, GROUP), row) for row in every)
    return [
        _answer(name, group)
        for group in groups.values()
        for name in sorted({found for found in map(_kernels, group) if found})
    ]


def _answer(name: str, group: Sequence[Row]) -> Answer:
    mine = [row for row in group if _kernels(row) == name]
    good = [row for row in group if predicates.why_left_out(row) is None]
    with_it = [row for row in good if _kernels(row) == name]
    without = [row for row in good if _kernels(row) is None]
    if not with_it or not any(row["compile_mode"] != "none" for row in without):
        kernel = _fastest(with_it) if with_it else None
        return Answer(name, Keeping.UNDECIDED, mine[0], kernel)
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


def _kernels(row: Row) -> str | None:
    found: str | None = json.loads(row["axes"] or "{}").get(KERNELS)
    return found


def _fastest(rows: Sequence[Row]) -> Row:
    return max(rows, key=lambda row: required(row["speedup"]).value)


def _fastest_uncompiled(rows: Sequence[Row]) -> Row | None:
    plain = [row for row in rows if row["compile_mode"] == "none"]
    return _fastest(plain) if plain else None


def _missing(answer: Answer) -> str:
    if answer.kernel is None:
        row = answer.work
        why = predicates.why_left_out(row) if row["status"] == Status.OK else row["status"]
        return f"no mode with it counts ({phrases.mode(row)}: {why})"
    return "no mode that compiles was measured without it; add mode=compile with kernels=torch"


def _moved(row: Row, other: Row) -> str:
    """Says how many bytes compiled code of the two rows moves; empty if that is unknown."""
    there, here = row["bytes_accessed"], other["bytes_accessed"]
    if not there or not here:
        return ""
    return f" ({numbers.size(there)} moved against {numbers.size(here)})"
