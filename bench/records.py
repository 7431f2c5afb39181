"""What was asked and what was found: frozen records, standard library only.

A `Case` says which work is measured, a `Plan` how thoroughly, a `Record` what came out of one
attempt. The fields of a record's parts are the columns of its Parquet file, in order; what can be
found out is listed in `bench.findings`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import MISSING, asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from bench.findings import (
    Bounds,
    GeneratedCode,
    Memory,
    Profiled,
    Setup,
    Timed,
    Trained,
    column,
)
from bench.instruction_sets import phrase

SCHEMA_VERSION = 2
"""Raised by a change of a column's name, unit or meaning, or of what ids are made of; see
`analysis.migrations`."""


class UsageError(Exception):
    """The user asked for something that cannot be; the message says what to do instead."""


def canonical_json(value: Any) -> str:
    """`value` as JSON that is equal whenever the value is: keys sorted, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def short_hash(value: Any) -> str:
    """16 hexadecimal digits that are equal whenever `value`, which JSON can hold, is."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:16]


def stated(options: Any) -> dict[str, Any]:
    """The fields of a record that have no default or differ from it, by name.

    Ids are made of these, so that a new field with a default changes none.
    """
    return {
        field.name: getattr(options, field.name)
        for field in fields(options)
        if field.default is MISSING or getattr(options, field.name) != field.default
    }


CAPTURING = ("reduce-overhead", "max-autotune")
"""Modes of torch.compile that capture CUDA graphs by themselves."""

AUTOTUNING = ("max-autotune", "max-autotune-no-cudagraphs")
"""Modes of torch.compile that benchmark kernels against each other."""


@dataclass(frozen=True)
class Mode:
    """An execution mode: four independent axes and the name they go by."""

    name: str
    grad: str  # enabled | no_grad | inference_mode
    autocast: bool = False
    compile: str = "none"  # none | a mode of torch.compile
    graph: bool = False  # captured by hand in a CUDA graph

    @property
    def compiles(self) -> bool:
        """Whether torch.compile is called."""
        return self.compile != "none"

    @property
    def uses_graphs(self) -> bool:
        """Whether each call should replay a CUDA graph, captured by hand or by the compiler."""
        return self.graph or self.compile in CAPTURING

    @property
    def autotunes(self) -> bool:
        """Whether the compiler should try kernels against each other."""
        return self.compile in AUTOTUNING


@dataclass(frozen=True)
class Variant:
    """One of the two things that are timed against each other: a mode at a precision."""

    mode: Mode
    dtype: str  # fp32 | tf32 | bf16 | fp16


@dataclass(frozen=True)
class Model:
    """Where a model comes from and how it may be compiled."""

    name: str  # mlp, transformer, ... or custom:<target>
    target: str  # importable "module:function"
    args_json: str = "{}"  # the user's keyword arguments, canonical JSON
    fullgraph: bool = True
    batch_dim: int | None = 0


@dataclass(frozen=True)
class Training:
    """How a step trains; the same for a case and its baseline."""

    optimizer: str = "sgd"  # sgd | adamw
    implementation: str = "default"  # torch's own choice | for_loop | foreach | fused
    capturable: bool | None = None  # None: where the step is captured
    lr: float = 1e-3
    scaler: bool | None = None  # whether a GradScaler scales the loss; None: for autocast to fp16
    loss: str = "mse"  # mse | output | importable "module:function"
    capture: str = "step"  # step | forward_backward: what mode.graph captures
    checkpoint: str = "none"  # none | children | model: what recomputes its activations
    activation_memory_budget: float | None = None  # of the compiler; None: torch's default

    def scales(self, variant: Variant) -> bool:
        """Whether `variant` scales its loss."""
        usual = variant.mode.autocast and variant.dtype == "fp16"
        return usual if self.scaler is None else self.scaler

    def captures_step(self, mode: Mode) -> bool:
        """Whether the optimizer runs inside of a CUDA graph."""
        return mode.graph and self.capture == "step"


@dataclass(frozen=True)
class Case:
    """The work: everything that decides what is computed and how, nothing about measuring it."""

    model: Model
    shape_json: str  # resolved sizes, canonical JSON, e.g. {"batch":8,"seq":128}
    variant: Variant
    baseline: Variant | None
    device: str  # cpu | cuda | cuda:1
    threads: int
    training: Training | None = None  # None: inference

    @property
    def phase(self) -> str:
        """`inference` or `train`."""
        return "inference" if self.training is None else "train"

    @property
    def shape(self) -> dict[str, int]:
        """Resolved sizes by name."""
        sizes: dict[str, int] = json.loads(self.shape_json)
        return sizes

    @property
    def device_type(self) -> str:
        """`cpu` or `cuda`."""
        return self.device.partition(":")[0]

    @property
    def case_id(self) -> str:
        """Hash of the work. Options at their default are left out: new ones keep old ids.

        The names of model and mode are left out too: target and axes say what is done. `fullgraph`
        counts only where something is compiled.
        """
        model = stated(self.model)
        del model["name"]
        if "args_json" in model:
            model["args"] = json.loads(model.pop("args_json"))
        if not any(each.mode.compiles for each in (self.variant, self.baseline) if each):
            model.pop("fullgraph", None)
        return short_hash(
            {
                "model": model,
                "shape": self.shape,
                "phase": self.phase,
                **({"training": stated(self.training)} if self.training else {}),
                "variant": _axes(self.variant),
                "baseline": _axes(self.baseline) if self.baseline else None,
                "device": self.device_type,
                "threads": self.threads,
            }
        )


def _axes(variant: Variant) -> dict[str, Any]:
    axes = stated(variant.mode)
    del axes["name"]
    return {**axes, "dtype": variant.dtype}


@dataclass(frozen=True)
class Budget:
    """How much time a case gets. Times in seconds."""

    name: str
    rank: int  # a row measured with a larger rank can stand in for a smaller one
    warmup_min_s: float
    warmup_max_s: float
    block_s: float  # length of one timed block
    pilot_rounds: int
    min_rounds: int
    max_rounds: int
    half_width: float  # relative half-width of the speedup's interval that is aimed at
    timed_max_s: float  # cap on the paired rounds
    clock_rounds: int  # blocks of each further clock: host, device, pipelined, dispatch

    @property
    def settings(self) -> str:
        """What its name means, canonical JSON."""
        return canonical_json({k: v for k, v in asdict(self).items() if k not in ("name", "rank")})


@dataclass(frozen=True)
class Plan:
    """How a case is measured; none of this is part of `case_id`."""

    budget: Budget
    seed: int
    replicate: int  # which of the case's fresh processes this is
    compile_cache: str  # cold | warm
    timeout_s: float
    study: str
    results_dir: str
    profile: bool  # whether the passes that profile the case and count its work are made
    memory: bool  # whether the pass that takes its memory apart is made
    trace_max_bytes: int  # of one profiler trace or memory snapshot; 0: none is kept
    traces_max_bytes: int  # of all that the study keeps
    max_error: float | None = None  # relative error that the user accepts; None: the usual alone

    @property
    def study_folder(self) -> Path:
        """Where the study's results lie."""
        return Path(self.results_dir) / self.study


