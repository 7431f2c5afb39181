"""The result of a case: a `Record`, which is one row of a Parquet file.

The fields of a record's parts, and of the groups of `Findings`, are the columns, in order. The
measured columns are in `bench.records.columns`.
"""

from __future__ import annotations

import json
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from inspect import get_annotations
from typing import Any

from modescope.bench.records.caches import CACHES
from modescope.bench.records.cases import Case, canonical_json
from modescope.bench.records.columns.checks import Checks, LossScaling, ModelsOwn
from modescope.bench.records.columns.column import column, nullable
from modescope.bench.records.columns.compiling import (
    Compilations,
    CompiledCode,
    FirstPass,
    GeneratedCode,
    Packaged,
    Regions,
)
from modescope.bench.records.columns.passes import (
    CeilingRates,
    GapSteps,
    Memory,
    Profiled,
    Setup,
    Snapshot,
    WorkCounts,
)
from modescope.bench.records.columns.quantized import Quantized
from modescope.bench.records.columns.starting import Starts
from modescope.bench.records.columns.timing import (
    Alone,
    CachedData,
    Calibration,
    Clocks,
    Contention,
    DeviceState,
    Rounds,
    SizeLatencies,
    StepParts,
)
from modescope.bench.records.environment import Environment, Scheduling
from modescope.bench.records.outcomes import Status
from modescope.bench.records.plans import Plan

SCHEMA_VERSION = 5
"""Increased when a column's name, unit or meaning changes, or what ids are hashed from. Rows of
another version are not read."""

REVISION = "git:"
"""The beginning of the column `versus_state` if a revision of a git repository was measured."""


@dataclass(frozen=True)
class Attempt:
    """Columns that identify a run, and say how it was asked for and how it ended."""

    schema_version: int = column("version of these columns")
    run_id: str = column("name of this attempt, and of its file")
    case_id: str = column("hash of the work: rows with equal ids did the same")
    study: str = column("folder of results")
    started_at: str = column("start, ISO 8601, UTC")
    budget: str = column("smoke, quick, standard or thorough")
    budget_rank: int = column("order of the budgets; larger is more thorough")
    budget_settings: str | None = column("what the budget allows, JSON")
    seed: int = column("of weights, inputs and the order within rounds")
    replicate: int = column("0 for the first process of a case, then 1, 2, …")
    status: Status = column("ok, skipped, failed, wrong_result, oom, timeout or crashed")  # noqa: RUF009
    reason: str | None = column("why the status is not ok, in one sentence")
    duration_s: float | None = column("the whole attempt")
    command: str = column("measures this case again")
    case_order: str | None = nullable("order of a sweep's cases: random or given")
    position: int | None = nullable("place in that order, from 0; on a cluster within its job")
    versus_block: int | None = nullable(
        "when a block of a versus began (ms since 1970); processes with equal numbers took turns"
    )
    versus_side: str | None = nullable("old or new side of a versus")
    versus_state: str | None = nullable(
        "what versus measured there: an interpreter, a folder, or a revision with its commit"
    )
    confirms: str | None = nullable("run_id that this row of a study's confirmations repeats")
    profile: bool | None = nullable("whether the profiler pass was asked for")
    memory: bool | None = nullable("whether the memory pass was asked for")
    explain: str | None = nullable("whether the steps between eager and the mode were asked for")
    max_error: float | None = nullable("error that the user accepts (max_error=…)")


