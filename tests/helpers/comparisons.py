"""Made-up studies to compare: several processes of each mode, with planted changes of speed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from modescope.analysis.compare import gate, sides
from modescope.analysis.compare.arguments import EXACT
from modescope.analysis.compare.gate import ComparedRow, Request, StudyComparison
from modescope.analysis.compare.sides import StudySide
from modescope.bench.records.parquet import SAMPLES
from modescope.bench.records.results import Record, row
from modescope.bench.summary import all_estimates
from tests.helpers.studies import record

LATENCIES_S = {"eager": 468e-6, "no_grad": 455e-6, "inference_mode": 452e-6, "compile": 357e-6}
COMPILER = {"graphs": 1, "graph_breaks": 0, "recompiles": 0, "kernels": 12, "flops": 1000}
BETWEEN = 0.002
"""Standard deviation (relative) of speedups between processes; latencies have five times this."""

REQUEST = Request(Path("old"), Path("new"))
TIMED = (EXACT, *gate.TIMED)


def processes(
    seed: int = 0,
    /,
    slower: Mapping[str, float] | None = None,
    eager: float = 1.0,
    count: int = 5,
    modes: Sequence[str] = tuple(LATENCIES_S),
    of_mode: Mapping[str, Mapping[str, Any]] | None = None,
    **columns: Any,
) -> list[Record]:
    """Records of `count` processes of each mode.

    `slower` has factors on a mode's time, `eager` is the factor on eager's, which is the baseline.
    `of_mode` has columns of single modes, `columns` those of all.
    """
    source = np.random.default_rng(seed)
    records = []
    for mode in modes:
        changed = (slower or {}).get(mode, 1.0) / (eager if mode != "eager" else 1.0)
        for number in range(count):
            base_s = LATENCIES_S["eager"] * eager * float(np.exp(source.normal(0, 5 * BETWEEN)))
            share = LATENCIES_S[mode] / LATENCIES_S["eager"] * changed
            speedup = float(np.exp(source.normal(0, BETWEEN))) / share
            counted = COMPILER if mode == "compile" else {}
            given = {**counted, **columns, **(of_mode or {}).get(mode, {})}
            records.append(
                record(mode, base_s / speedup, speedup, rounds=20, spread=0.002,
                       **{"replicate": number, **given})
            )  # fmt: skip
    return records


def side(label: str, records: Sequence[Record], **columns: Any) -> StudySide:
    """The side with these records and the estimates that a comparison uses; adds `columns`."""
    rows = [_processed(row(one)) | {"environment": "A"} | columns for one in records]
    return StudySide(label, label.lower(), pd.DataFrame(rows))


def _processed(run: dict[str, Any]) -> dict[str, Any]:
    """A row with its estimates in place of its samples."""
    known = all_estimates(run) if run["status"] == "ok" else {}
    names = {"latency_s": "latency", "baseline_latency_s": "baseline_latency", "speedup": "speedup"}
    found = {column: known.get(name) for column, name in names.items()}
    return {name: run[name] for name in run if name not in SAMPLES} | found


def compared(
    old: Sequence[Record], new: Sequence[Record], interleaved: bool = True, **request: Any
) -> StudyComparison:
    """The comparison of `old` with `new`; `interleaved`: as if their processes took turns.

    `request` has arguments of `Request`, such as other gates.
    """
    both = [
        side(label, records, **({"versus_side": label.lower()} if interleaved else {}))
        for label, records in (("OLD", old), ("NEW", new))
    ]
    if interleaved:
        for one in both:
            one.processes["versus_block"] = one.processes["replicate"]
    asked = Request(REQUEST.old, REQUEST.new, **request)
    return gate.judge(asked, sides.pair_rows(*both))


def of_mode(comparison: StudyComparison, mode: str) -> ComparedRow:
    """The row of `mode` in fp32."""
    name = f"{mode} fp32"
    (one,) = (each for each in comparison.rows if each.pair.name == name)
    return one
