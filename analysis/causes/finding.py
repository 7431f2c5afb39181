"""The table of all causes, and functions that find the causes of rows."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from modescope.analysis.causes import (
    autograd,
    compiler,
    graphs,
    kernels,
    overhead,
    own_kernels,
    precision,
    prepared,
    reads,
    steps,
)
from modescope.analysis.causes.outcome import (
    LEAST_OF_A_GAIN,
    LEAST_OF_A_LOSS,
    comparison,
    is_compared,
    is_gain,
    is_loser,
    is_loss,
    is_no_gain,
    lead,
)
from modescope.analysis.causes.types import EXPLAINING, Cause, Context, Evidence, Finding, Kind
from modescope.analysis.derive import pace
from modescope.analysis.derive.select import (
    SAME_BASELINE,
    THREADED,
    codes,
    is_plain,
    per_row,
    values_of,
)
from modescope.analysis.estimates import low
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import as_rows, grouped, required
from modescope.bench.records.outcomes import Status

CAUSES = (
    *steps.CAUSES,
    *graphs.CAUSES,
    *compiler.CAUSES,
    *autograd.CAUSES,
    *overhead.CAUSES,
    *prepared.CAUSES,
    *reads.CAUSES,
    *kernels.CAUSES,
    *own_kernels.CAUSES,
    *precision.CAUSES,
)
"""All causes. Their order decides between causes of one kind with equal or unknown shares.

A new cause is a rule and an entry of `CAUSES` in the file that fits; a new file joins this list.
"""

OVERHEAD = ("more_overhead", "guards")
"""Causes that measure the same part of a call: only the largest share of them is added up."""


def findings(rows: Sequence[Row], told: Iterable[bool] | None = None) -> list[tuple[Finding, ...]]:
    """Returns the causes of each row, the most important cause first.

    A run that did not end ok, or that had only a smoke budget, has no cause. `rows` should be the
    whole study, because rows are compared with each other. `told`: of which rows the causes are
    found, and of these `rows` has to have those `compared_with` them; None: of all.
    """
    good = [row for row in rows if predicates.why_left_out(row) is None]
    sections = grouped((values_of(row, SAME_BASELINE), row) for row in good)
    threads = grouped((values_of(row, THREADED), row) for row in good)
    wanted = zip(rows, [True] * len(rows) if told is None else told, strict=True)
    return [_of_row(row, sections, threads) if is_told else () for row, is_told in wanted]


def compared_with(table: pd.DataFrame, told: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Returns which rows of `table` the causes of rows `told` compare, these rows among them."""
    groups = (codes(table, by) for by in (SAME_BASELINE, THREADED))
    found: NDArray[np.bool_] = np.any([np.isin(group, group[told]) for group in groups], axis=0)
    return found


def findings_by_run(table: pd.DataFrame) -> dict[str, tuple[Finding, ...]]:
    """A dict from run_id to the causes of the run, for a table with all derived columns."""
    rows = as_rows(table)
    return {row["run_id"]: found for row, found in zip(rows, findings(rows), strict=True)}


def findings_column(table: pd.DataFrame) -> pd.Series:
    """Returns the causes of each row of `table`, the most important first, as a column of tuples.

    `table` needs all derived columns except those on causes. If it has a column `_told`, only rows
    in which it is true have causes.
    """
    return per_row(table, findings(as_rows(table), table.get("_told")), "object")


def cause(rows: pd.DataFrame) -> pd.Series:
    """Joins the codes in column `_causes` of each row by `;`; None for a row without causes."""
    codes = (";".join(finding.code for finding in found) or None for found in rows["_causes"])
    return per_row(rows, codes, "object")


def cause_text(rows: pd.DataFrame) -> pd.Series:
    """The text of the first cause in column `_causes` of each row; None for a row without one."""
    texts = (found[0].text if found else None for found in rows["_causes"])
    return per_row(rows, texts, "object")


def standalone_text(finding: Finding) -> str:
    """Returns the sentence of a cause, with a capital letter, followed by the remedy."""
    return " ".join(
        filter(None, (f"{finding.sentence[0].upper()}{finding.sentence[1:]}", finding.remedy))
    )


def _of_row(
    row: Row,
    sections: Mapping[tuple[Hashable, ...], list[Row]],
    threads: Mapping[tuple[Hashable, ...], list[Row]],
) -> tuple[Finding, ...]:
    if row["status"] != Status.OK or predicates.is_smoke(row):
        return ()
    members = sections.get(values_of(row, SAME_BASELINE), [])
    same = threads.get(values_of(row, THREADED), [])
    context = Context(
        row,
        plain=_plain(row, members),
        siblings=tuple(other for other in members if other is not row),
        threads=tuple(
            other
            for other in same
            if other["threads"] != row["threads"] and pace.is_comparable(other, row)
        ),
        caches=tuple(
            other
            for other in members
            if other["case_id"] == row["case_id"] and other["compile_cache"] != row["compile_cache"]
        ),
    )
    return find_causes(context)


