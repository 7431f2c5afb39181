"""Turns requests into validated jobs. Imports no torch: child processes read what needs it."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from modescope.bench.records.cases import Case, Plan
from modescope.bench.records.environment import Environment, Host
from modescope.bench.records.errors import UsageError
from modescope.bench.records.paths import runner
from modescope.bench.refusals import refusal, same_kernels, untuned
from modescope.bench.resolve import Request, resolve
from modescope.bench.settings import PHASE_SETTINGS
from modescope.bench.sweep import isolation
from modescope.bench.sweep.fingerprint import VISIBLE, changes_torch, environment_id, variables

PROBE_TIMEOUT_S = 300

SLOW_HALF_WIDTHS = {"quick": 0.05, "standard": 0.05}
"""By budget: how precisely a sweep measures a mode that its pilot shows to be clearly slower. The
question of a sweep is which mode to use; a fifth of its time went into modes that are no answer."""

Sources = dict[tuple[object, ...], str | UsageError | None]


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
    isolation.start(compiler=any(map(_needs_compiler, requests)))


def prepare(requests: Sequence[Request]) -> list[Job]:
    """Validates every request; raises UsageError for the first mistake."""
    jobs: list[Job] = []
    for part in prepare_each(requests):
        if isinstance(part, UsageError):
            raise part
        jobs += part
    check_study(job.plan for job in jobs)
    same = {(job.case.case_id, job.case.device, job.plan): job for job in reversed(jobs)}
    return list(reversed(same.values()))  # of several that measure the same, the first


def prepare_each(
    requests: Sequence[Request], built: Collection[int] | None = None
) -> list[list[Job] | UsageError]:
    """The jobs of each request, one for each replicate, or why this machine cannot measure it.

    `built`: positions of the requests whose models are tried; None: all.
    """
    start_torch(requests)
    parts = [_case_and_plan(request) for request in requests]
    tried = [part for n, part in enumerate(parts) if built is None or n in built]
    sources = _sources([part for part in tried if not isinstance(part, UsageError)])
    modes = {}
    prepared: list[list[Job] | UsageError] = []
    for request, part in zip(requests, parts, strict=True):
        if isinstance(part, UsageError):
            prepared.append(part)
            continue
        case, plan = part
        source = sources.get(_model_key(case))
        if isinstance(source, UsageError):
            prepared.append(source)
            continue
        jobs = _jobs(request, case, plan, source)
        prepared.append(jobs)
        if not jobs[0].refusal:
            modes[case.case_id] = case.variant.mode.name
    return [
        part if isinstance(part, UsageError) else [_among(job, modes) for job in part]
        for part in prepared
    ]


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


def _needs_compiler(request: Request) -> bool:
    modes = [request.settings.mode, *([request.baseline] if request.baseline else [])]
    compiles = any(mode.compile != "none" for mode in modes)
    return compiles or PHASE_SETTINGS[request.settings.phase].imports_compiler


def _case_and_plan(request: Request) -> tuple[Case, Plan] | UsageError:
    try:
        case, plan = resolve(request, lambda name: host(name).device)
    except UsageError as problem:
        return problem
    if request.sweep and request.settings.replicates == 1:
        slow = SLOW_HALF_WIDTHS.get(plan.budget.name)
        plan = replace(plan, budget=replace(plan.budget, slow_half_width=slow))
    cores = host(case.device).environment.cpu_cores
    if cores and case.threads > cores:
        return UsageError(
            f"threads={case.threads}: this process may use {cores} cores; set threads={cores} or "
            "fewer"
        )
    return case, plan


def _model_key(case: Case) -> tuple[object, ...]:
    """What tells models apart that have to be built, each in its shape and phase."""
    return case.model, case.device, case.shape_json, case.options.model_options()


def _sources(cases: Sequence[tuple[Case, Plan]]) -> Sources:
    """Hash of the source of each model that is built, or the user's mistake; None if unknown.

    A child builds each model in all its shapes; if it crashes or hangs, one child for each shape.
    Where that does so too, the case is measured all the same, and its row says what went wrong.
    """
    tried: dict[tuple[object, ...], dict[tuple[object, ...], None]] = {}
    for case, _ in cases:
        built = _model_key(case)
        tried.setdefault(built[:2], {})[built[2:]] = None
    limit_s = max((plan.timeout_s for _, plan in cases), default=0.0)
    sources: Sources = {}
    for model, of_model in tried.items():
        sources |= _try_model(model, [*of_model], limit_s)
    return sources


def _try_model(
    model: tuple[object, ...], shapes: Sequence[tuple[object, ...]], limit_s: float
) -> Sources:
    outcome = isolation.call(
        "modescope.bench.sweep.host:try_model", *model, shapes, timeout_s=limit_s * len(shapes)
    )
    if outcome.kind in ("crashed", "oom", "timeout") and len(shapes) > 1:
        return {
            key: source
            for shape in shapes
            for key, source in _try_model(model, [shape], limit_s).items()
        }
    answer: tuple[str | None, dict[int, str]] = outcome.value or (None, {})
    source, mistakes = answer
    return {
        (*model, *shape): UsageError(mistakes[number]) if number in mistakes else source
        for number, shape in enumerate(shapes)
    }


def _jobs(request: Request, case: Case, plan: Plan, source: str | None) -> list[Job]:
    facts = host(case.device)
    environment = replace(facts.environment, model_source_id=source, variables=variables())
    environment = replace(environment, environment_id=environment_id(environment))
    command = shlex.join([*runner().split(), *request.overrides])
    plans = [replace(plan, replicate=number) for number in range(request.settings.replicates)]
    return [Job(case, each, environment, refusal(case, facts.device), command) for each in plans]


def _among(job: Job, modes: Mapping[str, str]) -> Job:
    """The job as part of a sweep of these modes, whose kernels it need not measure again."""
    device = host(job.case.device).device
    plan = replace(job.plan, untuned=untuned(job.case, device, modes))
    return replace(job, plan=plan, refusal=job.refusal or same_kernels(job.case, device, modes))
