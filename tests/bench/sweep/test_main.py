"""The exit status of a sweep whose answer could not be confirmed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from modescope.bench.sweep import main, sweep


@pytest.mark.parametrize(
    ("failure", "shown", "expected"),
    [
        (None, 0, 0),
        (None, 1, 1),
        (OSError(28, "No space left on device"), 0, 1),
        (KeyboardInterrupt(), 1, main.INTERRUPTED),
        (main.Terminated(), 0, main.TERMINATED),
    ],
)
def test_the_table_is_shown_whatever_ends_the_confirming(
    monkeypatch: pytest.MonkeyPatch, failure: BaseException | None, shown: int, expected: int
) -> None:
    def confirm(run_ids: Sequence[str]) -> None:
        if failure:
            raise failure

    submission = sweep.Submission(Path("study"), 2, iter(["one", "two"]), confirm=confirm)
    monkeypatch.setattr(sweep, "submit", lambda requests: submission)
    tables: list[Sequence[str]] = []

    def show(folder: Path, run_ids: Sequence[str], is_sweep: bool) -> int:
        tables.append(run_ids)
        return shown

    requests = [SimpleNamespace(sweep=True, settings=SimpleNamespace(cluster={"engine": "gpus"}))]
    assert main.measure(requests, show, lambda folder, run_ids: run_ids) == expected  # type: ignore[arg-type]
    assert tables == [["one", "two"]]
