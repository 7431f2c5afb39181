"""Measures what is missing of two sides, in turns.

The two processes of a case in one block are a pair: only as a pair are they reused, as rows that
were measured at different times did not take turns. An interruption loses one process at most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from modescope.bench.records.environment import place as place_of
from modescope.bench.records.errors import UsageError
from modescope.bench.sweep.attempt import Place
from modescope.bench.sweep.fingerprint import untested
from modescope.bench.sweep.progress_bar import advance, describe, progress_bar
from modescope.bench.sweep.resume import Reuse
from modescope.bench.versus.processes import Process
from modescope.bench.versus.schedule import SIDES, Turn, turns
from modescope.bench.versus.states import State
from modescope.bench.versus.worker import Prepared


@dataclass(frozen=True)
class Sitting:
    """What one command measures: turns by their position, and the block of each replicate."""

    turns: Mapping[int, Turn]
    blocks: Mapping[int, int]  # by replicate: its number in the records
    order: str  # random | given


def of_state(prepared: Prepared, state: State) -> Prepared:
    """What a side will measure, without reuse of rows that a versus measured of another state."""
    reuses = tuple(_of_state(reuse, state) for reuse in prepared.found.reuses)
    return replace(prepared, found=replace(prepared.found, reuses=reuses))


def _of_state(reuse: Reuse, state: State) -> Reuse:
    if reuse.versus_block is None or state.is_recorded_as(reuse.versus_state):
        return reuse
    was = f"was {reuse.versus_state}" if reuse.versus_state else "of the earlier row is unknown"
    return Reuse(None, f"the state {was}")


def planned(old: Prepared, new: Prepared, order: str) -> Sitting:
    """The turns of all pairs that cannot be reused; blocks are numbered after those of the studies.

    Raises UsageError if the sides would not measure the same cases.
    """
    _check_cases(old, new)
    plans = [job.plan for job in old.jobs]
    replicates = [plan.replicate for plan in plans]
    cases = [job.case.case_id for job in old.jobs]
    every = turns(cases, replicates, plans[0].seed, order == "random")
    kept = [is_kept(*reuses) for reuses in _reuses(old, new)]
    missing = {place: turn for place, turn in enumerate(every) if not kept[turn.job]}
    last = [side.found.last_block for side in (old, new) if side.found.last_block is not None]
    first = max(last, default=-1) + 1
    numbers = sorted({replicates[turn.job] for turn in missing.values()})
    return Sitting(missing, {each: first + n for n, each in enumerate(numbers)}, order)


def is_kept(old: Reuse, new: Reuse) -> bool:
    """Whether the rows of a pair are reused: both can be, and they took turns."""
    both = old.run_id is not None and new.run_id is not None
    return both and old.versus_block is not None and old.versus_block == new.versus_block


def measured(
    sitting: Sitting, processes: Mapping[str, Process], prepared: Mapping[str, Prepared]
) -> Iterator[str]:
    """Measures each turn; yields run ids once their rows are on disk. Shows a bar on stderr."""
    with progress_bar(len(sitting.turns), "process") as bar:
        for number, (position, turn) in enumerate(sitting.turns.items(), 1):
            process, job = processes[turn.side], prepared[turn.side].jobs[turn.job]
            block = sitting.blocks[job.plan.replicate]
            place = Place(sitting.order, position, block, turn.side, process.state.name)
            process.ask("measure", turn.job, place)
            yield process.answer(describe(bar, f"{turn.side} {job.label}"))
            advance(bar, number, f"{turn.side} {job.label}")


def heading(processes: Mapping[str, Process], prepared: Mapping[str, Prepared]) -> list[str]:
    """What is measured on each side, on which machine, and the folders of the results."""
    lines = []
    for side in SIDES:
        job = prepared[side].jobs[0]
        versions = f"torch {job.environment.torch_version}, Python {job.environment.python_version}"
        lines.append(f"{side}  {processes[side].state.name}: {versions} → {job.plan.study_folder}")
    jobs = prepared["old"].jobs
    cases = len({job.case.case_id for job in jobs})
    machines = [place_of(job.environment, job.environment.device_name, job.case.threads)
                for job in jobs]  # fmt: skip
    lines.append(
        f"{_counted(cases, 'case', 'cases')}, {_counted(len(jobs), 'process', 'processes')} a side "
        f"in turns, on {' and '.join(dict.fromkeys(machines))}"
    )
    torch = {prepared[side].jobs[0].environment.torch_version for side in SIDES}
    lines += filter(None, map(untested, sorted(torch, key=str)))
    if _are_the_same(processes, prepared):
        lines.append(
            "the same state on both sides: what changes is what this machine calls a change"
        )
    return lines


def reasons(old: Prepared, new: Prepared) -> Iterator[str]:
    """Lines about pairs that are reused, and why others are measured again."""
    pairs = _reuses(old, new)
    kept = sum(is_kept(*pair) for pair in pairs)
    if kept:
        yield f"reusing {2 * kept} of {2 * len(pairs)} processes; resume=false measures them again"
    why = Counter(reason for pair in pairs if (reason := _why_again(*pair)))
    for reason, count in why.most_common():
        yield f"measuring {count} again on both sides: {reason}"


def _why_again(old: Reuse, new: Reuse) -> str | None:
    if is_kept(old, new):
        return None
    named = [(side, reuse.why_not) for side, reuse in zip(SIDES, (old, new), strict=True)]
    differing = [f"{side}: {why}" for side, why in named if why]
    if differing:
        return "; ".join(differing)
    rows = [reuse.run_id for reuse in (old, new) if reuse.run_id]
    return "the two sides were not measured in turns" if rows else None


def _reuses(old: Prepared, new: Prepared) -> list[tuple[Reuse, Reuse]]:
    return list(zip(old.found.reuses, new.found.reuses, strict=True))


def _check_cases(old: Prepared, new: Prepared) -> None:
    """UsageError if a setting means another case on either side, as device=auto may."""
    for one, other in zip(old.jobs, new.jobs, strict=True):
        if one.case.case_id != other.case.case_id:
            raise UsageError(
                f"{one.label} is another case on each side (device {one.case.device} and "
                f"{other.case.device}); set the device, as in device=cpu"
            )


def _are_the_same(processes: Mapping[str, Process], prepared: Mapping[str, Prepared]) -> bool:
    """Whether nothing differs that could make results differ, such as packages of interpreters."""
    old, new = (
        (processes[side].state.python, [job.environment for job in prepared[side].jobs])
        for side in SIDES
    )
    return old == new


def _counted(number: int, one: str, more: str) -> str:
    return f"{number} {one if number == 1 else more}"