@dataclass(frozen=True)
class Work:
    """Columns that describe the case. Values are resolved, so never `natural` or `auto`."""

    model: str = column(
        "name; fused:operator; library:architecture; custom:module:function; or what "
        "modescope.compare was given"
    )
    model_args: str = column("keyword arguments of the model, JSON")
    fullgraph: bool = column("whether a graph break is an error")
    shape: str = column("sizes, JSON")
    batch: int | None = column("batch size, if the model has one")
    seq: int | None = column("sequence length, if the model has one")
    phase: str = column("inference or train")
    optimizer: str | None = column("sgd or adamw; null for inference")
    training: str | None = column(
        "options of training other than the defaults, JSON; null for inference"
    )
    dtype: str = column("fp32, tf32, bf32, bf16 or fp16; of autocast, the dtype that it casts to")
    mode: str = column("preset, with overridden axes in brackets")
    grad: str = column("enabled, no_grad or inference_mode")
    autocast: bool = column("true: cast per operator; false: weights and inputs cast once")
    compile_mode: str = column("none, or the mode of torch.compile")
    graph: bool = column("whether a CUDA graph is captured by hand")
    baseline_mode: str | None = column("mode of the baseline; null without one")
    baseline_dtype: str | None = column("dtype of the baseline")
    device: str = column("cpu, cuda or cuda:index")
    threads: int = column("intra-op threads")
    compile_cache: str = column(
        "; ".join(f"{name}: {cache.meaning}" for name, cache in CACHES.items())
    )
    batch_dim: int | None = nullable("dimension of the inputs that is the batch; null if none is")
    compile_options: str | None = nullable("options of torch.compile other than the defaults, JSON")
    axes: str | None = nullable("further axes of the mode other than their defaults, JSON")
    quantize: str | None = nullable(
        "how weights have fewer bits (mode.quantize), a precision of its own; null: they have all"
    )
    model_kernels: str | None = nullable(
        "what builds the implementation of mode.kernels, by its name, JSON; null without one"
    )
    model_inputs: str | None = nullable(
        "the setting model.inputs, JSON; null if the model's function returns its inputs"
    )
    calls: str | None = nullable(
        "sizes of the calls of one pass in order, canonical JSON; null where all calls have those "
        "of `shape`; otherwise what other columns say of a call is of one pass, and `shape` holds "
        "the largest sizes"
    )
    calls_pad: str | None = nullable(
        "sizes that those of the case's calls, not of its baseline's, are padded to, canonical "
        "JSON; null without padding"
    )
    data: str | None = nullable(
        "what each timed call finds in no cache: cold (all that it reads) or cold_weights "
        "(parameters and buffers); null: as the last call left it (warm)"
    )


def work_of(case: Case, plan: Plan) -> Work:
    """Returns the columns that describe `case`, and the compiler cache that `plan` asks for."""
    mode, baseline = case.variant.mode, case.baseline
    return Work(
        model=case.model.name,
        model_args=case.model.args_json,
        fullgraph=case.model.fullgraph,
        shape=case.shape_json,
        batch=_size(case, "batch"),
        seq=_size(case, "seq"),
        phase=case.phase,
        **{"optimizer": None, "training": None, **case.options.columns()},
        dtype=case.variant.dtype,
        mode=mode.name,
        grad=mode.grad,
        autocast=mode.autocast,
        compile_mode=mode.compile,
        graph=mode.graph,
        baseline_mode=baseline.mode.name if baseline else None,
        baseline_dtype=baseline.dtype if baseline else None,
        device=case.device,
        threads=case.threads,
        compile_cache=plan.compile_cache,
        batch_dim=case.model.batch_dim,
        compile_options=canonical_json(mode.compile_options) if mode.compile_options else None,
        axes=canonical_json(dict(mode.axes)) if mode.axes else None,
        quantize=mode.quantize,
        model_kernels=canonical_json(case.kernels) if case.kernels else None,
        model_inputs=case.model.inputs_json,
    )


def _size(case: Case, name: str) -> int | None:
    argument = json.loads(case.model.args_json).get(name)
    whole = isinstance(argument, int) and not isinstance(argument, bool)
    return case.shape.get(name, argument if whole else None)


