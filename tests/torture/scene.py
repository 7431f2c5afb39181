"""What a round of torture consists of, as its processes know it."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from modescope.bench.cluster.folder import Sweep
from tests.helpers.paths import ROOT
from tests.torture import clocks

VARIABLE = "MODESCOPE_TORTURE"
"""The folder of the round, in the environment of all its processes."""

HOSTS = ("", "far-1", "far-2")
"""Machines of workers; "" is this one."""


@dataclass(frozen=True)
class Scene:
    """The sweep of a round, and what its processes do to themselves."""

    seed: int
    engine: str  # spool | local
    workers: int
    seconds: tuple[float, ...]  # of each case
    gpus: tuple[str, ...]  # of each case; "" needs none
    crashes: float  # how likely a file operation kills its process, or fails
    skews: bool  # clocks differ between processes
    hosts: bool  # workers are on machines of different names
    plant: str | None = None  # a fault of `plants.PLANTS`

    def write(self, place: Path) -> None:
        """Makes the folder of the round."""
        for part in ("spool", "output", "logs", "disk"):
            (place / part).mkdir(parents=True)
        (place / "scene.json").write_text(json.dumps(asdict(self)))


def drawn(seed: int, plant: str | None = None) -> Scene:
    """The scene of a seed."""
    draw = random.Random(f"scene {seed}")
    cases = draw.randint(100, 200)
    return Scene(
        seed,
        "local" if draw.random() < 0.25 and plant is None else "spool",
        draw.randint(2, 4),
        tuple(round(draw.uniform(0.02, 0.12), 3) for _ in range(cases)),
        tuple(draw.choice(("", "", "a", "b")) for _ in range(cases)),
        0.0 if plant else draw.choice((0, 0.0005, 0.002)),
        draw.random() < 0.5 or plant is not None,
        (draw.random() < 0.5 or plant is not None) and os.geteuid() == 0,
        plant,
    )


def place() -> Path:
    """The folder of this process's round."""
    return Path(os.environ[VARIABLE])


def scene(where: Path) -> Scene:
    """The scene of a folder."""
    content: dict[str, Any] = json.loads((where / "scene.json").read_text())
    listed = {name: tuple(content[name]) for name in ("seconds", "gpus")}
    return Scene(**{**content, **listed})


def study(where: Path) -> Path:
    """On the disk that is filled and made read-only; all else lies on another one."""
    return where / "disk" / "study"


def sweep(where: Path) -> Sweep:
    """The cases of the round."""
    known = scene(where)
    cases = [{"seconds": s, "gpu": g} for s, g in zip(known.seconds, known.gpus, strict=True)]
    return Sweep(
        "tests.torture.stub:Stub",
        tuple(cases),
        tuple((number, 0) for number in range(len(cases))),
        str(study(where)),
        str(ROOT),
        timeout_s=1.0,
        seed=known.seed,
    )


def variables(where: Path, skew_s: int = 0) -> dict[str, str]:
    """The environment of a process of the round, whose clock may differ."""
    own = {VARIABLE: str(where), "PYTHONPATH": str(ROOT)}
    return {**os.environ, **own, **clocks.variables(where, skew_s)}


def note(where: Path, kind: str, **content: Any) -> None:
    """Appends a line to the round's journal, at once."""
    line = json.dumps({"kind": kind, "pid": os.getpid(), **content}) + "\n"
    file = os.open(where / "journal", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


def journal(where: Path, kind: str) -> list[dict[str, Any]]:
    """The lines of one kind."""
    lines = (where / "journal").read_text().splitlines() if (where / "journal").exists() else []
    return [line for line in map(json.loads, lines) if line["kind"] == kind]


def processes(where: Path, role: str = "") -> Iterator[int]:
    """Processes of the round that have not ended: all, or each `worker` or `driver`."""
    mark = f"{VARIABLE}={where}".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            if mark not in (entry / "environ").read_bytes().split(b"\0"):
                continue
            if role.encode() in (entry / "cmdline").read_bytes():
                yield int(entry.name)
        except OSError:  # it has just ended
            continue