@dataclass(frozen=True)
class DeviceFacts:
    """What a device is and can do, read once by a child process."""

    type: str  # cpu | cuda
    name: str
    capability: tuple[int, int] | None = None  # CUDA compute capability
    memory_bytes: int | None = None


@dataclass(frozen=True)
class Host:
    """What every run of this session shares, read once by a child process."""

    device: DeviceFacts
    environment: Environment


@dataclass(frozen=True)
class Attempt:
    """Which run this is and how it ended."""

    schema_version: int = column("version of these columns")
    run_id: str = column("unique name of this attempt; also the file's name")
    case_id: str = column("hash of the work: equal ids did the same work")
    study: str = column("folder of results that the run belongs to")
    started_at: str = column("start, ISO 8601, UTC")
    budget: str = column("time allowance: smoke, quick, standard, thorough")
    budget_rank: int = column("order of budgets; larger is more thorough")
    budget_settings: str | None = column("what the budget allows, canonical JSON")
    seed: int = column("seed of weights, inputs and the order within rounds")
    replicate: int = column("0 for the first process of a case, then 1, 2, ...")
    status: str = column("ok, skipped, failed, wrong_result, oom, timeout or crashed")
    reason: str | None = column("why the status is not ok, in one sentence")
    duration_s: float | None = column("wall time of the whole attempt")
    command: str = column("command that measures this case again")
    order: str | None = column(
        "order of the sweep's cases: random (by seed) or given", default=None
    )
    position: int | None = column(
        "place in that order, from 0; null for a single case", default=None
    )
    profile: bool | None = column("whether the profiler pass was asked for", default=None)
    memory: bool | None = column("whether the memory pass was asked for", default=None)
    max_error: float | None = column(
        "relative error that the user accepted by max_error=...; null: no more than error_limit",
        default=None,
    )