@dataclass(frozen=True)
class Findings:
    """All measured columns, and the flags that were raised while measuring."""

    checks: Checks = field(default_factory=Checks)
    regions: Regions = field(default_factory=Regions)
    quantized: Quantized = field(default_factory=Quantized)
    models_own: ModelsOwn = field(default_factory=ModelsOwn)
    first_pass: FirstPass = field(default_factory=FirstPass)
    size_latencies: SizeLatencies = field(default_factory=SizeLatencies)
    rounds: Rounds | None = None  # None: the case was not timed
    alone: Alone = field(default_factory=Alone)
    clocks: Clocks = field(default_factory=Clocks)
    cached_data: CachedData = field(default_factory=CachedData)
    calibration: Calibration = field(default_factory=Calibration)
    contention: Contention = field(default_factory=Contention)
    device_state: DeviceState = field(default_factory=DeviceState)
    loss_scaling: LossScaling = field(default_factory=LossScaling)
    step_parts: StepParts = field(default_factory=StepParts)
    code: GeneratedCode = field(default_factory=GeneratedCode)
    compiled_code: CompiledCode = field(default_factory=CompiledCode)
    compilations: Compilations = field(default_factory=Compilations)
    packaged: Packaged = field(default_factory=Packaged)
    starts: Starts = field(default_factory=Starts)
    profile: Profiled = field(default_factory=Profiled)
    setup: Setup = field(default_factory=Setup)
    memory: Memory = field(default_factory=Memory)
    snapshot: Snapshot = field(default_factory=Snapshot)
    work: WorkCounts = field(default_factory=WorkCounts)
    gap_steps: GapSteps = field(default_factory=GapSteps)
    ceilings: CeilingRates = field(default_factory=CeilingRates)
    flags: tuple[str, ...] = column("diagnostics raised while measuring", default=())


def add_flag(findings: Findings, flag: str) -> Findings:
    """Returns a copy of `findings` with one more flag."""
    return replace(findings, flags=(*findings.flags, flag))


def add_note(findings: Findings, names: Iterable[str], text: str | None) -> Findings:
    """Returns a copy of `findings` with `text`, if any, appended to the note columns in `names`."""
    for name in names:
        known = vars(findings).items()
        place, group = next((place, group) for place, group in known if hasattr(group, name))
        note = "; ".join(filter(None, (getattr(group, name), text))) or None
        changed: dict[str, Any] = {place: replace(group, **{name: note})}
        findings = replace(findings, **changed)
    return findings


@dataclass(frozen=True)
class Result:
    """What the process that measures a case reports to its parent.

    It may report a preliminary result, which counts if it dies later. `lost`: columns of notes, to
    which the reason of its death is added then.
    """

    status: Status
    reason: str | None  # why the status is not ok
    findings: Findings
    lost: tuple[str, ...] = ()  # columns of notes that say why if the process dies from here on


class Ended(Exception):
    """Raised to end the measuring of a case with a status other than ok."""

    def __init__(self, status: Status, reason: str, findings: Findings) -> None:
        self.result = Result(status, reason, findings)


@dataclass(frozen=True)
class Record:
    """All columns of one attempt at one case."""

    attempt: Attempt
    work: Work
    environment: Environment
    scheduling: Scheduling
    findings: Findings


StoredRow = Mapping[str, Any]
"""A row as it is stored: the columns of a record, and those of `bench.summary`, by name."""


@dataclass(frozen=True)
class Column:
    """A column of a row, as a dataclass declares it."""

    name: str
    hint: Any  # the type of its values
    doc: str
    group: type  # the dataclass that declares it


@cache
def columns_of(kind: type) -> tuple[Column, ...]:
    """Returns all columns of `Record`, or of one of its parts or groups, in order.

    Those of a group that may be None may be null.
    """
    hints, found = typing.get_type_hints(kind), list[Column]()
    for place in fields(kind):
        hint = hints[place.name]
        if "doc" in place.metadata:
            group = next(base for base in kind.__mro__ if place.name in get_annotations(base))
            found.append(Column(place.name, hint, place.metadata["doc"], group))
            continue
        group, *nothing = typing.get_args(hint) or (hint,)
        columns = columns_of(group)
        found += (
            (replace(nested, hint=nested.hint | None) for nested in columns) if nothing else columns
        )
    return tuple(found)


def row(part: Any) -> dict[str, Any]:
    """Returns all columns of a record, or of one of its parts or groups, by name, in order."""
    kind: type = type(part)
    values: dict[str, Any] = dict.fromkeys(column.name for column in columns_of(kind))
    for place in fields(part):
        value = getattr(part, place.name)
        if "doc" in place.metadata:
            values[place.name] = value
        elif value is not None:
            values |= row(value)
    return values
