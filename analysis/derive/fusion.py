"""Splits a mode's speedup over plain eager into less work, and less launching and dispatch.

The work of a call is its device time; on a CPU it is the latency without dispatch. The fusion gain
is the work of plain eager (same grad axis and dtype) ÷ the work of the mode: fused kernels read and
write less. If a call is bound by overhead, even a large fusion gain changes the latency little.
Therefore the speedup is split in two steps: from eager to eager with the mode's work (the fusion
speedup), and from there to the mode (the launch gain).

The two modes ran in two processes, and times of the same code differ between processes by more than
their intervals. Therefore no raw times are compared, but each row's ratio to the same baseline,
paired within the rounds of its process: on CUDA the ratios of device times, on a CPU the speedups,
with the shares of work in the call. On CUDA, if plain eager is the baseline itself, the gain is the
ratio of the row's own rounds. If the baseline's device time is unknown, the gain is unknown.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from modescope.analysis.derive.select import (
    SAME_BASELINE,
    codes,
    is_plain,
    per_row,
    trusted,
    values_of,
)
from modescope.analysis.estimates import point, values
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import as_rows, required
from modescope.bench.records.cases import PLAIN_EAGER
from modescope.bench.stats import estimates
from modescope.bench.stats.estimates import Estimate

_SAME_WORK = (*SAME_BASELINE, "dtype", "quantize", "grad")
_NEEDED = (
    *(*PLAIN_EAGER, "training", "device", "mode", "dtype", "baseline_mode", "baseline_dtype"),
    *("speedup", "latency_s", "work_s", "device_gain"),
    *("host_share", "device_share", "dispatch_share", "synchronize_s"),
)


@dataclass(frozen=True)
class Pair:
    """A row, and the plain eager row with its grad axis and dtype (`reference`).

    `gain` is the fusion gain: time of plain eager's work ÷ time of the row's work, without
    overhead; above 1 if the row's work takes less time.
    """

    row: Row
    reference: Row
    gain: Estimate

    @property
    def reference_work_s(self) -> float:
        """Seconds of plain eager's work at the speed that the machine had during `row`."""
        return required(self.row["work_s"]) * self.gain.value

    @property
    def speedup(self) -> float | None:
        """How many times faster plain eager would be with the work of `row`; None if unknown.

        Plain eager's own overhead stays.
        """
        eager = self.reference
        if predicates.on_cuda(self.row):
            device, host = point(eager["device_share"]), point(eager["host_share"])
            if device is None or host is None:
                return None
            return 1 / _on_cuda(eager, device, host, self.gain.value)
        if eager["dispatch_share"] is None:
            return None
        before = max(0.0, 1 - eager["dispatch_share"].value)
        return float(1 / (1 - before + before / self.gain.value))


def pairs(rows: pd.DataFrame) -> pd.Series:
    """Returns for each row its Pair with plain eager; None if the fusion gain is unknown.

    Both rows must be trusted, and on a CPU the intervals of both rows' work must exclude 0. Plain
    eager in a CUDA graph has none, because it fuses nothing: a graph only shortens the pauses
    between kernels. The interval of the gain is the worst case of the intervals of its inputs.
    """
    return per_row(rows, map(dict(_pairs(rows)).get, rows.index), "object")


def fusion_gain(rows: pd.DataFrame) -> pd.Series:
    """Returns each row's fusion gain (an Estimate): time of plain eager's work ÷ of the row's."""
    return per_row(rows, (pair and pair.gain for pair in rows["_fusion"]), "object")


def fusion_speedup(rows: pd.DataFrame) -> pd.Series:
    """Returns how many times faster plain eager would be with each row's work.

    Plain eager's own overhead stays (`Pair.speedup`).
    """
    return per_row(rows, (pair and pair.speedup for pair in rows["_fusion"]))


def launch_gain(rows: pd.DataFrame) -> pd.Series:
    """Returns `speedup_same_grad` ÷ `fusion_speedup`: the gain by less launching and dispatch.

    Null if the dtype is not the baseline's, because the two speedups are then over different rows.
    Of plain eager in a CUDA graph, which fuses nothing, it is all of the speedup.
    """
    same_reference = rows["dtype"] == rows["baseline_dtype"]
    graphs = rows.loc[rows["graph"].eq(True), list(PLAIN_EAGER)]
    captured = graphs.index[per_row(graphs, map(_fuses_nothing, as_rows(graphs)), "bool")]
    alone = rows["fusion_speedup"].mask(rows.index.isin(captured), 1.0)
    gain = values(rows["speedup_same_grad"]) / alone
    return gain.where(same_reference)


def _pairs(rows: pd.DataFrame) -> Iterator[tuple[Hashable, Pair]]:
    good = trusted(rows[[*_NEEDED, "_same_baseline", "grad", "status", "in_effect", "budget_rank"]])
    work = codes(good, ("_same_baseline", "dtype", "grad"))
    shared = np.bincount(work)[work] > 1
    good, work = good[shared], work[shared]
    cases = list(zip(good.index, work.tolist(), as_rows(good[list(_NEEDED)]), strict=True))
    references = {code: row for _, code, row in cases if is_plain(row)}
    for place, code, row in cases:
        reference = None if _fuses_nothing(row) else references.get(code)
        if reference is not None and (gain := _gain(row, reference)) is not None:
            yield place, Pair(row, reference, gain)


def _fuses_nothing(row: Row) -> bool:
    """Whether a row is plain eager, in a CUDA graph or not."""
    return is_plain({**row, "graph": False})


def references_of(rows: Iterable[Row]) -> dict[tuple[Hashable, ...], Row]:
    """Returns a dict from `work_of(row)` to `row`, for the plain eager rows in `rows`."""
    return {work_of(row): row for row in rows if is_plain(row)}


def work_of(row: Row) -> tuple[Hashable, ...]:
    """Returns the values of `row` that a plain eager row must share to be its reference."""
    return values_of(row, _SAME_WORK)


def _gain(row: Row, reference: Row) -> Estimate | None:
    if predicates.on_cuda(row):
        of_reference = reference["device_gain"]
        if predicates.is_control(reference) and of_reference is not None:
            of_reference = estimates.ONE
        return estimates.quotient(row["device_gain"], of_reference)
    faster = estimates.quotient(row["speedup"], reference["speedup"])
    return estimates.product(faster, estimates.quotient(_share(reference), _share(row)))


def _share(row: Row) -> Estimate | None:
    return estimates.difference(estimates.ONE, row["dispatch_share"])


def _on_cuda(row: Row, before: float, host: float, gain: float) -> float:
    """Returns the factor by which a call gets longer if its device work is divided by `gain`.

    It is below 1 if the call gets shorter. `before` and `host` are the shares of the call that the
    work and the host take now. The host works in parallel: more work adds only what exceeds the
    host's time, and less work cannot bring the call below the host's time plus a synchronise that
    does not wait.
    """
    after = before / gain
    if after > before:
        return 1 + max(0.0, after - max(before, host))
    least = min(host + (row["synchronize_s"] or 0.0) / required(row["latency_s"]).value, 1.0)
    return float(max(1 - (before - after), least))