def find_causes(context: Context, causes: Sequence[Cause] = CAUSES) -> tuple[Finding, ...]:
    """Returns those of `causes` that apply to the row of `context`, the most important first.

    If the row's mode was not in effect, only causes of the kinds DECISIVE and HINT are returned,
    because others would describe a mode that did not run.
    """
    are_measured = steps.are_used(context.row)
    asked = (entry for entry in causes if not (are_measured and entry.inferred))
    evidence = [(entry, entry.rule(context)) for entry in asked]
    held = [(entry, proof) for entry, proof in evidence if proof is not None]
    shares = [
        (entry.code, proof.share) for entry, proof in held if entry.kind in (Kind.LOSS, Kind.PART)
    ]
    explain = _parts_explain(context.row, shares)
    found = [_make_finding(context.row, entry, proof, explain) for entry, proof in held]
    if predicates.not_in_effect(context.row):
        found = [finding for finding in found if finding.kind in (Kind.DECISIVE, Kind.HINT)]
    return tuple(sorted(found, key=lambda finding: (finding.kind, -(finding.share or 0.0))))


def _make_finding(row: Row, entry: Cause, evidence: Evidence, parts_explain: bool) -> Finding:
    sentence, remedy = (
        template.format(**evidence.texts) for template in (entry.sentence, entry.remedy)
    )
    kind = kind_of(row, entry.kind, parts_explain, evidence.share)
    text = " ".join(filter(None, (f"{_before(row, kind)} {sentence}", remedy)))
    return Finding(entry.code, kind, evidence.share, sentence, remedy, text)


def kind_of(row: Row, kind: Kind, parts_explain: bool, share: float | None = None) -> Kind:
    """Returns the kind of a finding about `row` whose entry has this kind.

    `parts_explain`: whether the causes of the kinds LOSS and PART explain the row's speedup. A
    LIMIT explains a call that gains little, and never one that is slower than its baseline. A GAIN
    whose `share` of the baseline's call is below LEAST_OF_A_GAIN of what the row gains at least
    explains nothing either.
    """
    if kind == Kind.LIMIT:
        return Kind.SETTING if is_loss(row) else Kind.REST if is_gain(row) else Kind.PART
    if kind in (Kind.LOSS, Kind.PART) and not parts_explain:
        return Kind.REST
    if kind != Kind.GAIN:
        return kind
    gain = 1 - 1 / low(row["speedup"]) if is_gain(row) else 0.0
    if share is not None and share < LEAST_OF_A_GAIN * gain:
        return Kind.REST
    return Kind.SMALL_GAIN if is_no_gain(row) else kind


def _parts_explain(row: Row, shares: Sequence[tuple[str, float | None]]) -> bool:
    """Whether the causes of the kinds LOSS and PART that apply to `row` explain its speedup.

    `shares` has the code of each such cause, and its share of a call (None: unknown). They explain
    no gain, and a loss only if together they take LEAST_OF_A_LOSS of the most that the interval of
    the speedup lets it be, or if a share is unknown.
    """
    known = [(code, share) for code, share in shares if share is not None]
    if is_gain(row) or not is_loss(row) or len(known) < len(shares):
        return not is_gain(row)
    overhead = max((share for code, share in known if code in OVERHEAD), default=0.0)
    others = math.fsum(share for code, share in known if code not in OVERHEAD)
    loss = 1 - low(row["speedup"])
    return overhead + others >= LEAST_OF_A_LOSS * loss


def _before(row: Row, kind: Kind) -> str:
    """Says how `row` compares with its baseline, to stand before the sentence of a cause of `kind`.

    The text ends in ":" if the cause explains the speedup, else in ";". Before a COST it does not
    mention the first call, because the first call is such a cost itself.
    """
    if kind in EXPLAINING:
        return f"{lead(row)}:"
    return f"{comparison(row) if kind is Kind.COST else lead(row)};"


def _plain(row: Row, members: Sequence[Row]) -> Row | None:
    if is_plain(row) and row["dtype"] == row["baseline_dtype"]:
        return None
    return next(
        (
            other
            for other in reversed(members)
            if is_plain(other)
            and other["grad"] == row["grad"]
            and other["dtype"] == row["baseline_dtype"]
        ),
        None,
    )


def most_important(rows: Iterable[Row], count: int) -> list[Row]:
    """Returns up to `count` rows that a reader asks about first, no two with the same first cause.

    Rows without a cause are left out. Modes that are slower by more than a tenth come first, the
    slowest first. Compiled, captured and autocast modes without a gain of a tenth follow, then the
    other modes with a speedup, the largest difference from 1 first, then modes that were not in
    effect, then the rest.
    """
    with_cause = sorted((row for row in rows if row["cause"]), key=_importance)
    of_cause = {required(row["cause"]).partition(";")[0]: row for row in reversed(with_cause)}
    return [row for row in with_cause if row in of_cause.values()][:count]


def _importance(row: Row) -> tuple[int, float]:
    if predicates.not_in_effect(row) or not is_compared(row):
        return (3 if predicates.not_in_effect(row) else 4), 0.0
    size = -abs(math.log(required(row["speedup"]).value))
    if is_loser(row):
        return 0, size
    changes_code = row["compile_mode"] != "none" or row["graph"] or row["autocast"]
    return (1 if is_no_gain(row) and changes_code else 2), size
