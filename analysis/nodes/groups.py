"""The nodes of a study by environment: what each measured, and how its eager compares."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pandas as pd
import pyarrow.compute as pc

from modescope.analysis.derive.select import latest
from modescope.analysis.format import numbers
from modescope.analysis.load import Folder, Runs, sentinels
from modescope.analysis.nodes import against_others, readings
from modescope.analysis.nodes.against_others import TOO_FEW, Difference
from modescope.analysis.nodes.levels import Readings, levels
from modescope.analysis.nodes.readings import stem_of

PLACES = ("node", "gpu_uuid")
"""Columns by which several places are told apart."""

READ = {
    *("status", "device_name", "queue_wait_s", "restart", "scheduler_job", "worker"),
    *PLACES,
    *readings.READ,
}
"""Stored columns of processes that `groups` reads, beside estimates."""

GPU_DIGITS = len("GPU-") + 8
"""Characters of a GPU's UUID that tell GPUs apart, as in a short hash of git."""


@dataclass(frozen=True)
class NodeOrGpu:
    """A node; or a GPU of a node on several of whose GPUs the study ran."""

    node: str
    gpu: str | None  # None: the node as a whole
    runs: int  # processes, whatever their status
    not_ok: int
    works: int  # whose eager time is known
    gpus: tuple[str, ...]  # UUIDs
    wait_s: tuple[float, float] | None  # shortest and longest time in the queue
    restarts: int | None  # of all jobs together; None without a scheduler that counts them
    difference: Difference

    @property
    def name(self) -> str:
        """`n1`, or `n1 GPU-1a2b3c4d`."""
        return self.node if self.gpu is None else f"{self.node} {self.short_gpu}"

    @property
    def short_gpu(self) -> str:
        """`GPU-1a2b3c4d`; empty for a node as a whole."""
        return (self.gpu or "")[:GPU_DIGITS]


@dataclass(frozen=True)
class Group:
    """The places of one environment, by name; `within` and `between` are standard deviations."""

    environment: str  # its letter
    machine: str  # its device
    places: tuple[NodeOrGpu, ...]
    within: float | None  # of ln(time) between processes of the same work in one place
    between: float | None  # of the levels of places that have enough workers
    between_jobs: float | None  # of the means of places: contains what differs between their jobs

    @property
    def compared(self) -> tuple[NodeOrGpu, ...]:
        """The places with an interval."""
        return tuple(place for place in self.places if place.difference.verdict != TOO_FEW)


def several_places(processes: pd.DataFrame) -> bool:
    """Whether processes ran on several nodes, or on several GPUs of one."""
    return any(processes[name].nunique() > 1 for name in PLACES)


def of_study(runs: Runs, folder: str | Folder) -> tuple[Group, ...]:
    """The nodes of each environment of a study; empty unless there are several."""
    if all(pc.count_distinct(runs.stored[name]).as_py() < 2 for name in PLACES):
        return ()
    return of_processes(latest(runs.table), folder)


def of_processes(processes: pd.DataFrame, folder: str | Folder) -> tuple[Group, ...]:
    """The same for these processes of the study, compared by them and its sentinels."""
    return groups(processes, sentinels(folder)) if several_places(processes) else ()


def groups(processes: pd.DataFrame, sentinels: pd.DataFrame) -> tuple[Group, ...]:
    """A group for each environment, in the order of letters; see `readings.readings`.

    None where all processes ran on one node, and no environment has several of its GPUs.
    """
    known = processes[processes["node"].notna()]
    known = known.assign(environment=known["environment"].map(stem_of))
    read = readings.readings(processes, sentinels)
    found = tuple(
        _group(str(letter), runs, read[read["environment"] == letter])
        for letter, runs in known.groupby("environment")
    )
    several = known["node"].nunique() > 1 or any(len(one.places) > 1 for one in found)
    return found if several else ()


def _group(letter: str, runs: pd.DataFrame, read: pd.DataFrame) -> Group:
    gpus = runs.groupby("node")["gpu_uuid"].nunique()
    runs, read = (each.assign(place=_place(each, gpus)) for each in (runs, read))
    names = sorted({*runs["place"], *read["place"]}, key=_by_numbers)
    codes = read["place"].map({name: code for code, name in enumerate(names)}).to_numpy("int64")
    kinds, _ = pd.factorize(read["reading"])
    workers = read.groupby(["place", "worker"]).ngroup().to_numpy().astype("int64")
    logs = read["log"].to_numpy("float64")
    numbered = Readings(codes, kinds.astype("int64"), logs)
    of_workers = levels(numbered, workers)
    found = {name: Difference(0, TOO_FEW) for name in names}
    judged = against_others.judged(numbered, of_workers)
    found |= dict(zip(names, judged, strict=False))
    works = read.groupby("place")["work"].nunique()
    return Group(
        environment=letter,
        machine=str(next(iter(runs["device_name"].dropna()), numbers.UNKNOWN)),
        places=tuple(
            _of(runs[runs["place"] == name], name, int(works.get(name, 0)), found[name])
            for name in names
        ),
        within=against_others.spread_within(numbered),
        between=against_others.spread_between(of_workers),
        between_jobs=against_others.spread_between(numbered),
    )


def _place(table: pd.DataFrame, gpus: pd.Series) -> pd.Series:
    """`node`, or `node gpu_uuid` for a node of several GPUs; `gpus`: their number by node."""
    several = table["node"].map(gpus).fillna(0) > 1
    named = table["node"] + " " + table["gpu_uuid"].fillna("").astype("str")
    return table["node"].where(~several | table["gpu_uuid"].isna(), named)


def _by_numbers(name: str) -> list[tuple[int, str]]:
    """A sorting key: n2 before n10."""
    parts = re.split(r"(\d+)", name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def _of(runs: pd.DataFrame, name: str, works: int, difference: Difference) -> NodeOrGpu:
    node, _, gpu = name.partition(" ")
    jobs = runs.drop_duplicates(["scheduler_job", "worker", "restart"])
    waits, restarts = jobs["queue_wait_s"].dropna(), jobs.groupby("scheduler_job")["restart"].max()
    return NodeOrGpu(
        node=node,
        gpu=gpu or None,
        runs=len(runs),
        works=works,
        not_ok=int((~runs["status"].isin(["ok", "skipped"])).sum()),
        gpus=tuple(sorted(runs["gpu_uuid"].dropna().unique())),
        wait_s=(float(waits.min()), float(waits.max())) if len(waits) else None,
        restarts=int(restarts.sum()) if restarts.notna().any() else None,
        difference=difference,
    )
