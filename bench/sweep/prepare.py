"""Turns requests into validated jobs. Imports no torch: child processes read what needs it."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from modescope.bench.records.cases import Case, Model, PhaseOptions, Plan
from modescope.bench.records.environment import Environment, Host
from modescope.bench.records.errors import UsageError
from modescope.bench.records.paths import runner
from modescope.bench.refusals import equal_if_untuned, refusal, same_kernels
from modescope.bench.resolve import Request, resolve
from modescope.bench.settings import PHASE_SETTINGS
from modescope.bench.sweep import isolation
from modescope.bench.sweep.fingerprint import VISIBLE, changes_torch, environment_id, variables

PROBE_TIMEOUT_S = 300

SLOW_HALF_WIDTHS = {"quick": 0.05, "standard": 0.05}
"""By budget: how precisely a sweep measures a mode that its pilot shows to be clearly slower. The
question of a sweep is which mode to use; a fifth of its time went into modes that are no answer."""


@dataclass(frozen=True)
class Job:
    """One process to start: what it measures, how and where; or the reason to skip it."""

    case: Case
    plan: Plan
    environment: Environment
    refusal: str | None
    command: str

    @property
    def label(self) -> str:
        """The case in a few words."""
        sizes = " ".join(f"{key}={value}" for key, value in self.case.shape.items())
        variant = self.case.variant
        words = (self.case.model.name, sizes, variant.mode.name, variant.dtype)
        return " ".join(word for word in words if word)


def start_torch(requests: Iterable[Request]) -> None:
    """Starts the processes' forkserver, which imports torch while this process goes on."""
    phases = {request.settings.phase for request in requests}
    modes = [mode for each in requests for mode in (each.settings.mode, each.baseline) if mode]
    compiles = any(mode.compile != "none" for mode in modes)
    isolation.start(compiles or any(PHASE_SETTINGS[phase].imports_compiler for phase in phases))


def prepare(requests: Sequence[Request]) -> list[Job]:
    """Validates every request; raises UsageError for the first mistake."""
    jobs = list(chain(*prepare_each(requests, range(len(requests)))))
    check_study(job.plan for job in jobs)
    same = {(job.case.case_id, job.case.device, job.plan): job for job in reversed(jobs)}
    return list(reversed(same.values()))  # of several that measure the same, the first


def prepare_each(requests: Sequence[Request], chosen: Collection[int]) -> list[list[Job]]:
    """The jobs of each request, one for each replicate; raises UsageError for the first mistake.

    `chosen`: positions of the requests that are validated. Another one counts only as a part of the
    sweep, and has no jobs if this machine cannot measure it.
    """
    start_torch(requests)
    cases: dict[int, tuple[Case, Plan]] = {}
    for position, request in enumerate(requests):
        try:
            cases[position] = _case_and_plan(request)
        except UsageError:
            if position in chosen:
                raise
    sources = _sources([cases[position] for position in chosen])
    jobs: list[list[Job]] = [[] for _ in requests]
    modes = {}
    for position, (case, plan) in cases.items():
        jobs[position] = _jobs(
            requests[position], case, plan, sources.get((case.model, case.device))
        )
        if not jobs[position][0].refusal:
            modes[case.case_id] = case.variant.mode.name
    return [[_add_to_sweep(job, modes) for job in of_request] for of_request in jobs]


def check_study(plans: Iterable[Plan]) -> None:
    """Raises UsageError unless all plans write one study."""
    studies = dict.fromkeys(str(plan.study_folder) for plan in plans)
    if len(studies) > 1:
        raise UsageError(f"a sweep writes one study, not {' and '.join(studies)}; run one for each")


def host(device: str) -> Host:
    """Facts of the device and the machine; raises UsageError where there is no such device."""
    if device not in _hosts:
        outcome = isolation.call(
            "modescope.bench.sweep.host:read", device, timeout_s=PROBE_TIMEOUT_S
        )
        if outcome.kind != "returned":
            raise UsageError(outcome.reason or f"device={device} cannot be used")
        _hosts[device] = outcome.value
        if device == "auto":
            _hosts.setdefault(outcome.value.device.type, outcome.value)
    return _hosts[device]


_hosts: dict[str, Host] = {}
"""What was read of the host, by the name of a device."""


def forget_changed_host() -> None:
    """Reads the host anew where variables that change torch were changed since the last command."""
    if isolation.renew(lambda name: changes_torch(name) or name in VISIBLE):
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


def _sources(cases: Sequence[tuple[Case, Plan]]) -> dict[tuple[Model, str], str | None]:
    """Hash of the source of each model on its device, None if unknown; raises UsageError.

    A child builds each model in all its shapes and phases. If it crashes or hangs, the cases are
    measured all the same, and their rows say what went wrong.
    """
    tried: dict[tuple[Model, str], dict[tuple[str, PhaseOptions], None]] = {}
    for case, _ in cases:
        shape = case.shape_json, case.options.model_options()
        tried.setdefault((case.model, case.device), {})[shape] = None
    limit_s = max((plan.timeout_s for _, plan in cases), default=0.0)
    sources = {}
    for model, shapes in tried.items():
        outcome = isolation.call(
            "modescope.bench.sweep.host:try_model",
            *(*model, [*shapes]),
            timeout_s=limit_s * len(shapes),
        )
        if outcome.kind == "usage":
            raise UsageError(outcome.reason)
        sources[model] = outcome.value
    return sources


def _jobs(request: Request, case: Case, plan: Plan, source: str | None) -> list[Job]:
    facts = host(case.device)
    environment = replace(facts.environment, model_source_id=source, variables=variables())
    environment = replace(environment, environment_id=environment_id(environment))
    command = shlex.join([*runner().split(), *request.overrides])
    plans = [replace(plan, replicate=number) for number in range(request.settings.replicates)]
    return [Job(case, each, environment, refusal(case, facts.device), command) for each in plans]


def _add_to_sweep(job: Job, modes: Mapping[str, str]) -> Job:
    """The job as part of a sweep of these modes, whose kernels it need not measure again."""
    device = host(job.case.device).device
    plan = replace(job.plan, untuned=equal_if_untuned(job.case, device, modes))
    return replace(job, plan=plan, refusal=job.refusal or same_kernels(job.case, device, modes))
