"""Turns requests into validated jobs. Imports no torch: child processes read what needs it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from modescope.bench.records.cases import Case, Model, PhaseOptions, Plan
from modescope.bench.records.environment import Environment, Host
from modescope.bench.records.errors import UsageError
from modescope.bench.records.ids import canonical_json
from modescope.bench.records.paths import runner
from modescope.bench.refusals import refusal, same_kernels, untuned
from modescope.bench.resolve import Request, resolve
from modescope.bench.settings import PHASE_SETTINGS
from modescope.bench.sweep.host.fingerprint import environment_id
from modescope.bench.sweep.process import isolation

PROBE_TIMEOUT_S = 300

SLOW_HALF_WIDTHS = {"quick": 0.05, "standard": 0.05}
"""By budget: how precisely a sweep measures a mode that its pilot shows to be clearly slower. The
question of a sweep is which mode to use; a fifth of its time went into modes that are no answer."""

VARIABLES = (
    *("TORCH", "PYTORCH", "TRITON", "CUDA_", "CUBLAS", "CUDNN", "NVIDIA_TF32"),
    *("ATEN_", "ONEDNN_", "DNNL_", "OMP_", "GOMP_", "MKL_", "KMP_", "OPENBLAS_"),
    *("LD_PRELOAD", "MALLOC_", "GLIBC_TUNABLES", "PYTHONMALLOC", "PYTHONOPTIMIZE"),
)
"""Prefixes of environment variables that change how torch runs."""

VISIBLE = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
"""Variables that choose the devices which a process sees."""

HARMLESS = {
    *("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TRITON_HOME", "TRITON_DUMP_DIR"),
    *("TORCH_HOME", "TORCH_EXTENSIONS_DIR", "TORCH_TRACE", "TORCH_LOGS_OUT"),
    *(*VISIBLE, "CUDA_CACHE_PATH", "CUDA_VERSION"),
    *("PYTORCH_VERSION", "PYTORCH_BUILD_VERSION", "PYTORCH_BUILD_NUMBER"),
}
"""Exceptions that change no timing: file locations, and the device, which has its own column."""


PTXAS, TORCHS_PTXAS = "TRITON_PTXAS_PATH", "/torch/bin/ptxas"
"""A variable that torch sets when it compiles for a GPU, and how its value then ends."""


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


def as_new_command() -> None:
    """Forgets what an earlier command of this process knew where variables were changed since."""
    if isolation.renew(lambda name: changes_torch(name) or name in VISIBLE):
        host.cache_clear()


def prepare(requests: Sequence[Request]) -> list[Job]:
    """Validates every request; raises UsageError for the first mistake."""
    parts = prepare_each(requests)
    for part in parts:
        if isinstance(part, UsageError):
            raise part
    jobs = [job for part in parts if not isinstance(part, UsageError) for job in part]
    check_study(job.plan for job in jobs)
    same = {(job.case.case_id, job.case.device, job.plan): job for job in reversed(jobs)}
    return list(reversed(same.values()))  # of several that measure the same, the first


def prepare_each(requests: Sequence[Request]) -> list[list[Job] | UsageError]:
    """The jobs of each request, one for each replicate, or why this machine cannot measure it."""
    if not any(map(_needs_compiler, requests)):
        isolation.leave_out_compiler()
    _model_source.cache_clear()  # a notebook may have edited it since its last command
    parts = [_attempted(request) for request in requests]
    prepared = [part for part in parts if not isinstance(part, UsageError)]
    modes = {
        job.case.case_id: job.case.variant.mode.name
        for part in prepared
        for job in part
        if not job.refusal
    }
    return [
        part if isinstance(part, UsageError) else [_within(job, modes) for job in part]
        for part in parts
    ]


def check_study(plans: Iterable[Plan]) -> None:
    """Raises UsageError unless all plans write one study."""
    studies = dict.fromkeys(str(plan.study_folder) for plan in plans)
    if len(studies) > 1:
        raise UsageError(f"a sweep writes one study, not {' and '.join(studies)}; run one for each")


def _attempted(request: Request) -> list[Job] | UsageError:
    try:
        return _jobs(request)
    except UsageError as problem:
        return problem


def _within(job: Job, modes: Mapping[str, str]) -> Job:
    """The job as part of a sweep of these modes, whose kernels it need not measure again."""
    device = host(job.case.device).device
    plan = replace(job.plan, untuned=untuned(job.case, device, modes))
    return replace(job, plan=plan, refusal=job.refusal or same_kernels(job.case, device, modes))


def _needs_compiler(request: Request) -> bool:
    modes = [request.settings.mode, *([request.baseline] if request.baseline else [])]
    compiles = any(mode.compile != "none" for mode in modes)
    return compiles or PHASE_SETTINGS[request.settings.phase].imports_compiler


def _jobs(request: Request) -> list[Job]:
    case, plan = resolve(request, lambda name: host(name).device)
    if request.sweep and request.settings.replicates == 1:
        slow = SLOW_HALF_WIDTHS.get(plan.budget.name)
        plan = replace(plan, budget=replace(plan.budget, slow_half_width=slow))
    device, environment = host(case.device).device, host(case.device).environment
    if environment.cpu_cores and case.threads > environment.cpu_cores:
        raise UsageError(
            f"threads={case.threads}: this process may use {environment.cpu_cores} cores; set "
            f"threads={environment.cpu_cores} or fewer"
        )
    options = case.options.affecting_model()
    source = _model_source(case.model, case.shape_json, options, case.device, plan.timeout_s)
    environment = replace(environment, model_source_id=source, variables=_variables())
    environment = replace(environment, environment_id=environment_id(environment))
    command = shlex.join([*runner().split(), *request.overrides])
    plans = [replace(plan, replicate=number) for number in range(request.settings.replicates)]
    return [Job(case, each, environment, refusal(case, device), command) for each in plans]


def _variables() -> str:
    """The environment variables that change how torch runs, as the user set them, JSON."""
    return canonical_json({name: os.environ[name] for name in os.environ if changes_torch(name)})


def changes_torch(name: str) -> bool:
    """Whether an environment variable changes how torch runs."""
    if name == PTXAS and os.environ.get(name, "").endswith(TORCHS_PTXAS):
        return False
    return name.startswith(VARIABLES) and name not in HARMLESS


@cache
def host(device: str) -> Host:
    """Facts of the device and the machine; raises UsageError where there is no such device."""
    outcome = isolation.call(
        "modescope.bench.sweep.host.environment:read", device, timeout_s=PROBE_TIMEOUT_S
    )
    if outcome.kind != "returned":
        raise UsageError(outcome.reason or f"device={device} cannot be used")
    facts: Host = outcome.value
    return facts


@cache
def _model_source(
    model: Model, shape_json: str, options: PhaseOptions, device: str, timeout_s: float
) -> str | None:
    """Hash of the model's source, after building the model once; None where building failed.

    Raises UsageError only for mistakes of the user. A model that crashes or hangs while it is built
    does so again in its own run, which records it.
    """
    function = "modescope.bench.sweep.host.environment:try_model"
    outcome = isolation.call(function, model, shape_json, options, device, timeout_s=timeout_s)
    if outcome.kind == "usage":
        raise UsageError(outcome.reason or "the model cannot be built")
    source_hash: str | None = outcome.value
    return source_hash
