"""The nodes on which a study was measured: which of them is slower than the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from modescope.analysis.changes.verdicts import LEAST_PROCESSES
from modescope.analysis.format import numbers
from modescope.analysis.nodes import sentences
from modescope.analysis.nodes.against_others import SLOWER
from modescope.analysis.nodes.groups import Group, NodeOrGpu
from modescope.analysis.report.study import Study
from modescope.bench.stats.estimates import ALPHA, MARGIN

MOST_LISTED = 50  # nodes of an environment; slower ones come first

METHOD = (
    "Processes of a case on several nodes of one environment are its replicates: its interval then "
    "contains what differs between the nodes. Nodes are compared by the time of plain eager, which "
    "processes measure as their baseline, and which each worker of a cluster measures alone before "
    "its first case. Each such reading is compared with those of the same work elsewhere. The "
    f"intervals come from the spread between workers where at least {LEAST_PROCESSES} have "
    "measured on the node and two elsewhere. Otherwise they come from the spread between "
    "processes, and the verdict names the jobs (slower in 1 job): it then holds for the time of "
    "the measurement only, because what slows a job (heat, other users) slows all its processes. "
    f"Intervals of an environment hold together in {numbers.whole_percent(1 - ALPHA)} of studies. "
    f"slower, faster: the whole interval lies beyond ±{numbers.whole_percent(MARGIN)}; alike: "
    f"within it; undecided: neither. A node with fewer than {LEAST_PROCESSES} readings is not "
    "judged."
)
"""How nodes are compared, beneath the tables."""


@dataclass(frozen=True)
class Line:
    """A node, or a GPU of it, as cells of text."""

    name: str
    slower: bool
    cells: tuple[str, ...]  # under `titles`


@dataclass(frozen=True)
class NodesOf:
    """The nodes of one environment; `slower` and `sentences` say which is slower, or none."""

    title: str
    slower: tuple[str, ...]
    sentences: tuple[str, ...]
    titles: tuple[str, ...]
    lines: tuple[Line, ...]
    more: int


def nodes(study: Study) -> dict[str, Any] | None:
    """`groups` by environment, and `method`; None unless rows come from several nodes or GPUs."""
    if not study.nodes:
        return None
    return {
        "groups": [_nodes_of(one) for one in study.nodes],
        "method": METHOD,
    }


def _nodes_of(group: Group) -> NodesOf:
    ordered = sorted(group.places, key=lambda one: one.difference.verdict != SLOWER)
    shown = ordered[:MOST_LISTED]
    columns = {title: cells for title, cells in _columns(shown).items() if {*cells} != {""}}
    lines = zip(shown, zip(*columns.values(), strict=True), strict=True)
    slower = sentences.slower(group)
    return NodesOf(
        title=f"{group.machine}, environment {group.environment}",
        slower=tuple(f"{text[:1].upper()}{text[1:]}." for text in slower),
        sentences=tuple(filter(None, (*(() if slower else sentences.verdict(group)),
                                      sentences.spread(group)))),
        titles=tuple(columns),
        lines=tuple(Line(one.name, one.difference.verdict == SLOWER, cells)
                    for one, cells in lines),
        more=len(ordered) - len(shown),
    )  # fmt: skip


def _columns(places: Sequence[NodeOrGpu]) -> dict[str, list[str]]:
    """The cells of each column; empty where unknown."""
    return {
        "verdict": [sentences.shown_verdict(one.difference) for one in places],
        "eager ÷ the others'": [sentences.ratio(one.difference) for one in places],
        "readings": [str(one.difference.readings) for one in places],
        "workers": [_workers(one) for one in places],
        "works": [str(one.works) for one in places],
        "processes": [_processes(one) for one in places],
        "in the queue": [_wait(one) for one in places],
        "restarts": ["" if one.restarts is None else str(one.restarts) for one in places],
        "GPU": [" ".join(one.gpus) for one in places],
    }


def _processes(place: NodeOrGpu) -> str:
    return f"{place.runs} ({place.not_ok} not ok)" if place.not_ok else str(place.runs)


def _workers(place: NodeOrGpu) -> str:
    """Empty where each process is a unit of its own."""
    found = place.difference
    return "" if found.workers == found.readings else str(found.workers)


def _wait(place: NodeOrGpu) -> str:
    if place.wait_s is None:
        return ""
    return " to ".join(dict.fromkeys(map(numbers.duration, place.wait_s)))
