"""What is said about the nodes of a study: in its report, and beneath its table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from modescope.analysis.changes.power import POWER
from modescope.analysis.changes.verdicts import LEAST_PROCESSES
from modescope.analysis.format import numbers
from modescope.analysis.format.phrases import listed
from modescope.analysis.nodes.against_others import SLOWER, TOO_FEW, Difference
from modescope.analysis.nodes.groups import Group, NodeOrGpu

MOST_NAMED = 6  # places in a sentence; the rest are counted


def verdict(group: Group) -> list[str]:
    """Which place of an environment is slower than the others; or what could have been found."""
    return slower(group) or [_none(group)]


def warnings(groups: Iterable[Group]) -> list[str]:
    """A sentence for each place that is slower than the others of its environment."""
    several = list(groups)
    return [
        f"{text} (environment {group.environment})" if len(several) > 1 else text
        for group in several
        for text in slower(group)
    ]


def slower(group: Group) -> list[str]:
    """A sentence for each place that is slower than the others; or that was, in the jobs there."""
    return [
        _slower(one, group) if one.difference.by_workers else _slower_job(one, group)
        for one in group.places
        if one.difference.verdict == SLOWER
    ]


def spread(group: Group) -> str:
    """How much eager differs between processes and between nodes; empty where neither is known."""
    places = "nodes or GPUs" if _has_gpus(group) else "nodes"
    between = group.between_jobs if group.between is None else group.between
    their_jobs = ", which includes differences between their jobs" if group.between is None else ""
    known = [
        f"{numbers.percent(value)} between {what}"
        for value, what in (
            (group.within, "processes of the same work in one place"),
            (between, f"{places}{their_jobs}"),
        )
        if value is not None
    ]
    return f"Eager times differ by {' and '.join(known)} (standard deviations)." if known else ""


def shown_verdict(one: Difference) -> str:
    """`slower`; `slower in 1 job` where too few workers tell the place from their jobs."""
    if one.by_workers or one.verdict == TOO_FEW:
        return one.verdict
    return f"{one.verdict} in {numbers.counted(one.workers, 'job', 'jobs')}"


def ratio(one: Difference) -> str:
    """`1.051× [1.042, 1.060]`: eager's time ÷ that of the others; above 1: slower."""
    if one.value is None or one.low is None or one.high is None:
        return numbers.UNKNOWN
    return numbers.factor_interval(*map(math.exp, (one.value, one.low, one.high)))


def _percent(one: Difference) -> str:
    """`5.1 % [4.2, 6.0]`: how much longer eager takes."""
    assert one.value is not None
    assert one.low is not None
    assert one.high is not None
    return numbers.share_interval(*map(math.expm1, (one.value, one.low, one.high)))


def kind(place: NodeOrGpu) -> str:
    """`node n1`, or `GPU-1a2b3c4d of node n1`."""
    return f"node {place.node}" if place.gpu is None else f"{place.short_gpu} of node {place.node}"


def _has_gpus(group: Group) -> bool:
    return any(one.gpu is not None for one in group.places)


def _slower(one: NodeOrGpu, group: Group) -> str:
    return (
        f"{kind(one)} is slower than {_others(group)} by {_percent(one.difference)}: plain eager "
        f"takes that much longer there, in {_measured(one)}"
    )


def _slower_job(one: NodeOrGpu, group: Group) -> str:
    """What was slower, where the cause may be the job and not the place."""
    workers, noun = one.difference.workers, "node" if one.gpu is None else "GPU"
    few = (
        f"only {numbers.counted(workers, 'worker has', 'workers have')} measured there"
        if workers < LEAST_PROCESSES
        else "only 1 worker has measured elsewhere"
    )
    return (
        f"plain eager took {_percent(one.difference)} longer on {kind(one)} than on "
        f"{_others(group)}, in {_measured(one)}. The cause may be the {noun}, or only the time of "
        f"the measurement (heat, other users), because {few}. To tell them apart, run the same "
        "sweep again at other times, each time with more replicates, until "
        f"{LEAST_PROCESSES} workers have measured on each {noun}"
    )


def _others(group: Group) -> str:
    """The places that are not slower."""
    rest = [each.name for each in group.places if each.difference.verdict != SLOWER]
    return listed(rest) if len(rest) <= MOST_NAMED else f"the {len(rest)} others"


def _measured(one: NodeOrGpu) -> str:
    """`12 processes of 2 works`, and of how many workers where they had any."""
    found = one.difference
    works = numbers.counted(one.works, "work", "works")
    text = f"{numbers.counted(found.readings, 'process', 'processes')} of {works}"
    if found.workers == found.readings:  # each is a unit of its own
        return text
    return f"{text} run by {numbers.counted(found.workers, 'worker', 'workers')}"


def _none(group: Group) -> str:
    judged = group.compared
    noun = "node or GPU" if _has_gpus(group) else "node"
    if not judged:
        return (
            f"Nothing can be compared: each {noun} needs {LEAST_PROCESSES} processes that measured "
            "eager in works that another one measured, too."
        )
    widest = max(max(abs(end) for end in _ends(one)) for one in judged)
    shown = max(one.difference.detectable or 0.0 for one in judged)
    text = (
        f"No {noun} is slower than the others beyond noise: none differs from them by more than "
        f"{numbers.percent(math.expm1(widest))} (widest interval). One that is "
        f"{numbers.percent(math.expm1(shown))} slower would be named in "
        f"{numbers.whole_percent(POWER)} of such studies."
    )
    of_jobs = [one.name for one in judged if not one.difference.by_workers]
    if of_jobs:
        text += (
            f" For {_named(of_jobs)} this holds only for the time of the measurement, as fewer "
            f"than {LEAST_PROCESSES} workers have measured there, or only 1 elsewhere."
        )
    few = [one.name for one in group.places if one.difference.verdict == TOO_FEW]
    return f"{text} Too few processes to judge {_named(few)}." if few else text


def _ends(one: NodeOrGpu) -> tuple[float, float]:
    return one.difference.low or 0.0, one.difference.high or 0.0


def _named(names: Sequence[str]) -> str:
    """`n1, n2 and n3`; only how many there are beyond MOST_NAMED."""
    return listed(names) if len(names) <= MOST_NAMED else f"{len(names)} of them"
