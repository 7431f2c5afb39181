"""What has to hold after a round."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from modescope.bench.cluster import locks
from tests.helpers import stub_work
from tests.torture import scene, stub
from tests.torture.stage import Stage

TROUBLE = re.compile(r"Traceback|Exception ignored|Fatal Python error")


def faults(stage: Stage) -> Iterator[str]:
    """A sentence for each broken promise."""
    yield from rows(stage.place)
    yield from files(stage.place)
    yield from outputs(stage)
    yield from lost_without_cause(stage)
    yield from overlaps(stage.place)
    yield from left_behind(stage.place)


def rows(place: Path) -> Iterator[str]:
    """Every finished case is there exactly once, as it was written."""
    kept = {path.stem: path.read_text() for path in stub_work.rows(scene.study(place))}
    finished: Counter[str] = Counter()
    for run_id, text in kept.items():
        words = text.split()
        if words[1] != run_id or words[-1] != stub.END:
            yield f"row {run_id} is half written: {text!r}"
        elif words[2] == "ok":
            finished[words[0]] += 1
    for task in scene.sweep(place).names:
        if finished[task] != 1:
            yield f"task {task} is there {finished[task]} times"
    for line in scene.journal(place, "row"):
        if kept.get(line["run_id"]) != line["text"]:
            yield f"row {line['run_id']} was {line['text']!r}, and is {kept.get(line['run_id'])!r}"


def files(place: Path) -> Iterator[str]:
    """Nothing is half written; what is done has its row."""
    study = scene.study(place)
    yield from (f"left behind: {path.relative_to(study)}" for path in study.rglob(".*"))
    runs = {path.stem for path in stub_work.rows(study)}
    for path in study.rglob("*.json"):
        try:
            content = json.loads(path.read_text())
        except ValueError as error:
            yield f"{path.relative_to(study)}: {error}"
            continue
        if path.parent.name == "done" and content["run_id"] not in runs:
            yield f"{path.relative_to(study)}: no row {content['run_id']}"


def outputs(stage: Stage) -> Iterator[str]:
    """No traceback reached the user, and exit statuses are those that are documented."""
    for path in (*stage.place.glob("output/*"), *stage.place.glob("logs/*"), *_local_logs(stage)):
        if match := TROUBLE.search(path.read_text(errors="replace")):
            yield f"{path}: {match[0]}"
    killed = {line["pid"] for line in scene.journal(stage.place, "disturbed")}
    refused = scene.scene(stage.place).engine == "spool"
    for command in stage.commands:
        status = command.process.poll()
        allowed = command.allowed | ({2} if refused else set())
        if command.process.pid not in killed and status not in allowed:
            yield f"{command.output}: exit status {status}, allowed are {sorted(allowed)}"


def _local_logs(stage: Stage) -> Iterator[Path]:
    return scene.study(stage.place).glob("jobs/*/logs/*")


def lost_without_cause(stage: Stage) -> Iterator[str]:
    """A case is lost only where something was done to its worker."""
    if stage.disk_failed:  # any worker may have ended by it
        return
    pids: dict[str, set[int]] = {}
    for line in scene.journal(stage.place, "worker"):
        pids.setdefault(line["name"], set()).add(line["pid"])
    disturbed = {line["pid"] for line in scene.journal(stage.place, "disturbed")}
    disturbed |= {line["to"] for line in scene.journal(stage.place, "signal")}
    for line in scene.journal(stage.place, "row"):
        _, run_id, status, worker, *_ = line["text"].split()
        if status == "crashed" and not pids.get(worker, set()) & disturbed:
            yield f"row {run_id} says that {worker} was lost, and nothing was done to it"


def overlaps(place: Path) -> Iterator[str]:
    """No two cases ran on one GPU at once."""
    spans: dict[str, list[tuple[float, float]]] = {}
    for line in scene.journal(place, "measured"):
        if line["gpu"]:
            spans.setdefault(line["gpu"], []).append((line["begin"], line["end"]))
    for gpu, found in spans.items():
        for before, after in itertools.pairwise(sorted(found)):
            if before[1] > after[0]:
                yield f"two cases were on GPU {gpu} at once, at {after[0]:.2f} s"


def left_behind(place: Path) -> Iterator[str]:
    """No process is left, and nobody holds a lock."""
    for pid in scene.processes(place):
        words = (Path("/proc") / str(pid) / "cmdline").read_text().replace("\0", " ")
        yield f"process {pid} is left: {words}"
    for gpu in {gpu for gpu in scene.scene(place).gpus if gpu}:
        if (held := locks.attempt(((stub.lock(place.name, gpu), False),))) is None:
            yield f"the lock of GPU {gpu} is held"
        else:
            held.close()