@dataclass(frozen=True)
class Work:
    """The case as columns; axes are resolved (never `natural` or `auto`)."""

    model: str = column("mlp, transformer, pointwise or custom:<module>:<function>")
    model_args: str = column("keyword arguments of the model, canonical JSON")
    fullgraph: bool = column("whether a graph break under compile is an error")
    shape: str = column("resolved sizes, canonical JSON")
    batch: int | None = column("batch size, where the model has one")
    seq: int | None = column("sequence length, where the model has one")
    phase: str = column("inference or train")
    optimizer: str | None = column("sgd or adamw; null where nothing is trained")
    training: str | None = column(
        "options of training that differ from their defaults, canonical JSON; null for inference"
    )
    dtype: str = column("fp32, tf32, bf16 or fp16; with autocast: the dtype autocast uses")
    mode: str = column("preset, with the axes that were overridden in brackets")
    grad: str = column("enabled, no_grad or inference_mode")
    autocast: bool = column("true: cast per op on fp32 weights; false: weights cast once")
    compile: str = column("none, or the mode given to torch.compile")
    graph: bool = column("captured by hand in a CUDA graph")
    baseline_mode: str | None = column("mode that speedup is against; null: not paired")
    baseline_dtype: str | None = column("dtype of the baseline")
    device: str = column("cpu, cuda or cuda:<index>")
    threads: int = column("intra-op threads")
    compile_cache: str = column(
        "cold: empty compiler caches before the first call; warm: the user's"
    )
    batch_dim: int | None = column(
        "dimension of the inputs that is the batch; null where there is none, and for custom "
        "models in files of schema version 1",
        default=None,
    )


def work_of(case: Case, plan: Plan) -> Work:
    """The columns that describe `case`."""
    mode, baseline = case.variant.mode, case.baseline
    return Work(
        model=case.model.name,
        model_args=case.model.args_json,
        fullgraph=case.model.fullgraph,
        shape=case.shape_json,
        batch=case.shape.get("batch"),
        seq=case.shape.get("seq"),
        phase=case.phase,
        optimizer=case.training.optimizer if case.training else None,
        training=canonical_json(stated(case.training)) if case.training else None,
        dtype=case.variant.dtype,
        mode=mode.name,
        grad=mode.grad,
        autocast=mode.autocast,
        compile=mode.compile,
        graph=mode.graph,
        baseline_mode=baseline.mode.name if baseline else None,
        baseline_dtype=baseline.dtype if baseline else None,
        device=case.device,
        threads=case.threads,
        compile_cache=plan.compile_cache,
        batch_dim=case.model.batch_dim,
    )


@dataclass(frozen=True)
class Processor:
    """The host's CPU. Its name alone says little: a virtual machine's may hide most of it."""

    cpu_name: str | None = column("CPU model", default=None)
    cpu_model: str | None = column(
        "vendor, family, model and stepping of the CPU, which a virtual machine's name hides",
        default=None,
    )
    cpu_capability: str | None = column(
        "instruction set of torch's own CPU kernels: torch.backends.cpu.get_cpu_capability()",
        default=None,
    )
    cpu_instructions: str | None = column(
        "instruction sets of the CPU that matrix products and generated code may use, by their "
        "names in /proc/cpuinfo, in alphabetical order",
        default=None,
    )
    cpu_cores: int | None = column("logical CPU cores this process may use", default=None)
    cpu_quota_cores: float | None = column(
        "CPU time that a container or cgroup allows, in cores; null where nothing limits it",
        default=None,
    )
    cpu_max_hz: float | None = column(
        "highest clock that the operating system allows these cores; null where it does not say, "
        "as in most virtual machines",
        default=None,
    )
    cpu_boost: bool | None = column(
        "whether they may run faster than their nominal clock", default=None
    )
    cpu_governor: str | None = column("what sets their clock, such as powersave", default=None)
    cpu_microcode: str | None = column("version of the CPU's microcode", default=None)
    hypervisor: str | None = column(
        "what the machine runs on, such as KVM; none: hardware of its own; unknown: one whose name "
        "is not said",
        default=None,
    )


