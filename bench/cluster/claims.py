"""Claims: which worker measures a task, under which run id.

A claim reserves the run id of the task's row. Rows are never overwritten, so whoever ends a claim,
its worker, that worker after a restart, or the driver in place of a lost worker, there is one row.
Claims are never removed. A claim that was given up has a second file, `<task>.<n>.released.json`;
the next claim of the task is number n + 1. All steps can be repeated by several drivers at once.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from modescope.bench.cluster.folder import Folder

RELEASED = ".released"


@dataclass(frozen=True)
class Claim:
    """A task that a worker measures or has measured."""

    task: str
    number: int  # 0 for the first claim of the task
    run_id: str
    worker: str
    restart: int  # of the worker
    since: str  # ISO 8601, UTC
    again: str | None  # why the earlier row of the case was not reused
    row: Any  # JSON: what the driver needs to write the row of a lost worker


@dataclass(frozen=True)
class Latest:
    """The last claim of a task."""

    number: int
    released: bool


def latest(folder: Folder) -> dict[str, Latest]:
    """The last claim of each task that was ever claimed."""
    numbers: dict[str, int] = {}
    released: set[tuple[str, int]] = set()
    for name in folder.names("claims"):
        task, number = name.removesuffix(RELEASED).rsplit(".", 1)
        if name.endswith(RELEASED):
            released.add((task, int(number)))
        else:
            numbers[task] = max(int(number), numbers.get(task, 0))
    return {task: Latest(number, (task, number) in released) for task, number in numbers.items()}


def open_claims(folder: Folder) -> list[tuple[str, int]]:
    """Tasks whose last claim was neither released nor ended, with its number."""
    done = folder.names("done")
    return [
        (task, last.number)
        for task, last in sorted(latest(folder).items())
        if not last.released and task not in done
    ]


def free(folder: Folder, names: list[str]) -> dict[str, int]:
    """Tasks that can be claimed, in the order of `names`, with the number of their next claim."""
    last, done = latest(folder), folder.names("done")
    free_numbers = {}
    for name in names:
        claim = last.get(name)
        if name not in done and (claim is None or claim.released):
            free_numbers[name] = claim.number + 1 if claim else 0
    return free_numbers


def run_ids(folder: Folder) -> set[str]:
    """The run ids of all tasks that are done or being measured."""
    done = {folder.done(task).run_id for task in folder.names("done")}
    return done | {read(folder, *one).run_id for one in open_claims(folder)}


def publish(folder: Folder, claim: Claim) -> bool:
    """Whether the claim was the first of its number."""
    return folder.create("claims", f"{claim.task}.{claim.number}", asdict(claim))


def read(folder: Folder, task: str, number: int) -> Claim:
    """A claim that exists."""
    return Claim(**folder.read("claims", f"{task}.{number}"))


def release(folder: Folder, claim: Claim) -> None:
    """Gives up a claim of a worker that has ended and will write no row."""
    folder.create("claims", f"{claim.task}.{claim.number}{RELEASED}", {})
