"""Turns requests into validated jobs. Imports no torch: child processes do what needs torch."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from modescope.bench.modes import backends, kernels
from modescope.bench.records.cases import Case, Model, PhaseOptions
from modescope.bench.records.environment import Environment, Host
from modescope.bench.records.errors import UsageError
from modescope.bench.records.paths import runner
from modescope.bench.records.plans import Plan
from modescope.bench.refusals import (
    NEEDS,
    no_cache,
    refusal,
    same_kernels,
    unfit_for,
)
from modescope.bench.resolve import Request, resolve
from modescope.bench.settings import PHASE_SETTINGS
from modescope.bench.sweep import compiler_trial, isolation
from modescope.bench.sweep.fingerprint import VISIBLE, changes_torch, environment_id, variables
from modescope.bench.sweep.isolation import Ending, Task

PROBE_TIMEOUT_S = 300

Tried = tuple[str | None, Mapping[str, str]]
"""What is known of a model that was built on trial: a hash of its source, or None, and why axes of
modes change nothing in it, by name."""

UNTRIED: Tried = (None, {})

SLOW_HALF_WIDTHS = {"quick": 0.05, "standard": 0.05}
"""Maps a budget to the relative half-width of the speedup's interval at which a sweep stops timing
a mode that the pilot rounds showed to be clearly slower. Such modes took a fifth of a sweep's time,
although a sweep asks only which mode to use."""


@dataclass(frozen=True)
class Job:
    """A case to measure in one process, with its plan and environment."""

    case: Case
    plan: Plan
    environment: Environment
    refusal: str | None  # why the case is skipped instead
    command: str  # measures this case alone

    @property
    def label(self) -> str:
        """The model, sizes, mode and dtype of the case: `mlp batch=8 compile fp32`."""
        sizes = " ".join(f"{key}={value}" for key, value in self.case.shape.items())
        variant = self.case.variant
        words = (self.case.model.name, sizes, variant.mode.name, variant.dtype)
        return " ".join(word for word in words if word)


def start_torch(requests: Iterable[Request]) -> None:
    """Starts the forkserver, which imports torch and, if needed, its compiler."""
    phases = {request.settings.phase for request in requests}
    modes = [mode for asked in requests for mode in (asked.settings.mode, asked.baseline) if mode]
    compiles = any(backends.compiles_here(mode.mode()) for mode in modes)
    isolation.start(compiles or any(PHASE_SETTINGS[phase].imports_compiler for phase in phases))


def prepare(requests: Sequence[Request]) -> list[Job]:
    """Returns the distinct jobs of all requests; raises UsageError for the first mistake."""
    jobs = list(chain(*prepare_each(requests, range(len(requests)))))
    check_study(job.plan for job in jobs)
    same = {(job.case.case_id, job.case.device, job.plan): job for job in reversed(jobs)}
    return list(reversed(same.values()))  # of several that measure the same, the first


def prepare_each(requests: Sequence[Request], chosen: Collection[int]) -> list[list[Job]]:
    """Returns for each request, in their order, a list of its jobs: one per replicate.

    `chosen` are the positions of the requests to measure. Their models are built on trial, and the
    first mistake in them raises UsageError. The other requests are needed because modes are skipped
    beside others of the sweep; one that this machine cannot measure gets an empty list.
    """
    if interpreted := kernels.interpreted():
        raise UsageError(interpreted)
    start_torch(requests)
    cases: dict[int, tuple[Case, Plan]] = {}
    for position, request in enumerate(requests):
        try:
            cases[position] = _case_and_plan(request)
        except UsageError:
            if position in chosen:
                raise
    tried = _try([cases[position] for position in chosen])
    jobs: list[list[Job]] = [[] for _ in requests]
    modes = {}
    for position, (case, plan) in cases.items():
        found = tried.get((case.model, case.device), UNTRIED)
        jobs[position] = _jobs(requests[position], case, plan, found)
        if not jobs[position][0].refusal:
            modes[case.case_id] = case.variant.mode.name
    compiler_trial.check(jobs[at][0].case for at in chosen if not jobs[at][0].refusal)
    return [[_add_to_sweep(job, modes) for job in of_request] for of_request in jobs]


def leave_out_lacking(jobs: Sequence[Job]) -> tuple[list[Job], str | None]:
    """Returns the jobs of a sweep without those in tf32 or bf32 on devices that have none.

    The text says what was left out, or is None: a sweep with nothing else keeps them, so that each
    gets a row with the reason.
    """
    lacked = Counter(job.case.variant.dtype for job in jobs if _is_lacked(job))
    kept = [job for job in jobs if not _is_lacked(job)]
    if not (lacked and kept):
        return list(jobs), None
    parts = (
        f"{count} in {dtype}, which needs {NEEDS[dtype][1]}" for dtype, count in lacked.items()
    )
    return kept, f"left out: {'; '.join(parts)}"


def _is_lacked(job: Job) -> bool:
    """Whether the device of `job` does not multiply fp32 numbers as its dtype asks."""
    has, _ = NEEDS.get(job.case.variant.dtype, (None, ""))
    return has is not None and not has(host(job.case.device).device)


def check_study(plans: Iterable[Plan]) -> None:
    """Raises UsageError unless all plans write to the same study."""
    studies = dict.fromkeys(str(plan.study_folder) for plan in plans)
    if len(studies) > 1:
        raise UsageError(f"a sweep writes one study, not {' and '.join(studies)}; run one for each")


def host(device: str) -> Host:
    """Returns facts of a device and its machine; raises UsageError if there is no such device."""
    if device not in _hosts:
        outcome = isolation.call(
            Task("modescope.bench.sweep.host:read", Host), device, timeout_s=PROBE_TIMEOUT_S
        )
        if outcome.value is None:
            raise UsageError(outcome.reason or f"device={device} cannot be used")
        _hosts[device] = outcome.value
        if device == "auto":
            _hosts.setdefault(outcome.value.device.type, outcome.value)
    return _hosts[device]


_hosts: dict[str, Host] = {}
"""Maps the name of a device to the facts that a child process has read."""


def forget_changed_host() -> None:
    """Forgets the facts of the machine if an environment variable that torch reads has changed."""
    if isolation.end_outdated(lambda name: changes_torch(name) or name in VISIBLE):
        _hosts.clear()


def _case_and_plan(request: Request) -> tuple[Case, Plan]:
    case, plan = resolve(request, lambda name: host(name).device)
    if request.sweep and request.settings.replicates == 1:
        slow = SLOW_HALF_WIDTHS.get(plan.budget.name)
        plan = replace(plan, budget=replace(plan.budget, slow_half_width=slow))
    cores = host(case.device).environment.cpu_cores
    if cores and case.threads > cores:
        raise UsageError(
            f"threads={case.threads}: this process may use {cores} cores; set threads={cores} or "
            "fewer"
        )
    return case, plan


def _try(cases: Sequence[tuple[Case, Plan]]) -> dict[tuple[Model, str], Tried]:
    """Maps each (model, device) to what is known once the model was built.

    A child process builds each model in all its shapes and phases. If the child crashes or hangs,
    the cases are measured all the same. Raises UsageError for a mistake of the user.
    """
    tried: dict[tuple[Model, str], dict[tuple[str, PhaseOptions], None]] = {}
    asked: dict[tuple[Model, str], set[str]] = {}
    for case, _ in cases:
        shape = case.shape_json, case.options.model_options()
        tried.setdefault((case.model, case.device), {})[shape] = None
        asked.setdefault((case.model, case.device), set()).update(case.kernels)
    limit_s = max((plan.timeout_s for _, plan in cases), default=0.0)
    found = dict[tuple[Model, str], Tried]()
    for model, shapes in tried.items():
        outcome = isolation.call(
            Task("modescope.bench.sweep.host:try_model", tuple),
            *(*model, [*shapes], sorted(asked[model])),
            timeout_s=limit_s * len(shapes),
        )
        if outcome.kind == Ending.USAGE:
            raise UsageError(outcome.reason)
        found[model] = outcome.value or UNTRIED
    return found


def _jobs(request: Request, case: Case, plan: Plan, tried: Tried) -> list[Job]:
    facts, (source, unfit) = host(case.device), tried
    environment = replace(facts.environment, model_source_id=source, variables=variables())
    environment = replace(environment, environment_id=environment_id(environment))
    command = shlex.join([*runner().split(), *request.overrides])
    plans = [replace(plan, replicate=number) for number in range(request.settings.replicates)]
    refused = refusal(case, facts.device) or no_cache(case, plan) or unfit_for(case, unfit)
    return [Job(case, planned, environment, refused, command) for planned in plans]


def _add_to_sweep(job: Job, modes: Mapping[str, str]) -> Job:
    """Returns `job` with what follows from the other modes in its sweep.

    It gets a refusal if its mode runs the same kernels as another. `modes` maps case ids to the
    names of the sweep's modes.
    """
    device = host(job.case.device).device
    return replace(job, refusal=job.refusal or same_kernels(job.case, device, modes))
