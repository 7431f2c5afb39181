"""A comparison as JSON; docs/compare.schema.json describes it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from modescope.analysis.compare.rules.gate import Compared, Comparison
from modescope.bench.stats.estimates import Estimate

VERSION = 1
"""Increased when a name or a meaning changes; new names may be added without."""

WORK = ("model", "model_args", "shape", "phase", "dtype", "mode", "baseline_mode", "threads")


def text(comparison: Comparison) -> str:
    """The document, with a row for each row of either side."""
    return f"{json.dumps(content(comparison), indent=1, ensure_ascii=False, allow_nan=False)}\n"


def content(comparison: Comparison) -> dict[str, Any]:
    """The document as a mapping; unknown values are None."""
    request = comparison.request
    return {
        "version": VERSION,
        "status": comparison.status,
        "sentence": comparison.sentence,
        "old": str(request.old),
        "new": str(request.new),
        "where": request.where,
        "allowed": list(request.allowed),
        "gates": list(comparison.gates),
        "margin": request.margin,
        "latency_margin": request.latency_margin,
        "interleaved": comparison.interleaved,
        "notes": list(comparison.notes),
        "differences": [asdict(one) for one in comparison.differences],
        "eager": [
            {"work": one.work, "change": _estimate(one.change), "readings": _both(one.old, one.new)}
            for one in comparison.eager
        ],
        "rows": [_row(row) for row in comparison.rows],
    }


def _row(row: Compared) -> dict[str, Any]:
    timing, described = row.timing, row.pair.row
    return {
        "case_id": described["case_id"],
        "device": described["device"],
        "compile_cache": described["compile_cache"],
        **{name: described[name] for name in WORK},
        "name": row.pair.name,
        "work": row.pair.work,
        "processes": _both(len(row.pair.old), len(row.pair.new)),
        "timed_processes": _both(timing.old, timing.new),
        "speedup": _both(timing.speedup_old, timing.speedup_new),
        "latency_s": _both(timing.latency_old_s, timing.latency_new_s),
        "against_eager_change": _estimate(timing.against_eager),
        "latency_change": _estimate(timing.latency),
        "verdict": timing.verdict,
        "why": timing.why,
        "detectable": timing.detectable,
        "replicates_needed": timing.replicates,
        "findings": [asdict(one) for one in row.findings],
        "failures": list(row.failures),
    }


def _estimate(one: Estimate | None) -> dict[str, float | None] | None:
    return None if one is None else {"value": one.value, "low": one.low, "high": one.high}


def _both(old: Any, new: Any) -> dict[str, Any]:
    return {"old": old, "new": new}
