"""The processes of one attempt, in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from modescope.bench.records.results import Findings, Result
from modescope.bench.sweep import jobs, record_attempt
from modescope.bench.sweep.jobs import Job
from modescope.bench.sweep.process import isolation
from modescope.bench.sweep.process.isolation import Outcome
from tests.helpers.commands import Ask

MEASURED = Outcome("returned", Result("failed", "measured", Findings()))
TRIAL, RUN = "tuning_trial:nothing_to_tune", "runner:run"


Attempt = Callable[[Job, Outcome], tuple[Result, list[str]]]


@pytest.fixture
def attempted(
    monkeypatch: pytest.MonkeyPatch,
) -> Attempt:
    """Attempts a job whose trial ends as given; the result and the functions that were called."""

    def attempt(job: Job, trial: Outcome) -> tuple[Result, list[str]]:
        called: list[str] = []

        def call(function: str, *arguments: Any, **options: Any) -> Outcome:
            called.append(function.removeprefix("modescope.bench.case."))
            return trial if called[-1] == TRIAL else MEASURED

        monkeypatch.setattr(isolation, "call", call)
        return record_attempt._result(job, "20260302", lambda phase: None), called

    return attempt


@pytest.mark.parametrize(
    ("untuned", "trial", "status", "expected"),
    [
        ("compile", Outcome("returned", True), "skipped", [TRIAL]),
        ("compile", Outcome("returned", False), "failed", [TRIAL, RUN]),
        ("compile", Outcome("failed", reason="no such operator"), "failed", [TRIAL, RUN]),
        ("compile", Outcome("timeout"), "failed", [TRIAL, RUN]),
        (None, Outcome("returned", True), "failed", [RUN]),
    ],
)
def test_what_has_nothing_to_tune_is_not_measured(
    ask: Ask,
    attempted: Attempt,
    tmp_path: Path,
    untuned: str | None,
    trial: Outcome,
    status: str,
    expected: list[str],
) -> None:
    (job,) = jobs.prepare(ask("mode=max-autotune-no-cudagraphs", f"results_dir={tmp_path}"))
    result, called = attempted(replace(job, plan=replace(job.plan, untuned=untuned)), trial)
    assert (result.status, called) == (status, expected)
