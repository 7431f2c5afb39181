"""A round: a sweep, disturbed at random, which the next starts of the command have to complete."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from modescope.bench.cluster import locks
from tests.helpers import stub_work
from tests.torture import checks, clocks, disk, plants, process, scene, stub
from tests.torture.events import EVENTS
from tests.torture.stage import Stage

STARTS_MAX = 4
"""Undisturbed starts after which every case must have its row."""

START_S, END_S = 60.0, 20.0
"""Longest time of such a start, and until the last process has ended."""


@dataclass(frozen=True)
class Outcome:
    """What became of a round."""

    faults: tuple[str, ...]
    events: tuple[str, ...]
    seconds: float
    place: Path  # kept where there are faults


def run(seed: int, has_disk: bool, plant: str | None = None) -> Outcome:
    """Runs the round of a seed."""
    begin = time.monotonic()
    place = Path(tempfile.mkdtemp(prefix="torture-"))
    known = scene.drawn(seed, plant)
    known.write(place)
    clocks.built(place)
    stage = Stage(place, random.Random(f"events {seed}"))
    if has_disk:
        disk.mount(stage.disk)
    happened: list[str] = []
    try:
        happened += _disturbed(stage, known, has_disk)
        found = [*_completed(stage), *checks.faults(stage)]
    finally:
        stage.end()
        if has_disk:
            _keep(stage)
        for gpu in set(known.gpus):
            for name in (stub.lock(place.name, gpu), f"{stub.lock(place.name, gpu)}.waiting"):
                (locks._folder() / name).unlink(missing_ok=True)
    if not found:
        shutil.rmtree(place)
    return Outcome(tuple(found), tuple(happened), time.monotonic() - begin, place)


def _disturbed(stage: Stage, known: scene.Scene, has_disk: bool) -> Iterator[str]:
    """Starts the sweep, and does things to it; yields what was done."""
    possible = {
        name: event.weight
        for name, event in EVENTS.items()
        if known.engine in event.engines
        and (event.needs != "disk" or (has_disk and (known.engine == "spool")))
        and (event.needs != "hosts" or known.hosts)
    }
    if known.plant:
        possible = dict.fromkeys(plants.PLANTS[known.plant].events, 1)
    for _ in range(stage.draw.choice((1, 1, 2))):
        stage.start()
    stage.wait(20, lambda: bool(stub_work.rows(scene.study(stage.place))))
    names = stage.draw.choices(list(possible), list(possible.values()), k=stage.draw.randint(4, 10))
    for name in names:
        stage.wait(stage.draw.uniform(0.0, 0.8))
        if not stage.running():
            stage.start()  # as the user does once the command has ended
        if (what := EVENTS[name].happen(stage)) is not None:
            yield f"{name} {what}".strip()


def _completed(stage: Stage) -> Iterator[str]:
    """Starts the command until all is measured; yields what is wrong with that."""
    stage.heal()
    known, names = scene.scene(stage.place), set(scene.sweep(stage.place).names)
    for _ in range(STARTS_MAX):
        if problem := _ended(stage):
            yield problem
            return
        if _ok(stage.place) >= names:
            break
    else:
        left = len(names - _ok(stage.place))
        yield f"{STARTS_MAX} starts did not complete the sweep: {left} left"
        return
    if not stage.wait(END_S, lambda: not any(scene.processes(stage.place))):
        return  # `checks` names them
    if known.hosts and known.crashes:
        stage.wait(process.OLD_S)  # until half-written files of other machines count as abandoned
    before = Counter(stub_work.rows(scene.study(stage.place)))
    if problem := _ended(stage):
        yield problem
    said = stage.commands[-1].text()
    if f"reusing {len(names)} of {len(names)} cases" not in said:
        yield f"the next start measures again: {said!r}"
    if Counter(stub_work.rows(scene.study(stage.place))) != before:
        yield "the next start has changed the rows"
    stage.wait(END_S, lambda: not any(scene.processes(stage.place)))


def _ended(stage: Stage) -> str | None:
    """Starts the command and waits for its end; what is wrong."""
    command = stage.start()
    if not stage.wait(START_S, lambda: command.process.poll() is not None):
        return f"{command.output}: an undisturbed start has not ended after {START_S:g} s"
    if "finished runs are kept" in command.text():
        return f"{command.output}: an undisturbed start has failed: {command.text()!r}"
    return None


def _ok(place: Path) -> set[str]:
    """Tasks that were measured."""
    found = [path.read_text().split() for path in stub_work.rows(scene.study(place))]
    return {words[0] for words in found if len(words) > 2 and words[2] == "ok"}


def _keep(stage: Stage) -> None:
    """Copies the study off the disk before that is taken away."""
    copy = stage.place / "disk-copy"
    shutil.copytree(stage.disk, copy, dirs_exist_ok=True)
    disk.unmount(stage.disk)
