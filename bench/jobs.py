"""Requests -> validated jobs. Imports no torch: what needs it is asked of a child process."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from bench import isolation
from bench.config import Request, resolve
from bench.fingerprint import environment_id
from bench.objections import objection
from bench.records import Case, Environment, Host, Model, Plan, UsageError, canonical_json
from bench.reuse import Needed

PROBE_TIMEOUT_S = 300

VARIABLES = (
    *("TORCH", "PYTORCH", "TRITON", "CUDA_", "CUBLAS", "CUDNN", "NVIDIA_TF32"),
    *("ATEN_", "ONEDNN_", "DNNL_", "OMP_", "GOMP_", "MKL_", "KMP_", "OPENBLAS_"),
    *("LD_PRELOAD", "MALLOC_", "GLIBC_TUNABLES", "PYTHONMALLOC", "PYTHONOPTIMIZE"),
)
"""Prefixes of environment variables that change how torch runs."""

HARMLESS = {
    *("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TRITON_HOME", "TRITON_DUMP_DIR"),
    *("TORCH_HOME", "TORCH_EXTENSIONS_DIR", "TORCH_TRACE", "TORCH_LOGS_OUT"),
    *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_CACHE_PATH", "CUDA_VERSION"),
    *("PYTORCH_VERSION", "PYTORCH_BUILD_VERSION", "PYTORCH_BUILD_NUMBER"),
}
"""Those of them that change nothing: where files lie, which device (a column of its own)."""


@dataclass(frozen=True)
class Job:
    """One process to be: what to measure, how, where, and why not if it cannot be."""

    case: Case
    plan: Plan
    environment: Environment
    objection: str | None
    command: str

    @property
    def study_folder(self) -> Path:
        """Where the study's results lie."""
        return self.plan.study_folder

    @property
    def label(self) -> str:
        """The case in a few words."""
        sizes = " ".join(f"{key}={value}" for key, value in self.case.shape.items())
        variant = self.case.variant
        words = (self.case.model.name, sizes, variant.mode.name, variant.dtype)
        return " ".join(word for word in words if word)

    def needed(self, retry: bool) -> Needed:
        """What an earlier row must have to make measuring this again unnecessary."""
        return Needed(
            self.case.case_id,
            self.plan.replicate,
            self.plan.compile_cache,
            self.plan.budget,
            self.environment,
            retry,
            self.plan.profile,
            self.plan.memory,
            self.plan.max_error,
        )


def prepare(requests: Sequence[Request]) -> list[Job]:
    """Validates every request; raises one UsageError that names all culprits."""
    problems: list[str] = []
    jobs: list[Job] = []
    for request in requests:
        try:
            jobs += _replicates(request)
        except UsageError as problem:
            problems.append(str(problem))
    if problems:
        raise UsageError("\n".join(dict.fromkeys(problems)))
    studies = dict.fromkeys(str(job.study_folder) for job in jobs)
    if len(studies) > 1:
        raise UsageError(f"a sweep fills one study, not {', '.join(studies)}; run it for each")
    return jobs


def _replicates(request: Request) -> list[Job]:
    """The same job once for each fresh process that is asked for."""
    job = _job(request)
    return [
        replace(job, plan=replace(job.plan, replicate=replicate))
        for replicate in range(request.replicates)
    ]


def _job(request: Request) -> Job:
    case, plan = resolve(request, lambda name: host(name).device)
    around = host(case.device)
    environment = around.environment
    if environment.cpu_cores and case.threads > environment.cpu_cores:
        raise UsageError(
            f"threads={case.threads}: this process may use {environment.cpu_cores} cores"
        )
    loss = case.training.loss if case.training else None
    source = _model_source(case.model, case.shape_json, loss, plan.timeout_s)
    environment = replace(environment, model_source_id=source, variables=_variables())
    return Job(
        case,
        plan,
        replace(environment, environment_id=environment_id(environment)),
        objection(case, around.device),
        shlex.join(["python", "run.py", *request.overrides]),
    )


def _variables() -> str:
    """The environment variables that change how torch runs, as the user set them, JSON."""
    return canonical_json(
        {
            name: value
            for name, value in os.environ.items()
            if name.startswith(VARIABLES) and name not in HARMLESS
        }
    )


@cache
def host(device: str) -> Host:
    """Facts of the device and its surroundings; raises UsageError where there is no such device."""
    outcome = isolation.call("bench.environment:read", device, timeout_s=PROBE_TIMEOUT_S)
    if outcome.kind == "returned":
        found: Host = outcome.value
        return found
    raise UsageError(outcome.reason or f"device={device} cannot be used")


@cache
def _model_source(model: Model, shape_json: str, loss: str | None, timeout_s: float) -> str | None:
    """Hash of the model's source, after building it once; None where that came to nothing.

    Only a mistake of the user's raises UsageError. A model that crashes or hangs while it is built
    is left to its own run, which records that.
    """
    asked = (model, shape_json, loss)
    outcome = isolation.call("bench.environment:try_model", *asked, timeout_s=timeout_s)
    if outcome.kind == "usage":
        raise UsageError(outcome.reason or "the model cannot be built")
    found: str | None = outcome.value
    return found
