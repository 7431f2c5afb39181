"""Which node is called slower where what slows a worker's job slows all its processes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from modescope.analysis.nodes.against_others import (
    SLOWER,
    Difference,
    differences,
    judged,
    spread_between,
)
from modescope.analysis.nodes.levels import Readings, levels

STUDIES = 400
SPREAD = 0.01  # between processes
JOB_EFFECTS = (0.0, 0.005, 0.01, 0.02)  # standard deviations between jobs on one node


@dataclass(frozen=True)
class Queue:
    """Simulated sweeps: each worker measures random works, after a sentinel that all measure."""

    nodes: int
    workers: int | None  # on each node; None: one to four
    job: float  # standard deviation between jobs on one node
    slow: float = 0.0  # of the first node
    works: int = 10
    processes: int = 12  # of each worker

    def study(self, source: np.random.Generator) -> list[Difference]:
        """A difference for each node."""
        readings, worker = self.readings(source)
        return judged(readings, levels(readings, worker))

    def readings(self, source: np.random.Generator) -> tuple[Readings, np.ndarray]:
        """The readings, and the worker of each."""
        few = source.integers(1, 5, self.nodes) if self.workers is None else self.workers
        node_of = np.repeat(np.arange(self.nodes), few)
        count = len(node_of)
        worker = np.append(np.repeat(np.arange(count), self.processes), np.arange(count))
        work = source.integers(0, self.works, len(worker))
        work[-count:] = self.works
        level = np.where(node_of == 0, np.log1p(self.slow), 0) + source.normal(0, self.job, count)
        of_work = source.normal(-9, 2, self.works + 1)
        noise = source.normal(0, SPREAD, len(worker))
        return Readings(node_of[worker], work, of_work[work] + level[worker] + noise), worker

    def named(self, surely: bool = True) -> list[list[int]]:
        """The nodes called slower, for each of STUDIES; `surely`: without a reservation."""
        source = np.random.default_rng(self.nodes)
        return [
            [
                node
                for node, one in enumerate(self.study(source))
                if one.verdict == SLOWER and one.by_workers >= surely
            ]
            for _ in range(STUDIES)
        ]


@pytest.mark.parametrize(
    "job",
    [*(pytest.param(each, marks=pytest.mark.full) for each in JOB_EFFECTS[:-1]), JOB_EFFECTS[-1]],
)
@pytest.mark.parametrize(
    "workers", [3, *(pytest.param(each, marks=pytest.mark.full) for each in (1, 6, None))]
)
@pytest.mark.parametrize("nodes", [pytest.param(2, marks=pytest.mark.full), 8])
def test_of_equal_nodes_at_most_5_percent_of_studies_name_one(
    nodes: int, workers: int | None, job: float
) -> None:
    named = Queue(nodes, workers, job).named()
    assert sum(map(bool, named)) / STUDIES <= 0.05


@pytest.mark.full
def test_processes_of_one_worker_each_would_name_an_equal_node() -> None:
    """What the reservation is for: jobs on equal nodes do differ."""
    queue = Queue(8, 1, 0.02)
    assert sum(map(bool, queue.named(surely=False))) / STUDIES > 0.5
    assert not any(queue.named())


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.full), 3])
def test_a_node_that_is_5_percent_slow_is_found(workers: int) -> None:
    """From one worker only with the reservation."""
    named = Queue(8, workers, 0.005, slow=0.05).named(surely=workers > 1)
    assert sum(0 in each for each in named) / STUDIES >= 0.9


@pytest.mark.full
@pytest.mark.parametrize(("workers", "job", "share"), [(3, 0.01, 0.85), (6, 0.02, 0.7)])
def test_several_workers_find_it_among_jobs_that_differ(
    workers: int, job: float, share: float
) -> None:
    named = Queue(8, workers, job, slow=0.05).named()
    assert sum(0 in each for each in named) / STUDIES >= share
    assert sum(each not in ([], [0]) for each in named) / STUDIES <= 0.05


def test_workers_count_and_not_their_processes() -> None:
    found = Queue(3, 4, 0.01).study(np.random.default_rng(1))
    assert [(one.workers, one.by_workers, one.readings) for one in found] == [(4, True, 52)] * 3
    found = Queue(3, 2, 0.01).study(np.random.default_rng(1))
    assert [(one.workers, one.by_workers, one.readings) for one in found] == [(2, False, 26)] * 3


def test_levels_are_exact_where_workers_measured_other_works() -> None:
    """Two groups of workers that no work links are sets of their own."""
    worker = np.array([0, 0, 1, 1, 2, 2, 3, 4])
    work = np.array([0, 1, 1, 2, 2, 3, 4, 4])
    level = np.array([0.0, 0.02, -0.03, 0.1, 0.3])
    logs = np.array([-9.0, 3, 0, 5, 2])[work] + level[worker]
    found = levels(Readings(worker, work, logs), worker)
    assert found.places.tolist() == [0, 1, 2, 3, 4]
    assert found.works.tolist() == [0, 0, 0, 1, 1]
    assert np.diff(found.logs[:3]) == pytest.approx(np.diff(level[:3]))
    assert np.diff(found.logs[3:]) == pytest.approx(np.diff(level[3:]))


def test_with_a_worker_for_each_process_nothing_changes() -> None:
    readings, _ = Queue(4, 1, 0.0, slow=0.05).readings(np.random.default_rng(2))
    each = levels(readings, np.arange(len(readings.logs)))
    for one, other in zip(differences(readings), differences(each), strict=True):
        assert (one.verdict, one.readings) == (other.verdict, other.readings)
        assert [other.low, other.high] == pytest.approx([one.low, one.high])


def test_between_nodes_is_not_what_differs_between_jobs() -> None:
    source = np.random.default_rng(9)
    of_processes, of_workers = [], []
    for _ in range(100):
        readings, worker = Queue(8, 3, 0.02).readings(source)
        of_processes.append(spread_between(readings))
        of_workers.append(spread_between(levels(readings, worker)))
    assert np.median(of_processes) > 0.009
    assert np.median(of_workers) < 0.005
