"""The driver of a sweep: submits workers, shows progress, and ends the claims of lost workers.

Several drivers may serve one folder. One submits, all of them see the results.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import suppress
from typing import Any

from modescope.bench.cluster import lost, members, states, submissions
from modescope.bench.cluster.engine import Engine
from modescope.bench.cluster.folder import Done, Folder
from modescope.bench.cluster.members import GONE, PENDING, RUNNING, Member, State
from modescope.bench.cluster.submissions import Submissions
from modescope.bench.cluster.work import Work, work_of
from modescope.bench.records.errors import UsageError
from modescope.bench.sweep.progress_bar import progress_bar
from modescope.bench.sweep.sweep import Incomplete

POLL_FIRST_S, POLL_LAST_S = 0.2, 5.0


class Driver:
    """Follows one folder until all its tasks are done."""

    def __init__(self, folder: Folder, engine: Engine, workers: int) -> None:
        self._folder, self._engine, self._workers = folder, engine, workers
        self._sweep = folder.sweep()
        self._work: Work = work_of(self._sweep)
        self._done: dict[str, Done] = {}
        self._lost = 0
        self._done_at_submission: int | None = None
        self._states: dict[str, State] = {}
        self._said: set[str] = set()
        self._earlier: set[str] = set()  # workers before the last submission
        self._asked = -1e9
        self._submissions = Submissions(folder)
        known = members.every(folder)
        self._failed = {name for name, member in known.items() if member.failed}  # earlier

    def finished(self) -> Iterator[str]:
        """Run ids, each once its row is on disk; raises Incomplete where tasks are left."""
        try:
            yield from self._finished()
        except KeyboardInterrupt:
            if self._engine.detaches and self._jobs():
                print(
                    f"the workers go on; {self._engine.how_to_end(self._jobs())} ends them, and "
                    "the same command attaches again",
                    flush=True,
                )
            raise
        finally:
            if not self._engine.detaches:
                with suppress(OSError):  # a full disk: the next driver does what is left
                    self._engine.end(self._jobs())
                    self._asked = -1e9
                    self._end_claims()

    def _finished(self) -> Iterator[str]:
        total, pause, said = len(self._sweep.tasks), POLL_FIRST_S, False
        with progress_bar(total, "case") as bar:
            while True:
                new = self._news()
                said = said or self._say_reuse(new, total)
                for done in new.values():
                    yield done.run_id
                bar.update(len(new))
                if len(self._done) == total:
                    break
                self._end_claims()
                counts = Counter(state.kind for state in self._states.values())
                bar.set_postfix(
                    running=counts[RUNNING], pending=counts[PENDING], lost=self._lost, refresh=True
                )
                if not (counts[RUNNING] or counts[PENDING]) and not self._news_waiting():
                    self._submit()
                elif not counts[RUNNING]:
                    self._say_why_pending()
                pause = POLL_FIRST_S if new else min(POLL_LAST_S, 1.3 * pause)
                time.sleep(pause)
        self._folder.clear()
        again = Counter(done.again for done in self._done.values() if done.again)
        for why, count in again.most_common():
            print(f"measured {count} again: {why}")
        if self._engine.detaches:
            self._engine.end(self._jobs())  # workers that are still in the queue

    def _news(self) -> dict[str, Done]:
        """Tasks that were done since the last call."""
        names = sorted(self._folder.names("done") - self._done.keys())
        new = {task: self._folder.done(task) for task in names}
        self._done |= new
        return new

    def _news_waiting(self) -> bool:
        return len(self._folder.names("done")) > len(self._done)

    def _say_reuse(self, new: dict[str, Done], total: int) -> bool:
        """Says what is reused, once a worker has measured something or all is done."""
        if len(self._done) < total and all(done.reused for done in new.values()):
            return False
        reused = sum(done.reused for done in self._done.values())
        if reused:
            print(f"reusing {reused} of {total} cases; resume=false measures them again")
        return True

    def _say_why_pending(self) -> None:
        """Once for each unusual reason for which workers wait."""
        reasons = Counter(
            state.reason
            for state in self._states.values()
            if state.kind == PENDING and state.reason
        )
        for reason, count in reasons.items():
            if reason not in self._said:
                workers = "1 worker waits" if count == 1 else f"{count} workers wait"
                how = self._engine.how_to_end(self._jobs())
                print(f"{workers} in the queue, {reason}; {how} ends them", flush=True)
                self._said.add(reason)

    def _say_failed(self, known: dict[str, Member]) -> None:
        """Once for each worker that has ended by an error; others may go on in its place."""
        for name, member in known.items():
            if member.failed and name not in self._failed:
                print(f"worker {name} ended: {member.failed}", flush=True)
                self._failed.add(name)

    def _jobs(self) -> dict[str, Any]:
        return submissions.jobs(self._folder)

    def _end_claims(self) -> None:
        """Learns the states of all workers, and ends the claims of those that are gone."""
        self._learn()
        self._say_failed(members.every(self._folder))
        self._lost += lost.end_claims(self._folder, self._work, self._states)

    def _learn(self) -> None:
        """Brings the states of workers and of submitted jobs up to date."""
        if time.monotonic() - self._asked < self._engine.pause_s:
            return
        self._asked = time.monotonic()
        self._states = states.learn(self._folder, self._engine, self._submissions)
        living = {*states.living(self._states)} - {states.SUBMITTING}
        # workers that end with another command say nothing of those that this one would start
        if self._done_at_submission is None and living and self._engine.detaches:
            self._begin(self._states.keys() - living)

    def _begin(self, earlier: Iterable[str]) -> None:
        """Notes what is done, and which workers are gone, as others begin."""
        self._done_at_submission, self._earlier = len(self._done), set(earlier)

    def _submit(self) -> None:
        """Submits workers, first ones or replacements; Incomplete where that would lead nowhere."""
        if self._folder.is_closed():
            raise Incomplete("another command has taken this sweep over; the same command attaches")
        left = [task for task in self._sweep.names if task not in self._done]
        if self._done_at_submission is not None and (ended := self._why_not(left)):
            raise ended
        try:
            if self._submissions.submit(self._engine, min(self._workers, len(left))):
                self._begin(self._states)
        except UsageError as error:
            raise Incomplete(str(error), refused=not self._done) from error
        self._asked = -1e9

    def _why_not(self, left: list[str]) -> Incomplete | None:
        """Why workers that have all ended are not replaced; None where they are."""
        known = members.every(self._folder)
        gone = {
            name: state
            for name, state in self._states.items()
            if name not in self._earlier and state.kind == GONE
        }
        found = self._folder.problems()
        problems = _of_all(found, left, gone.keys() & known.keys())
        said_by_engine = [state.reason for state in gone.values() if state.reason]
        cancelled = [reason for reason in said_by_engine if "CANCELLED" in reason]
        progress = len(self._done) > (self._done_at_submission or 0)
        if progress and not cancelled and len(problems) < len(left):
            return None
        if problems and len(problems) == len(left):
            return Incomplete("\n".join(dict.fromkeys(problems.values())), not self._done)
        lacks = {name: why for task in left for name, why in found.get(task, {}).items()}
        whys = [lacks.get(n) or lost.why_gone(known.get(n), state) for n, state in gone.items()]
        reasons = Counter(cancelled or filter(None, whys))
        said = [*problems.values(), *(reason for reason, _ in reasons.most_common(1))]
        why = said[0] if said else "their workers have ended"
        cases = "1 case was" if len(left) == 1 else f"{len(left)} cases were"
        logs = self._engine.logs(self._folder)
        return Incomplete(
            f"{cases} not measured: {why}; output is in {logs}; the same command continues"
        )


def _of_all(
    problems: Mapping[str, Mapping[str, str]], left: Iterable[str], workers: Set[str]
) -> dict[str, str]:
    """Why none of the workers can measure a task, for those tasks of which all of them say so."""
    return {
        task: next(iter(problems[task].values()))
        for task in left
        if workers and task in problems and problems[task].keys() >= workers
    }
