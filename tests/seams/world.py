"""One made-up world in which everything differs: its cases, measured and written to a study."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest

from modescope.bench.case import runner
from modescope.bench.passes import ceilings
from modescope.bench.passes.profiler import capture
from modescope.bench.records.cases import Case, Mode, Model, Variant, canonical_json
from modescope.bench.records.environment import Environment, Scheduling
from modescope.bench.records.plans import Budget, Plan
from modescope.bench.sweep import attempt, isolation
from modescope.bench.sweep.attempt import Place
from modescope.bench.sweep.isolation import ChildOutcome, Ending, Task
from modescope.bench.sweep.prepare import Job
from modescope.bench.timing import contention, pace
from modescope.bench.timing.rounds import UNWATCHED
from tests.seams.machine import Kind, Launches, Machine, Process, metered

BATCH = 6
STUDY = "seams"

EAGER, NO_GRAD, INFERENCE = (
    Mode(name, grad)
    for name, grad in (
        ("eager", "enabled"),
        ("no_grad", "no_grad"),
        ("inference_mode", "inference_mode"),
    )
)
GRAPH = Mode("cuda-graph", "no_grad", graph=True)

# Host and device time of each launch, in `machine.US`. A call's second kernel waits for its first.
BASELINE: dict[Kind, Launches] = {
    ("enabled", "float32"): ((30, 150), (10, 60)),
    ("empty", "float32"): ((24, 0),),
}
NO_GRAD_BF16: dict[Kind, Launches] = {
    ("no_grad", "bfloat16"): ((80, 70), (40, 40)),
    ("empty", "bfloat16"): ((15, 0),),
}
NO_GRAD_FP32: dict[Kind, Launches] = {("no_grad", "float32"): ((20, 120), (10, 70))}
GRAPH_BF16: dict[Kind, Launches] = {("replay", "bfloat16"): ((5, 102),)}

# Relative error that the model adds, by the phase of the run in which it is called. `first call`
# is that of plain eager, by which the limit is set; all are exact in bf16.
ERRORS_BF16 = {
    "first call": 2**-6,
    "check": 3 * 2**-6,
    "baseline": 2**-14,
    "check again": 2**-7,
}
ERRORS_FP32 = {"first call": 2**-15, "check": 2**-16, "baseline": 2**-14, "check again": 2**-17}

BUDGET = Budget("quick", 1, warmup_min_s=0.0, warmup_max_s=1.0, block_s=1.5e-3, pilot_rounds=12,
                min_rounds=14, max_rounds=40, half_width=0.01, timed_max_s=30.0,
                clock_rounds=13)  # fmt: skip
LONGER = replace(BUDGET, name="standard", rank=2, min_rounds=16, clock_rounds=12)


@dataclass(frozen=True)
class Run:
    """A process of the world: what it measures, and on what machine."""

    variant: Variant
    process: Process
    replicate: int = 0
    budget: Budget = BUDGET
    batch: int = BATCH


def _process(*launches: dict[Kind, Launches], errors: dict[str, float], **more: Any) -> Process:
    return Process({key: value for each in (BASELINE, *launches) for key, value in each.items()},
                   errors, **more)  # fmt: skip


def _fp32(kind: str, *launches: tuple[float, float], **more: Any) -> Process:
    return _process({(kind, "float32"): launches}, errors=ERRORS_FP32, **more)


RUNS = {
    "control": Run(Variant(EAGER, "fp32"), _process(errors=ERRORS_FP32)),
    "plain": Run(
        Variant(NO_GRAD, "bf16"), _process(NO_GRAD_BF16, errors=ERRORS_BF16, slowdown=1.25, depth=9)
    ),
    "plain_fp32": Run(Variant(NO_GRAD, "fp32"), _process(NO_GRAD_FP32, errors=ERRORS_FP32)),
    "graph": Run(
        Variant(GRAPH, "bf16"),
        _process(GRAPH_BF16, errors=ERRORS_BF16, slowdown=1.5, power_capped=True),
    ),
    "graph_fp32": Run(Variant(GRAPH, "fp32"), _fp32("replay", (6, 150)), budget=LONGER),
    "graph_fp32_again": Run(
        Variant(GRAPH, "fp32"), _fp32("replay", (6, 165), slowdown=1.25), replicate=1
    ),
    "inference": Run(
        Variant(INFERENCE, "fp32"), _fp32("inference_mode", (14, 110), (6, 50)), replicate=0
    ),
    "inference_again": Run(
        Variant(INFERENCE, "fp32"),
        _fp32("inference_mode", (14, 106), (6, 46), slowdown=2.0),
        replicate=1,
        budget=LONGER,
    ),
    "wrong": Run(
        Variant(NO_GRAD, "fp32"),
        _process(NO_GRAD_FP32, errors={**ERRORS_FP32, "check again": float("nan")}),
        batch=5,
    ),
}
"""In the order in which they run."""


ENVIRONMENT = Environment(
    environment_id="machine 1", host="host", device_name="Made-up GPU", memory_bytes=2**34,
    python_version="3.11.1", torch_version="2.13.0", triton_version="3.5", cuda_version="13.0",
    driver_version="580.1", power_limit_w=450.0, load_1min=None, git_commit="c0ffee",
    git_dirty=False, variables="{}", cpu_name="Made-up CPU", cpu_model="vendor 1 2 3",
    cpu_capability="AVX2", cpu_instructions="avx2 fma", cpu_cores=4, cpu_quota_cores=3.5,
    cpu_max_hz=3e9, cpu_boost=True, cpu_governor="powersave", cpu_microcode="0x1",
    hypervisor="none", source_id="source", model_source_id="model", compute_capability="9.0",
    gpu_uuid="GPU-made-up",
)  # fmt: skip

PLACE = Place("random", 3, versus_block=2, versus_side="new", versus_state="git:abc")
SCHEDULING = Scheduling("node7", "slurm", "1234_5", restart=1)


def job(run: Run, results_dir: Path) -> Job:
    """The process as a sweep would start it."""
    case = Case(
        Model("seams", "tests.seams.machine:build"),
        f'{{"batch":{run.batch}}}',
        run.variant,
        Variant(EAGER, "fp32"),
        "cuda",
        threads=1,
    )
    plan = Plan(
        run.budget, seed=11, replicate=run.replicate, compile_cache="cold", timeout_s=60.0,
        study=STUDY, results_dir=str(results_dir), profile=True, memory=True,
        explain="true", trace_max_bytes=1_000_000, traces_max_bytes=9_000_000, max_error=0.25,
    )  # fmt: skip
    plan = replace(plan, max_error=None) if run.variant.dtype == "fp32" else plan
    return Job(case, plan, ENVIRONMENT, None, f"python run.py mode={run.variant.mode.name}")


def killed(died: Path, results_dir: Path) -> Job:
    """A process of a CPU that the kernel kills; the file `died` exists from then on."""
    asked = job(RUNS["plain_fp32"], results_dir)
    model = Model("killed", "tests.seams.machine:build_killed", canonical_json({"died": str(died)}))
    case = replace(asked.case, model=model, shape_json="{}", device="cpu", baseline=None)
    return replace(asked, case=case)


@contextmanager
def running(machine: Machine) -> Iterator[None]:
    """Cases that are measured within it run on `machine`, in this process."""

    def call(task: Task[Any], *arguments: Any, **options: Any) -> ChildOutcome[Any]:
        return ChildOutcome(
            Ending.RETURNED, resolve_name(task.function)(machine.report, *arguments)
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(isolation, "call", call)
        patch.setattr(runner, "find", lambda name: machine)
        patch.setattr(contention, "read", machine.counters)
        patch.setattr(contention, "interruptions", lambda: UNWATCHED)
        patch.setattr(pace, "work", machine.fixed_work)
        patch.setattr(pace.clock, "__defaults__", (machine.fixed_work,))
        patch.setattr(capture, "_export", machine.recording)
        patch.setattr(ceilings, "measure", metered(ceilings.measure))
        patch.setattr(attempt, "monotonic", lambda: machine.now_s)
        patch.setattr(os, "getloadavg", lambda: (0.75, 0.5, 0.25))
        yield


def measured(name: str, results_dir: Path) -> Machine:
    """Measures one process of the world and writes its row; returns the machine afterwards."""
    machine = Machine(RUNS[name].process)
    with running(machine), pytest.MonkeyPatch.context() as patch:
        patch.setattr(attempt, "new_run_id", lambda: name)
        attempt.attempt(job(RUNS[name], results_dir), lambda phase: None, PLACE, SCHEDULING)
    return machine
