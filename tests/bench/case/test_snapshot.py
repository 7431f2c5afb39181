"""Snapshots of an allocator that writes files of known sizes: kept, shortened or omitted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from modescope.bench.case import passes, runner
from modescope.bench.case.passes import NO_SNAPSHOT_ROOM, SNAPSHOT_CUT, SNAPSHOT_TOO_LARGE
from modescope.bench.devices.allocators import CpuAllocator
from modescope.bench.devices.devices import Cpu
from modescope.bench.records.cases import Plan
from modescope.bench.records.columns import Snapshot
from tests.helpers.probe_models import case, linear, model, silent, smoke, variant

pytestmark = pytest.mark.usefixtures("as_in_a_child", "restored_settings")

RUN_ID = "20260301T120000.000001-abc123"
MB = 1_000_000


class Writing(CpuAllocator):
    """Each of `events` takes `event_bytes`; no more of them are kept than asked for."""

    snapshots = True

    def __init__(self, events: int, event_bytes: int) -> None:
        self.events, self.event_bytes = events, event_bytes
        self.asked: list[int] = []

    @contextmanager
    def record(self, path: Path, entries: int) -> Iterator[None]:
        self.asked.append(entries)
        yield
        with path.open("wb") as file:
            file.truncate(min(entries, self.events) * self.event_bytes)


@pytest.mark.parametrize(
    ("events", "event_bytes", "asked", "kept"),
    [
        (100, 1_000, [20_000], Snapshot("run.pickle", None)),
        (10_000, 1_000, [20_000, 2_000], Snapshot("run.pickle", SNAPSHOT_CUT.format(2_000, 5))),
        (10_000, 10_000, [20_000, 2_000, 200], Snapshot("run.pickle", SNAPSHOT_CUT.format(200, 5))),
        (10_000, 100_000, [20_000, 2_000, 200], Snapshot(None, SNAPSHOT_TOO_LARGE.format(200, 5))),
    ],
    ids=["whole", "cut", "cut twice", "too large"],
)
def test_as_many_events_are_kept_as_fit(
    events: int, event_bytes: int, asked: list[int], kept: Snapshot, tmp_path: Path
) -> None:
    allocator, calls = Writing(events, event_bytes), []
    path = tmp_path / "traces" / "run.pickle"
    found = passes.keep_snapshot(lambda: calls.append(1), allocator, path, 5 * MB)
    assert (found, allocator.asked, len(calls)) == (kept, asked, len(asked))
    assert [file.name for file in path.parent.iterdir()] == ([path.name] if kept.snapshot else [])
    assert not kept.snapshot or path.stat().st_size <= 5 * MB


def test_without_room_nothing_is_recorded(tmp_path: Path) -> None:
    allocator = Writing(100, 1_000)
    assert passes.keep_snapshot(lambda: None, allocator, tmp_path / "a", 0) == Snapshot(
        None, NO_SNAPSHOT_ROOM
    )
    assert allocator.asked == []
    assert list(tmp_path.iterdir()) == []


def test_a_failed_call_leaves_no_partial_file(tmp_path: Path) -> None:
    class Failing(Writing):
        @contextmanager
        def record(self, path: Path, entries: int) -> Iterator[None]:
            path.write_bytes(b"x")
            yield

    def step() -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        passes.keep_snapshot(step, Failing(1, 1), tmp_path / "run.pickle", MB)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return replace(smoke(), memory=True, results_dir=str(tmp_path))


@pytest.mark.parametrize(
    ("traces_max_bytes", "kept"),
    [(5 * MB, Snapshot(f"{RUN_ID}.pickle", None)), (0, Snapshot(None, NO_SNAPSHOT_ROOM))],
    ids=["room", "no room"],
)
def test_a_row_names_its_snapshot_or_the_reason_for_none(
    traces_max_bytes: int, kept: Snapshot, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cpu, "allocator", Writing(100, 1_000))
    plan = replace(plan, traces_max_bytes=traces_max_bytes)
    found = runner.run(silent, case(model(linear), variant()), plan, RUN_ID).findings
    assert Snapshot(found.snapshot, found.snapshot_note) == kept
    assert found.memory_note is None
    folder = plan.study_folder / "traces"
    assert sorted(file.name for file in folder.glob("*")) == ([kept.snapshot] * bool(kept.snapshot))


def test_on_a_cpu_no_snapshot_is_attempted(plan: Plan) -> None:
    phases: list[str] = []

    def report(phase: str, keep: object = None) -> None:
        phases.append(phase)

    found = runner.run(report, case(model(linear), variant()), plan, RUN_ID).findings
    assert (found.snapshot, found.snapshot_note) == (None, None)
    assert "memory" in phases
    assert "snapshot" not in phases
    assert "snapshot" in [each.name for each in passes.PASSES]
