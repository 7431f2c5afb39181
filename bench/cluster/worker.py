"""A worker: takes the tasks of a sweep one after another, beside others on any machine."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime

from modescope.bench.cluster import broken, claims, locks, members
from modescope.bench.cluster.claims import Claim
from modescope.bench.cluster.deadline import Deadline
from modescope.bench.cluster.folder import Done, Folder, Sweep
from modescope.bench.cluster.members import Member
from modescope.bench.cluster.work import Work

LOCKED_S = 0.2
"""Between two attempts to get a lock that another process on the machine holds."""

RESTARTS_MAX = 3
"""A task during which the worker was restarted more often is given up."""

SENTINEL_WAIT_S = 60.0
"""Longest wait for the locks of the sentinel; beside other workers they may never be free."""


NO_TIME, TAKEN_FOR_LOST = "no time left for another case", "a command took it for lost"
"""Why a worker leaves while tasks are left."""


class Worker:
    """Measures tasks of one sweep."""

    def __init__(
        self, folder: Folder, sweep: Sweep, member: Member, work: Work, deadline: Deadline
    ) -> None:
        self._folder, self._sweep, self._member = folder, sweep, member
        self._work, self._deadline = work, deadline
        self._position = 0
        self._statuses: list[str] = []  # of the tasks that it has measured
        self._is_lost = False  # a driver has ended a claim of this worker in its place
        self._order = [name for name in sweep.names if name not in work.problems]
        if sweep.order == "random":
            # differs between workers, so that a difference between nodes becomes none of modes
            random.Random(f"{sweep.seed} {folder.path.name} {member.name}").shuffle(self._order)

    def run(self) -> str:
        """Continues what it had begun, takes over earlier rows, then measures what is left.

        Returns why it leaves.
        """
        self._folder.forget_problems(self._member.name)
        for task, problem in self._work.problems.items():
            self._folder.create("problems", f"{task}.{self._member.name}", {"text": problem})
        self._continue()
        self._reuse()
        has_sentinel = self._calibrate()
        while self._has_time() and not self._is_lost:
            numbers = claims.free(self._folder, self._order)
            if not numbers:
                return members.FINISHED
            if (found := self._lockable(list(numbers))) is None:
                locks.wait(self._work.locks(next(iter(numbers))), LOCKED_S)
                continue
            task, held = found
            with held:
                run_id = self._work.new_run_id()
                if claims.publish(self._folder, self._claim(task, numbers[task], run_id)):
                    self._measure(task, run_id, self._work.again.get(task))
            if has_sentinel is False:
                broken.check(self._folder, self._member, self._statuses)
            if locks.is_awaited(self._work.locks(task)):
                time.sleep(2 * LOCKED_S)
        return TAKEN_FOR_LOST if self._is_lost else NO_TIME

    def _continue(self) -> None:
        """Measures what this job was measuring when it was restarted, under the same run id."""
        for task, number in claims.open_claims(self._folder):
            claim = claims.read(self._folder, task, number)
            if claim.worker != self._member.name or claim.restart >= self._member.restart:
                continue
            if self._work.exists(claim.run_id):
                self._folder.mark_done(task, Done(claim.run_id, again=claim.again))
            elif self._member.restart - claim.restart > RESTARTS_MAX:
                reason = f"its worker was restarted {RESTARTS_MAX} times while it was measured"
                self._work.write_lost(claim, reason)
                self._folder.mark_done(task, Done(claim.run_id, again=claim.again))
            elif task in self._order:
                with self._locked(task):
                    self._measure(task, claim.run_id, claim.again)
                self._is_lost = False  # the row may be that of its process before the restart

    def _reuse(self) -> None:
        """Ends the tasks that have an earlier row, before anything is measured."""
        numbers = claims.free(self._folder, self._order)
        found = {task: n for task, n in numbers.items() if task in self._work.reusable}
        taken = claims.run_ids(self._folder) if found else set()  # of tasks with equal cases
        for task, number in found.items():
            run_id = self._work.reusable[task]
            claim = self._claim(task, number, run_id, row=False)
            if run_id not in taken and claims.publish(self._folder, claim):
                self._folder.mark_done(task, Done(run_id, reused=True))

    def _calibrate(self) -> bool | None:
        """Before the first task, on the device of the sweep's first one.

        Whether the sentinel could be measured; None where it was left out, as a task needs the time
        that is left, or others hold its locks.
        """
        first = self._sweep.names[0]
        if first not in self._order or not claims.free(self._folder, self._order):
            return None
        if not self._has_time(tasks=2):
            return None
        waited_from = time.monotonic()
        while (found := self._lockable([first])) is None:
            if time.monotonic() - waited_from > SENTINEL_WAIT_S or not self._has_time(tasks=2):
                return None
            locks.wait(self._work.locks(first), LOCKED_S)
        with found[1]:
            measured = self._work.calibrate()
        members.update(self._folder, self._member, sentinel=measured)
        return measured

    def _has_time(self, tasks: int = 1) -> bool:
        return self._deadline.leaves(tasks * self._sweep.timeout_s)

    def _locked(self, task: str) -> ExitStack:
        """Waits for the locks of a task."""
        while (found := self._lockable([task])) is None:
            locks.wait(self._work.locks(task), LOCKED_S)
        return found[1]

    def _lockable(self, tasks: Sequence[str]) -> tuple[str, ExitStack] | None:
        """The first task whose locks no other process holds, with its locks held."""
        tried: set[locks.Locks] = set()
        for task in tasks:
            names = self._work.locks(task)
            if names not in tried and (held := locks.attempt(names)):
                return task, held
            tried.add(names)
        return None

    def _claim(self, task: str, number: int, run_id: str, row: bool = True) -> Claim:
        return Claim(
            task,
            number,
            run_id,
            self._member.name,
            self._member.restart,
            datetime.now(UTC).isoformat(timespec="milliseconds"),
            self._work.again.get(task),
            self._work.row(task, run_id, self._position) if row else None,
        )

    def _measure(self, task: str, run_id: str, again: str | None) -> None:
        try:
            self._statuses.append(self._work.measure(task, run_id, self._position))
        except FileExistsError:  # its row was written by a driver that took this worker for lost
            print(f"{run_id}  this worker was taken for lost; others take its place", flush=True)
            self._is_lost = True  # else each further case that it begins would be lost, too
        self._position += 1
        self._folder.mark_done(task, Done(run_id, again=again))
