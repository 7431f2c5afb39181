"""Drives the steps: each within its time, all within the budget, going on where it stopped."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests.gpu import keep, pretending, proof
from tests.gpu.log import STOPPED, Line, Log
from tests.gpu.running import CRASHED, FAILED, GRACE_S, TIMEOUT, guarded, run
from tests.gpu.steps import RESERVE_S, Step
from tests.helpers.paths import ROOT

BAD = (FAILED, CRASHED, TIMEOUT)
AGAIN_S = 15.0  # a step that ran out of time goes on if at least so much is left
SHORTEST_S = 2.0  # no step is started for less


@dataclass(frozen=True)
class Setting:
    """Where to, and for how long. The budget is for all calls, `call_s` for this one."""

    folder: Path
    budget_s: float
    call_s: float
    pretended: bool = False
    out: Path | None = None  # also packed into an archive there
    reserve_s: float = RESERVE_S

    def variables(self) -> dict[str, str]:
        """The environment of the steps."""
        found = {**os.environ, "PYTHONUNBUFFERED": "1"}
        return found | (pretending.variables() if self.pretended else {})


class Drive:
    """One call: runs what has not ended, in order, and writes the page after each step."""

    def __init__(self, steps: Sequence[Step], setting: Setting, log: Log) -> None:
        self.steps, self.setting, self.log = steps, setting, log
        self.reasons: dict[str, str] = {}
        self.mark = uuid.uuid4().hex
        self.commit = _commit()
        self.spent_before_s = log.spent_s()
        self.begin = time.monotonic()

    def run(self) -> int:
        """Returns 0 if no step failed, crashed or ran out of time, else 1; 130 after Ctrl-C."""
        with guarded(self.mark):
            try:
                if self._go_through([step for step in self.steps if not step.last]):
                    self._go_on()
                for step in self.steps:
                    if step.last:
                        left_s = max(SHORTEST_S, min(self._left_s(0.0)))
                        self._run(step, min(step.limit(self.setting.pretended), left_s))
            except KeyboardInterrupt:
                self._write()
                print("stopped; the same command goes on")
                return 130
        self._write()
        bad = {line.verdict for line in self.log.last().values()} & {*BAD}
        return 1 if bad else 0

    def _left_s(self, reserve_s: float) -> tuple[float, float]:
        """Seconds for a step, its grace included: of this call, and of the budget."""
        spent_s = time.monotonic() - self.begin
        kept_s = reserve_s + GRACE_S
        call_s = self.setting.call_s - spent_s - kept_s
        return call_s, self.setting.budget_s - self.spent_before_s - spent_s - kept_s

    def _go_through(self, steps: Sequence[Step]) -> bool:
        """Runs what fits; returns whether no step waits for the next call."""
        ended = self.log.ended()
        for place, step in enumerate(steps):
            if step.name in ended:
                continue
            limit_s = step.limit(self.setting.pretended)
            # what a step takes in small is not known
            needed_s = SHORTEST_S if self.setting.pretended else step.expected_s or SHORTEST_S
            call_s, budget_s = self._left_s(self.setting.reserve_s)
            if max(needed_s, SHORTEST_S) > budget_s:
                self.reasons[step.name] = (
                    f"budget: takes about {needed_s:.0f} s, and {max(budget_s, 0):.0f} s are left"
                )
                continue
            if max(needed_s, SHORTEST_S) > call_s:
                for later in steps[place:]:
                    self.reasons.setdefault(later.name, "the next call goes on here")
                return False
            self._run(step, min(limit_s, call_s, budget_s))
        return True

    def _go_on(self) -> None:
        """Steps that ran out of time and repeat nothing get what is left."""
        for step in self.steps:
            left_s = min(self._left_s(self.setting.reserve_s))
            line = self.log.last().get(step.name)
            if step.goes_on and line and line.verdict == TIMEOUT and left_s >= AGAIN_S:
                self._run(step, min(step.limit(self.setting.pretended), left_s), again=True)

    def _run(self, step: Step, limit_s: float, again: bool = False) -> None:
        print(f"{step.number}  {step.name}, at most {limit_s:.0f} s …", end=" ", flush=True)
        folder, output = self.setting.folder, self.setting.folder / "output" / f"{step.name}.txt"
        command = [sys.executable, *step.command(str(folder), self.setting.pretended)]
        begin = time.monotonic()
        try:
            ended = run(command, output, limit_s, self.setting.variables(), self.mark)
        except KeyboardInterrupt:
            self._note(step, STOPPED, time.monotonic() - begin, "stopped by hand")
            raise
        is_cut = ended.verdict == TIMEOUT and limit_s < step.limit(self.setting.pretended)
        verdict = STOPPED if is_cut and not again and not step.last else ended.verdict
        self._note(step, verdict, ended.seconds, ended.said)
        print(f"{verdict}, {ended.seconds:.1f} s: {ended.said}", flush=True)
        self._write()

    def _note(self, step: Step, verdict: str, seconds: float, said: str) -> None:
        at = datetime.now(UTC).isoformat(timespec="seconds")
        self.log.add(Line(step.name, verdict, round(seconds, 2), said, self.commit, at))

    def _write(self) -> None:
        folder = self.setting.folder
        keep.prune(folder)
        proof.write(folder, self.steps, self.log, self.reasons)
        if self.setting.out:
            keep.pack(folder, self.setting.out)


def _commit() -> str | None:
    """The commit of the checkout, with a mark if files differ; None without git."""
    words = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
