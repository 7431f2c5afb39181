"""The processes of one attempt, in order, and its row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modescope.bench.records.results import CACHE_FILLED, Findings, Result
from modescope.bench.sweep import attempt, isolation, prepare
from modescope.bench.sweep.isolation import ChildOutcome
from tests.helpers.commands import Ask, rows
from tests.helpers.worlds import World


def ended(value: object) -> ChildOutcome:
    return ChildOutcome("returned", value)


MEASURED = ended(Result("failed", "measured", Findings()))
FILLED = ended(Result(CACHE_FILLED, "the compiler's cache lacked its code", Findings()))
KILLED = ChildOutcome("crashed", None, "by SIGKILL")


@pytest.mark.parametrize(
    ("cache", "processes", "status"),
    [
        ("cold", [("run", MEASURED)], "failed"),
        # another process fills an empty cache, and is not measured
        ("warm", [("fill", FILLED), ("run", MEASURED)], "failed"),
        ("warm", [("fill", MEASURED)], "failed"),
        ("warm", [("fill", KILLED)], "crashed"),
    ],
)
def test_the_processes_of_an_attempt(
    ask_quickly: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    cache: str, processes: list[tuple[str, ChildOutcome]], status: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(prepare, "_hosts", {})
    monkeypatch.setattr(isolation, "call", World().call)
    words = ("mode=max-autotune-no-cudagraphs", f"compile_cache={cache}", f"results_dir={tmp_path}")
    (job,) = prepare.prepare(ask_quickly(*words))
    left, called = [outcome for _, outcome in processes], []

    def call(function: str, *arguments: Any, **options: Any) -> ChildOutcome:
        called.append("fill" if arguments[1].fills_cache else "run")
        return left.pop(0)

    monkeypatch.setattr(isolation, "call", call)
    held = attempt.attempt(job)
    (row,) = rows(tmp_path)
    assert called == [name for name, _ in processes]
    assert row["status"] == held["status"] == status
    assert row["run_id"] == held["run_id"]
