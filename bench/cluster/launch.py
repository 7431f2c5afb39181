"""The engines of several workers: see `bench.sweep.sweep.ENGINES`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from modescope.bench.cluster import (
    cases,
    folder,
    generations,
    gpus,
    states,
    submissions,
    target,
)
from modescope.bench.cluster.deadline import least_min
from modescope.bench.cluster.driver import Driver
from modescope.bench.cluster.engine import Engine
from modescope.bench.cluster.folder import Sweep
from modescope.bench.cluster.generations import Joined
from modescope.bench.cluster.local_engine import Local, Slot, slots
from modescope.bench.cluster.ray_engine import Ray
from modescope.bench.cluster.slurm_engine import (
    Slurm,
    check,
    parameters,
    signal_delay_s,
    tasks_per_job,
)
from modescope.bench.records.cases import Plan
from modescope.bench.records.errors import UsageError
from modescope.bench.resolve import Request
from modescope.bench.sweep.sweep import Submission

WORKERS = 8
"""Workers that are submitted unless cluster.workers says how many."""

OWN = ("engine", "workers", "max_num_timeout")
"""Options that are not handed to submitit."""


def slurm(requests: Sequence[Request]) -> Submission | None:
    """Submits workers as jobs of Slurm."""
    options = requests[0].settings.cluster
    pinned, plans = target.checked(requests, target.asks_for_gpus(options))
    needed = target.needs(pinned)
    given = {key: value for key, value in options.items() if key not in OWN}
    if not options.get("cpus_per_gpu"):
        given["cpus_per_task"] = _cores(options, needed.threads)
    _check_time(options, needed.timeout_s, signal_delay_s(options))
    if needed.gpu_is_any and given.get("tasks_per_node", 1) == 1:
        given["tasks_per_node"] = target.gpus_per_node(options)  # each worker takes one
    if needed.on_cpu and given.get("exclusive") is None:
        given["exclusive"] = True  # cases on the CPU take a node alone
    partition = f" (partition {options['partition']})" if options.get("partition") else ""
    parallel = (options.get("array_parallelism") or 0) * tasks_per_job(given)
    engine = Slurm(given, options.get("max_num_timeout") or 0)
    return _submitted(
        pinned,
        plans,
        engine,
        options.get("workers") or parallel or WORKERS,
        f"{{count}} of Slurm{partition}",
        lambda: parameters(given),
        check,
    )


def local(requests: Sequence[Request]) -> Submission | None:
    """Starts a worker for each GPU of this machine, or one for its CPU."""
    options = requests[0].settings.cluster
    chosen = gpus.chosen(options.get("gpus"))
    pinned, plans = target.checked(requests, bool(chosen))
    needed = target.needs(pinned)
    _check_time(options, needed.timeout_s)
    on_gpu = not all(request.settings.device == "cpu" for request in pinned)
    places = slots(chosen[: options.get("workers") or None] if on_gpu else [])
    _check_slots(places, needed.threads)
    return _submitted(
        pinned,
        plans,
        Local(places, options.get("timeout_min")),
        len(places),
        "{count} on this machine",
        lambda: {"gpus": ", ".join(chosen)} if on_gpu else {},
        lambda: None,
    )


def ray(requests: Sequence[Request]) -> Submission | None:
    """Starts workers on the nodes of Ray."""
    options = requests[0].settings.cluster
    init, resources = ({**(options.get(part) or {})} for part in ("init", "remote"))
    remote = {name: value for name, value in resources.items() if value is not None}
    pinned, plans = target.checked(requests, bool(remote.get("num_gpus")))
    needed = target.needs(pinned)
    _check_time(options, needed.timeout_s)
    remote.setdefault("num_cpus", needed.threads)
    given = {name: value for name, value in init.items() if value is not None}
    return _submitted(
        pinned,
        plans,
        Ray(given, remote, options.get("timeout_min")),
        options.get("workers") or WORKERS,
        "{count} of Ray",
        lambda: {**given, **remote},
        lambda: None,
    )


def _submitted(
    requests: Sequence[Request],
    plans: Sequence[Plan],
    engine: Engine,
    workers: int,
    where: str,
    describe: Callable[[], dict[str, Any]],
    check: Callable[[], None],
) -> Submission | None:
    sweep = sweep_of(requests, plans)
    workers = min(workers, len(sweep.tasks))
    counted = where.format(count="1 worker" if workers == 1 else f"{workers} workers")
    study = plans[0].study_folder
    if requests[0].settings.dry_run:
        print("\n".join(_dry(requests, len(sweep.tasks), counted, describe(), study)))
        return None
    check()
    name = folder.sweep_id(sweep, requests[0].settings.cluster["engine"])
    joined = generations.joined(study.absolute() / "jobs", name, sweep, engine)
    where = f" on {counted}" if not joined.living else ""
    print(f"{_cases(len(sweep.tasks))}{where} → {study}")
    if joined.living:
        print(attached(engine, joined))
    print(f"output of workers → {engine.logs(joined.folder)}", flush=True)
    driver = Driver(joined.folder, engine, workers)
    return Submission(study, len(sweep.tasks), driver.finished(), engine.detaches)


def attached(engine: Engine, joined: Joined) -> str:
    """What the user has to know of workers that were there before."""
    count, jobs = len(joined.living), submissions.jobs(joined.folder)
    workers = "1 worker" if count == 1 else f"{count} workers"
    if states.SUBMITTING in joined.living:
        return "attached to the workers that another command is submitting; their options stay"
    if not engine.detaches or not jobs:
        return f"attached to {workers} of another command"
    return (
        f"attached to {workers} submitted earlier; their options stay; `{engine.how_to_end(jobs)}` "
        "and the same command submits with these"
    )


def sweep_of(requests: Sequence[Request], plans: Sequence[Plan]) -> Sweep:
    """What the workers of validated requests measure."""
    tasks = [
        (number, replicate)
        for number, request in enumerate(requests)
        for replicate in range(request.settings.replicates)
    ]
    return Sweep(
        work=cases.NAME,
        requests=tuple(cases.as_json(request) for request in requests),
        tasks=tuple(tasks),
        study_folder=str(plans[0].study_folder.absolute()),
        working_folder=str(Path.cwd()),
        timeout_s=max(plan.timeout_s for plan in plans),
        order=requests[0].settings.order,
        seed=plans[0].seed,
    )


def _dry(
    requests: Sequence[Request], tasks: int, where: str, options: dict[str, Any], study: Path
) -> list[str]:
    """What would be submitted."""
    shown = [f"  {key}: {value}" for key, value in options.items()]
    listed = [f"  {' '.join(request.overrides)}" for request in requests]
    return [
        f"would start {where}, for {_cases(tasks)} → {study}; nothing was submitted",
        *shown,
        "cases, each with its settings:",
        *listed,
    ]


def _cases(count: int) -> str:
    return "1 case" if count == 1 else f"{count} cases"


def _cores(options: dict[str, Any], threads: int) -> int:
    """Cores of a worker: as many as threads are measured, unless the user says how many."""
    given = options.get("cpus_per_task")
    if given is not None and given < threads:
        raise UsageError(
            f"threads={threads}: a worker gets cluster.cpus_per_task={given} cores; leave "
            f"that out, or set it to {threads} or more"
        )
    return int(given or threads)


def _check_slots(places: Sequence[Slot], threads: int) -> None:
    """Raises UsageError where a worker of this machine gets fewer cores than a case has threads."""
    least = min(len(place.cores) for place in places)
    if threads <= least:
        return
    cores = len({core for place in places for core in place.cores})
    if len(places) == 1:
        raise UsageError(
            f"threads={threads}: this process may use {cores} cores; set threads={cores} or less"
        )
    fewer = max(1, cores // threads)
    or_fewer = f", or cluster.workers={fewer}" if threads <= cores else ""
    raise UsageError(
        f"threads={threads}: {len(places)} GPUs share {cores} cores, so the worker of each gets "
        f"{least}; set threads={least} or less{or_fewer}"
    )


def _check_time(options: dict[str, Any], timeout_s: float, delay_s: float = 0.0) -> None:
    """Raises UsageError for a time limit in which a worker may measure nothing."""
    minutes = options.get("timeout_min")
    least = least_min(timeout_s, delay_s)
    if minutes is not None and minutes < least:
        delay = f", a signal comes signal_delay_s={delay_s:g} before the end" if delay_s else ""
        raise UsageError(
            f"cluster.timeout_min={minutes}: a case may take timeout_s={timeout_s:g}{delay}"
            ", and a worker needs up to 5 minutes beside that; set cluster.timeout_min="
            f"{least} or more, or a smaller timeout_s"
        )
