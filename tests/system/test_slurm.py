"""Sweeps on a real Slurm with two nodes on this machine's cores: no test compares durations."""

from __future__ import annotations

import os
import shlex
import signal
from pathlib import Path

from tests.helpers.commands import Started, rows, started, stored
from tests.helpers.processes import alive, parent, soon
from tests.helpers.slurm import NODES, Slurm
from tests.helpers.slurm_sweeps import (
    ONE_WORKER,
    SWEEP,
    await_claim,
    await_row,
    job_of,
)


def test_a_sweep_is_measured_on_both_nodes_and_reused_by_the_next(
    slurm: Slurm, results: Path
) -> None:
    answer = started(results, SWEEP).end()
    assert answer.status == 0, answer
    assert answer.out.startswith("12 cases on 8 workers of Slurm (partition main) → ")
    found = rows(results)
    assert [row["status"] for row in found] == ["ok"] * 12
    assert {row["node"] for row in found} == set(NODES)
    assert {row["scheduler"] for row in found} == {"slurm"}
    assert all(row["worker"] == f"slurm-{row['scheduler_job']}" for row in found)
    assert all(row["restart"] == 0 and row["queue_wait_s"] > 0 for row in found)
    assert answer.out.count("inference_mode") == 4  # the table
    assert soon(lambda: not slurm.queue(), within_s=20)

    again = started(results, SWEEP).end()
    assert again.status == 0, again
    assert "reusing 12 of 12 cases" in again.out
    assert len(rows(results)) == 12


def test_two_commands_at_once_measure_each_case_once(slurm: Slurm, results: Path) -> None:
    both = [started(results, SWEEP) for _ in range(2)]
    answers = [sweep.end() for sweep in both]
    assert [answer.status for answer in answers] == [0, 0], answers
    assert all(answer.out.count("inference_mode") == 4 for answer in answers)
    assert [row["status"] for row in rows(results)] == ["ok"] * 12
    assert stored(results) == 12


def worker_of(sweep: Started) -> int:
    """The process of its one worker: what srun has started by Slurm's own process."""
    of_jobs = set(alive(sweep.sign)) & set(alive("submitit.core._submit"))
    (number,) = (number for number in of_jobs if parent(number) in alive("slurmstepd"))
    return number


def test_of_a_killed_worker_there_is_a_row_and_others_measure_the_rest(
    slurm: Slurm, results: Path
) -> None:
    sweep = started(results, ONE_WORKER)
    jobs = await_row(results, sweep)
    worker = worker_of(sweep)
    while True:
        claim = await_claim(jobs)
        os.kill(worker, signal.SIGSTOP)
        if not (results / "main" / "rows" / f"{claim.run_id}.parquet").exists():
            break
        os.kill(worker, signal.SIGCONT)
    children = [number for number in alive(sweep.sign) if parent(number) == worker]
    assert children
    os.kill(worker, signal.SIGKILL)
    answer = sweep.end()
    assert answer.status == 1, answer
    assert "Traceback" not in answer.err
    found = {row["run_id"]: row for row in rows(results)}
    assert sorted(row["status"] for row in found.values()) == ["crashed", "ok", "ok", "ok"]
    lost = found[claim.run_id]
    assert lost["status"] == "crashed"
    assert "was lost: Slurm: FAILED" in lost["reason"]
    assert lost["node"] in NODES
    assert lost["worker"] == claim.worker
    assert len({row["replicate"] for row in found.values()}) == 4
    assert soon(lambda: not alive(sweep.sign), within_s=20)


def test_a_worker_that_is_told_to_make_room_continues_its_case_after_a_restart(
    slurm: Slurm, results: Path
) -> None:
    sweep = started(results, ONE_WORKER)
    claim = await_claim(await_row(results, sweep))
    slurm.ask("scancel", "--signal=USR2", job_of(claim))
    slurm.start_requeued(job_of(claim))
    answer = sweep.end()
    assert answer.status == 0, answer
    found = {row["run_id"]: row for row in rows(results)}
    assert [row["status"] for row in found.values()] == ["ok"] * 4
    assert {row["scheduler_job"] for row in found.values()} == {job_of(claim)}
    assert {row["restart"] for row in found.values()} == {0, 1}
    assert claim.run_id in found
    waits = {row["restart"]: row["queue_wait_s"] for row in found.values()}
    assert waits[0] > 0
    assert waits[1] is None


def test_ctrl_c_detaches_and_the_same_command_attaches(slurm: Slurm, results: Path) -> None:
    sweep = started(results, ONE_WORKER)
    jobs = await_row(results, sweep)
    os.killpg(sweep.process.pid, signal.SIGINT)  # as a terminal does
    answer = sweep.end()
    assert answer.status == 130, answer
    assert "Traceback" not in answer.err
    (job,) = {claim.worker for claim in [await_claim(jobs)]}
    (line,) = (line for line in answer.out.splitlines() if "; scancel " in line)
    assert line == (
        f"the workers go on; scancel {job.removeprefix('slurm-')} ends them, and the same command "
        "attaches again"
    )
    attached = started(results, ONE_WORKER).end()
    assert attached.status == 0, attached
    assert [row["status"] for row in rows(results)] == ["ok"] * 4
    assert {row["worker"] for row in rows(results)} == {job}


def test_after_the_scancel_that_was_printed_the_same_command_measures_the_rest(
    slurm: Slurm, results: Path
) -> None:
    sweep = started(results, ONE_WORKER)
    await_row(results, sweep)
    os.killpg(sweep.process.pid, signal.SIGINT)
    (line,) = (line for line in sweep.end().out.splitlines() if "; scancel " in line)
    slurm.ask(*shlex.split(line.partition("; ")[2].partition(" ends them")[0]))
    assert soon(lambda: not slurm.queue(), within_s=20)
    before = stored(results)
    assert before < 4
    answer = started(results, ONE_WORKER).end()
    assert answer.status == 0, answer
    assert [row["status"] for row in rows(results)] == ["ok"] * 4
    assert len({row["worker"] for row in rows(results)}) == 2
