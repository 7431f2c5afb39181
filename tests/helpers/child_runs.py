"""Measures a case in a process of its own, as `run.py` does."""

from __future__ import annotations

from pathlib import Path

from modescope.bench.records.cases import Case
from modescope.bench.records.plans import Plan
from modescope.bench.records.results import Findings, Result
from modescope.bench.sweep import isolation
from modescope.bench.sweep.isolation import Ending, Task


def findings_in_child(asked: Case, plan: Plan, caches: Path | None = None) -> Findings:
    """Measures `asked`, asserts that it ends ok, and returns its findings.

    `caches` is an empty folder for the compiler's caches; None: the user's caches.
    """
    variables = {} if caches is None else {
        "TORCHINDUCTOR_CACHE_DIR": str(caches),
        "TRITON_CACHE_DIR": str(caches / "triton"),
    }  # fmt: skip
    outcome = isolation.call(
        Task("modescope.bench.case.runner:run", Result),
        asked,
        plan,
        timeout_s=300,
        variables=variables,
    )
    assert outcome.kind == Ending.RETURNED, outcome.reason
    result = outcome.value
    assert result is not None
    assert (result.status, result.reason) == ("ok", None)
    return result.findings
