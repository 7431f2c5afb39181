"""Decides which changes fail a comparison, and what its exit status and its sentence are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from modescope.analysis.changes import log_margin
from modescope.analysis.compare import differences, exact, sides
from modescope.analysis.compare.arguments import (
    EXACT,
    FAILED,
    LATENCY,
    PASSED,
    SPEEDUP,
    UNDECIDED,
)
from modescope.analysis.compare.differences import Difference
from modescope.analysis.compare.exact import ChangeKind, ExactChange
from modescope.analysis.compare.sides import Pair, pair_rows
from modescope.analysis.compare.timing import BROKEN, EagerChange, Timing, is_interleaved, timings
from modescope.analysis.compare.verdicts import Margins, TimingVerdict
from modescope.analysis.folders import Folder
from modescope.analysis.format import numbers
from modescope.analysis.rows.values import value_of
from modescope.bench.records.errors import UsageError
from modescope.bench.records.outcomes import Status
from modescope.bench.records.paths import program

TIMED = {SPEEDUP: TimingVerdict.LOST, LATENCY: TimingVerdict.SLOWER}
"""Gates of timing, and the verdict that makes a row fail each."""


@dataclass(frozen=True)
class Request:
    """The arguments of a comparison.

    `gates` are names in `arguments.GATES`; None stands for the default gates. `margin` is for the
    time relative to eager and `latency_margin` for the latency, both relative (0.01: 1 %). `where`
    is a condition on rows. `allowed` are names of differences that do not forbid the comparison. If
    `strict`, undecided timings give an exit status of their own.
    """

    old: Folder
    new: Folder
    gates: Sequence[str] | None = None
    margin: float = 0.01
    latency_margin: float = 0.02
    where: str | None = None
    allowed: Sequence[str] = ()
    strict: bool = False


@dataclass(frozen=True)
class ComparedRow:
    """A row of the comparison, with its changes.

    `findings` are the changes of exact quantities, such as counts. Each text in `failures` names a
    change that fails the comparison.
    """

    pair: Pair
    timing: Timing
    findings: Sequence[ExactChange]
    failures: Sequence[str]

    @property
    def changed(self) -> bool:
        """Whether an exact quantity changed, or the verdict on the timing reports a change.

        Such verdicts are all but NO_WORSE and UNDECIDED.
        """
        verdict = self.timing.verdict
        silent = (None, TimingVerdict.NO_WORSE, TimingVerdict.UNDECIDED)
        return bool(self.findings) or verdict not in silent


@dataclass(frozen=True)
class StudyComparison:
    """The result of a comparison: an exit status, a sentence, and the data behind them.

    `gates` are those that were applied. `interleaved`: whether both studies were measured in turns.
    `differences` are those of the conditions of measurement. `eager` has the change of each eager
    baseline. `notes` are further sentences to print.
    """

    request: Request
    status: int
    sentence: str
    gates: Sequence[str] = ()
    interleaved: bool = False
    differences: Sequence[Difference] = ()
    eager: Sequence[EagerChange] = ()
    rows: Sequence[ComparedRow] = ()
    notes: Sequence[str] = ()


def compare(request: Request) -> StudyComparison:
    """Compares two studies; raises UsageError if they are not comparable or nothing is compared."""
    old, new = sides.read(request.old, request.new, request.where, request.allowed)
    return judge(request, pair_rows(old, new), (*old.notes, *new.notes))


def judge(request: Request, pairs: Sequence[Pair], notes: Sequence[str] = ()) -> StudyComparison:
    """Compares paired rows and decides whether the gates of `request` pass.

    `notes` come first among the notes of the result. Raises UsageError if the
    studies are not comparable or nothing is compared.
    """
    differing = differences.find_differences(pairs)
    differences.check(differing, request.allowed)
    margins = Margins(log_margin(request.margin), log_margin(request.latency_margin))
    of_pairs, eager = timings(pairs, margins)
    interleaved = is_interleaved(pairs)
    gates = request.gates or (EXACT, *(TIMED if interleaved else ()))
    rows = [_row(pair, timing, gates) for pair, timing in zip(pairs, of_pairs, strict=True)]
    _check_something(rows, gates)
    status = _status(rows, gates, request.strict)
    said = [*notes, *_notes(pairs, rows, gates, interleaved)]
    sentence = _sentence(rows, gates, status)
    return StudyComparison(
        request, status, sentence, gates, interleaved, differing, eager, rows, said
    )


def _row(pair: Pair, timing: Timing, gates: Collection[str]) -> ComparedRow:
    findings = exact.find_changes(pair.old, pair.new)
    gated = {*gates, *(exact.ALWAYS if EXACT in gates else ())}
    failures = [
        finding.text
        for finding in findings
        if finding.kind is ChangeKind.WORSE and finding.quantity in gated
    ]
    failures += [
        verdict for gate, verdict in TIMED.items() if gate in gates and timing.verdict == verdict
    ]
    return ComparedRow(pair, timing, findings, failures)


def _check_something(rows: Sequence[ComparedRow], gates: Collection[str]) -> None:
    """Raises UsageError if a gate has nothing to compare, because it would then always pass."""
    both = [row.pair for row in rows if row.pair.old and row.pair.new]
    ok = [pair for pair in both if any(row["status"] == Status.OK for row in pair.old)]
    if not ok:
        raise UsageError(
            "nothing is compared: no row of the old side that is on the new side ended ok; "
            f"`{program('analysis.table')}` shows why"
        )
    timed = any(row.timing.verdict for row in rows)
    if not timed and EXACT not in gates and {*gates} & {*TIMED}:
        why = Counter(row.timing.why for row in rows if row.timing.why).most_common(1)[0][0]
        raise UsageError(f"nothing is compared: no row has a timing that counts ({why})")
    for name in set(gates) & set(exact.ON_REQUEST):
        known = (
            all(
                any(value_of(row, name) is not None for row in side)
                for side in (pair.old, pair.new)
            )
            for pair in ok
        )
        if not any(known):
            raise UsageError(
                f"nothing is compared by --gate {name}: no row has {name} on both sides (is "
                "profile=false, or memory=false?)"
            )


def _status(rows: Sequence[ComparedRow], gates: Collection[str], strict: bool) -> int:
    if any(row.failures for row in rows):
        return FAILED
    return UNDECIDED if strict and {*gates} & {*TIMED} and any(map(is_open, rows)) else PASSED


def is_open(row: ComparedRow) -> bool:
    """Whether the timing of a row is undecided."""
    return row.timing.verdict in (TimingVerdict.UNDECIDED, TimingVerdict.EAGER_MAYBE)


def _sentence(rows: Sequence[ComparedRow], gates: Collection[str], status: int) -> str:
    failed = [row for row in rows if row.failures]
    count = numbers.counted(len(rows), "row", "rows")
    seen = (row.timing.verdict.partition(":")[0] for row in rows if row.timing.verdict)
    timed = ", ".join(f"{number} {verdict}" for verdict, number in Counter(seen).most_common())
    if failed:
        verb = "fails" if len(failed) == 1 else "fail"
        return f"Regression: {len(failed)} of {count} {verb} ({_reasons(failed)})."
    lead = {UNDECIDED: "Undecided", PASSED: "No regression found"}[status]
    counted = "" if {*gates} & {*TIMED} else ", which do not count here"
    return f"{lead}: {count} compared; timings{counted}: {timed or 'none'}."


def _reasons(failed: Sequence[ComparedRow]) -> str:
    kinds: Counter[str] = Counter()
    for row in failed:
        worse = {finding.text: exact.MEANING[finding.quantity] for finding in row.findings}
        kinds.update({worse.get(text, text) for text in row.failures})
    return ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())


def _notes(
    pairs: Sequence[Pair], rows: Sequence[ComparedRow], gates: Collection[str], interleaved: bool
) -> list[str]:
    notes = []
    if not interleaved:
        notes.append(
            "The sides were not measured in turns (versus does that), so a change of the "
            "machine between them looks like a change of the code."
        )
    if not {*gates} & {*TIMED}:
        notes.append(
            "Timings are reported only; --gate exact,speedup,latency lets them fail the comparison."
        )
    both = [pair for pair in pairs if pair.old and pair.new]
    first_old = min(row["started_at"] for pair in both for row in pair.old)
    if not interleaved and first_old > max(row["started_at"] for p in both for row in p.new):
        notes.append("OLD was measured after NEW; are the two exchanged?")
    if broken := [row for row in rows if row.timing.why == BROKEN]:
        works = dict.fromkeys(row.pair.work for row in broken)
        notes.append(
            f"Eager against itself changed, which it cannot, so the timings of {'; '.join(works)} "
            "are undecided: the machine was disturbed."
        )
    return notes