def place(processor: Processor, device_name: str | None, threads: int) -> str:
    """`AMD EPYC (AVX2, no bf16 instructions), 1 of 2 cores`, with the name of a GPU before it."""
    instructions = phrase(processor.cpu_capability, processor.cpu_instructions)
    cpu = f"{processor.cpu_name or '–'}{f' ({instructions})' if instructions else ''}"
    cores = f"{threads} of {processor.cpu_cores} cores"
    if device_name == processor.cpu_name:
        return f"{cpu}, {cores}"
    return f"{device_name or '–'}, {cores} of {cpu}"


@dataclass(frozen=True, kw_only=True)
class Environment(Processor):
    """Where a run took place."""

    environment_id: str | None = column(
        "hash of what makes rows comparable: of the columns from cpu_name to hypervisor, "
        "device_name, versions, power limit, variables and source_id"
    )
    host: str | None = column("host name")
    device_name: str | None = column("GPU or CPU model")
    memory_bytes: int | None = column("memory of the host")
    python_version: str | None = column("Python")
    torch_version: str | None = column("PyTorch, with its build tag")
    triton_version: str | None = column("Triton, where installed")
    cuda_version: str | None = column("CUDA that torch was built with")
    driver_version: str | None = column("NVIDIA driver")
    power_limit_w: float | None = column("GPU power limit")
    load_1min: float | None = column("load average over the minute before the run")
    git_commit: str | None = column("commit of modescope")
    git_dirty: bool | None = column("whether tracked files of modescope differed from the commit")
    variables: str | None = column("environment variables that change how torch runs, JSON")
    source_id: str | None = column(
        "hash of modescope's source that runs while a case is measured, models not included; files "
        "may move, and comments and docstrings change, without changing it",
        default=None,
    )
    model_source_id: str | None = column(
        "hash of the source of the model and of a loss of the user's own", default=None
    )


@dataclass(frozen=True)
class Findings(Bounds, Memory, Setup, Profiled, GeneratedCode, Trained, Timed):
    """All that was found out, as one row of columns: those of the last base come first."""

    flags: tuple[str, ...] = column("diagnostics raised while measuring", default=())


def flagged(findings: Findings, flag: str) -> Findings:
    """`findings` with one more flag."""
    return replace(findings, flags=(*findings.flags, flag))


def noted(findings: Findings, columns: Iterable[str], text: str | None) -> Findings:
    """`findings` with `text` added to what these columns, which hold notes, say already."""
    notes = {name: [getattr(findings, name), text] for name in columns}
    joined: dict[str, Any] = {
        name: "; ".join(filter(None, parts)) or None for name, parts in notes.items()
    }
    return replace(findings, **joined)


@dataclass(frozen=True)
class Result:
    """What the process of a case reports; `reason` says why the status is not ok."""

    status: str
    reason: str | None
    findings: Findings
    lost: tuple[str, ...] = ()  # columns that say why, should the process not survive what follows


class Ended(Exception):
    """The case ends here with another status than ok."""

    def __init__(self, status: str, reason: str, findings: Findings) -> None:
        self.result = Result(status, reason, findings)


@dataclass(frozen=True)
class Record:
    """One attempt at one case."""

    attempt: Attempt
    work: Work
    environment: Environment
    findings: Findings


PARTS = (Attempt, Work, Environment, Findings)


def row(record: Record) -> dict[str, Any]:
    """The record as one flat mapping from column to value."""
    parts = (record.attempt, record.work, record.environment, record.findings)
    return {name: value for part in parts for name, value in asdict(part).items()}
