"""Replays demands in real processes: which rung of caches takes least time, and is it the one told?

`python -m tests.replay_starts STUDY [NUMBER ...]` takes a study of `experiment=coldstart` with the
models of DEMANDS. For each demand every rung is filled and starts a process, with its first call
and the demanded calls; those that may still be least start three, then ten. The time of a rung is
that of the process that fills it and of its processes, scaled to the demanded starts. Beside it
stands what `python -m analysis.table STUDY --calls N --starts N` recommends. Exit status 1 if a
demand is told another rung than the least, and the two differ by more than the spread of starts.
"""

from __future__ import annotations

import math
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from modescope.analysis import load
from modescope.analysis.derive.select import latest
from modescope.analysis.metrics import derive
from modescope.analysis.recommend.constraints import Wishes
from modescope.analysis.recommend.decide import recommend
from modescope.bench.command_line import collect
from modescope.bench.sweep import prepare, starts
from modescope.bench.sweep.prepare import Job

MOST = 10  # processes of a rung
NEAR = {1: 2.0, 3: 1.3}
"""Processes of a rung, and how much longer than the least it may take to be started again."""

SWEEP = ("-m", "mode=eager,compile,aoti", "compile_cache=cold,warm,shipped,precompiled,aot")


@dataclass(frozen=True)
class Demand:
    """So many processes start per filled cache, and each makes so many calls of a model."""

    model: str
    calls: int
    starts: int


DEMANDS = (
    Demand("mlp", 10_000, 20),
    Demand("mlp", 100, 3),
    Demand("mlp", 1_000, 200),
    Demand("transformer", 2_000, 20),
    Demand("transformer", 1_000, 2),
)


@dataclass
class Replayed:
    """The processes of one rung."""

    name: str
    rung: starts.Rung
    fill_s: float
    processes_s: list[float] = field(default_factory=list)

    def total_s(self, demand: Demand) -> float:
        """The time of the demand, from the mean of the processes."""
        return self.fill_s + demand.starts * statistics.fmean(self.processes_s)

    def spread_s(self, demand: Demand) -> float:
        """The standard error of `total_s`."""
        if len(self.processes_s) < 2:
            return 0.0
        error_s = statistics.stdev(self.processes_s) / math.sqrt(len(self.processes_s))
        return demand.starts * error_s

    def start(self, calls: int) -> None:
        """Starts one more process; raises RuntimeError if it fails."""
        timed = self.rung.start(calls)
        if timed.start.failure:
            raise RuntimeError(f"{self.name}: {timed.start.failure}")
        self.processes_s.append(timed.until_result_s + timed.start.calls_s)


def replay(demand: Demand, folder: Path) -> list[Replayed]:
    """Returns the rungs of a demand, the one that takes least time first."""
    words = (*SWEEP, f"model={demand.model}", f"results_dir={folder}", "starts=1")
    jobs = [job for job in prepare.prepare(collect(words)) if not job.refusal]
    with ExitStack() as stack:
        rungs = [_open(stack, job, folder) for job in jobs]
        left = rungs
        for number in range(MOST):
            if near := NEAR.get(number):
                least_s = min(shown.total_s(demand) for shown in left)
                left = [shown for shown in left if shown.total_s(demand) < near * least_s]
            for shown in left:  # they take turns
                shown.start(demand.calls)
    return sorted(rungs, key=lambda shown: shown.total_s(demand))


def _open(stack: ExitStack, job: Job, folder: Path) -> Replayed:
    log = folder / "replay.log"
    rung = stack.enter_context(starts.opened(job.case, job.plan, log))
    name = _name(job.case.variant.mode.name, job.plan.compile_cache)
    if not rung.needs_filling:
        return Replayed(name, rung, 0.0)
    filled = rung.fill()
    if filled.start.failure:
        raise RuntimeError(f"{name}: {filled.start.failure}")
    return Replayed(name, rung, filled.ended_s)


def _name(mode: str, cache: str) -> str:
    return mode if cache == "cold" else f"{mode} {cache}"


def told(study: Path, demand: Demand) -> str:
    """Returns the rung that is recommended for a demand; `undecided` if none is."""
    table = derive(latest(load.read(str(study)).table))
    table = table[table["model"] == demand.model]
    (answer,) = recommend(table, Wishes(calls=demand.calls, starts=demand.starts))
    if answer.choice is None:
        return "undecided"
    row = answer.choice.row
    return _name(row["mode"], row["compile_cache"])


def main(study: str, *numbers: str) -> int:
    """Replays the demands with these numbers (from 1), or all; returns the exit status."""
    chosen = [DEMANDS[int(number) - 1] for number in numbers] or DEMANDS
    wrong = 0
    for demand in chosen:
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            rungs = replay(demand, Path(folder))
        advice, best = told(Path(study), demand), rungs[0]
        mine = next((shown for shown in rungs if shown.name == advice), None)
        gap_s = (mine.total_s(demand) - best.total_s(demand)) if mine else math.inf
        within = mine is not None and gap_s <= 2 * math.hypot(
            mine.spread_s(demand), best.spread_s(demand)
        )
        wrong += not within
        print(
            f"{demand}: least {best.name}, told {advice}: {'right' if within else 'WRONG'}",
            flush=True,
        )
        for shown in rungs:
            each_s, count = statistics.fmean(shown.processes_s), len(shown.processes_s)
            print(f"  {shown.name:20} {shown.total_s(demand):8.1f} s", end="  ")
            print(f"(filled in {shown.fill_s:.1f} s, {count} processes of {each_s:.2f} s)")
        print(f"  replayed in {time.monotonic() - begin:.0f} s", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
