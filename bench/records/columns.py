"""The measured columns in groups. Each measuring function returns one group.

A column is null if nothing was measured; no column is derived from others. The columns that
describe the attempt and its case are in `bench.records.results`, the columns of the machine in
`bench.records.environment`. Imports no package.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from modescope.bench.records.outcomes import Checked


def column(doc: str, **default: Any) -> Any:
    """Returns a dataclass field for a column; `doc` is its text in results/README.md.

    `default` goes to `dataclasses.field`: the column's default value, if it has one.
    """
    return field(metadata={"doc": doc}, **default)


def nullable(doc: str) -> Any:
    """Returns a dataclass field for a column that is None (null) by default."""
    return column(doc, default=None)


def estimate_columns(name: str) -> tuple[str, str, str]:
    """Returns the columns of an estimate: its value (`name`) and its interval's low and high end.

    For `latency_s` these are `latency_s`, `latency_ci_low_s` and `latency_ci_high_s`.
    """
    unit = "_s" if name.endswith("_s") else ""
    stem = name.removesuffix(unit)
    return name, f"{stem}_ci_low{unit}", f"{stem}_ci_high{unit}"


@dataclass(frozen=True)
class Checks:
    """Whether the mode took effect and its results are right, and how long its first call took."""

    in_effect: bool | None = nullable(
        "whether the mode did what its name says; false if torch ran something else"
    )
    in_effect_note: str | None = nullable(
        "what torch ran instead, or what to know about the mode, such as a variable that changes it"
    )
    matmul_precision: str | None = nullable(
        "torch.get_float32_matmul_precision() while measuring; null in bf32, which it cannot tell"
    )
    seen_grad: str | None = nullable("grad state in which the model was called")
    seen_autocast: str | None = nullable("dtype of autocast at that call, or none")
    seen_weight_dtype: str | None = nullable("dtypes of the weights at that call")
    seen_attention: str | None = nullable(
        "operators of attention that ran in a call where mode.attention is set, JSON; empty where "
        "the compiler made others of math"
    )
    seen_axes: str | None = nullable(
        "values of the mode's further axes at that call that are not their defaults, JSON"
    )
    layout_kept: bool | None = nullable(
        "true where the mode reads weights of its own, in a package or frozen, whose places in "
        "memory are not drawn anew between rounds: the speedup's interval lacks that part of the "
        "noise"
    )
    named_inputs: bool | None = nullable("true where the model takes its inputs by name")
    changed_arguments: str | None = nullable(
        "arguments that forward changes; they are put back before every call, untimed"
    )
    changed_state: str | None = nullable(
        "parameters, buffers and attributes that forward changes; they are put back before every "
        "call, untimed"
    )
    state_left: str | None = nullable(
        "attributes that forward may change and that cannot be put back"
    )
    dtypes_kept: str | None = nullable(
        "dtypes of weights, buffers and inputs, as they were built, that no variant changes; null "
        "if all floats are fp32"
    )
    steady_operators: str | None = nullable(
        "operators by which a steady call differs from a call of plain eager; null if by none"
    )
    checked: Checked | None = nullable(  # noqa: RUF009 (an enum cannot be changed)
        "exact (results of the timed step), without_randomness (of a copy without random numbers) "
        "or not"
    )
    checked_note: str | None = nullable(
        "how randomness was switched off, why nothing was checked, or what the check cannot show"
    )
    checked_inputs: str | None = nullable(
        "inputs of the check: fresh (all redrawn), floats (those redrawn), rebuilt (other seeds) "
        "or example"
    )
    checked_against: str | None = nullable(
        "reference of the check: float64, fp32, or own (plain eager in the model's dtypes)"
    )
    error: float | None = nullable(
        "relative RMS error against that reference: the worst output of two inputs, or the worst "
        "loss, gradient or update of three steps"
    )
    error_place: str | None = nullable("output, buffer, loss or parameter with that error")
    unchecked_outputs: str | None = nullable(
        "what forward returns and the check does not compare, or whose difference rounding explains"
    )
    eager_error: float | None = nullable(
        "error of plain eager at this dtype; null unless something is compared with float64"
    )
    baseline_note: str | None = nullable("why the baseline failed, so that there is no speedup")
    baseline_error: float | None = nullable(
        "error of the timed baseline; null if there was nothing to compare"
    )
    baseline_error_limit: float | None = nullable(
        "largest error of the baseline that is accepted without max_error"
    )
    error_limit: float | None = nullable(
        "the same for this case; 0 if plain eager's own error is too large to judge a mode by"
    )
    scale_error: float | None = nullable(
        "in training: how far gradients or updates are from float64's by a common factor (0.02: 2 "
        "%)"
    )
    eager_scale_error: float | None = nullable("the same for plain eager")
    scale_error_limit: float | None = nullable("largest scale_error that is accepted")
    drawn_spread: float | None = nullable(
        "of a model with random numbers: how much results differ between calls, relative to eager"
    )
    first_call_s: float | None = nullable(
        "first call with compiling, tuning and capturing; if the compiler records CUDA graphs, "
        "the first two"
    )
    baseline_first_call_s: float | None = nullable(
        "the same for the baseline; null if it compiles, as the case warmed its caches"
    )
    graphs: int | None = nullable("graphs that torch.compile made")
    graph_breaks: int | None = nullable(
        "expressions at which torch.compile broke its graph, each once; null if nothing was "
        "compiled"
    )
    graph_break_reasons: str | None = nullable("place and reason of each break, JSON")
    eager_functions: str | None = nullable("functions that a graph break leaves in eager, JSON")
    recompiles: int | None = nullable("compilations while the rounds were timed")
    torch_warnings: str | None = nullable("warnings of torch in the first call, JSON")
    autotuned: int | None = nullable("choices that the compiler timed to tune")
    graph_launches: int | None = nullable("CUDA graph launches in a steady call")


@dataclass(frozen=True)
class Regions:
    """Blocks that are compiled one by one (mode.regions=blocks); null if the whole model is."""

    regions: int | None = nullable("repeated blocks of the model")
    regions_called: int | None = nullable("those that a call runs as compiled code")
    region_names: str | None = nullable("their names in the model, JSON")


@dataclass(frozen=True)
class Compilations:
    """What torch recorded of the compilations of the first call; null if there was none."""

    compiler_cache_hits: int | None = nullable(
        "graphs whose code came from the compiler's cache on disk"
    )
    compiler_cache_misses: int | None = nullable("graphs whose code was generated")
    compile_phases_s: str | None = nullable(
        "time in each phase alone, JSON: dynamo, aot, inductor, kernels, autotune"
    )
    recompile_reasons: str | None = nullable("torch's reasons to compile the same code again, JSON")
    cudagraph_skip_reasons: str | None = nullable(
        "torch's reasons to run compiled code without a CUDA graph, JSON"
    )


@dataclass(frozen=True)
class Packaged:
    """A package that was built ahead of time, in a process of its own; null for other modes."""

    package_export_s: float | None = nullable("time to export the model (torch.export)")
    package_build_s: float | None = nullable(
        "time to compile and package what was exported; with compile_cache=warm with what earlier "
        "builds left in the user's caches"
    )
    package_load_s: float | None = nullable("time to load the package; part of first_call_s")
    package_bytes: int | None = nullable("size of the package's file, which has the weights, too")


@dataclass(frozen=True)
class FirstPass:
    """The first pass over calls of different sizes; null if calls are equal (calls=repeat)."""

    first_pass_s: str | None = nullable("JSON: time of each call of the first pass, in order")
    compiled_calls: str | None = nullable(
        "JSON: the calls in which torch compiled, each with its number from 1, its time in seconds "
        "and torch's reason to compile again"
    )
    gave_up_at_call: int | None = nullable(
        "the call at which torch reached its limit of compilations; null without one"
    )
    eager_calls: str | None = nullable(
        "JSON: numbers of the calls of a later pass that run in eager since then; null without"
    )


@dataclass(frozen=True)
class SizeLatencies:
    """Latency at each size, after the first pass; null if calls are equal (calls=repeat)."""

    size_latencies_s: str | None = nullable(
        "JSON: by size before padding, the median latency of the case and, where there is one, of "
        "the baseline, whose calls were taken in turns"
    )


@dataclass(frozen=True)
class ModelsOwn:
    """Settings of torch that the model changes, and graphs that it compiles, in every mode."""

    settings_put_back: str | None = nullable(
        "torch's settings that building or first calls changed, put back before timing, JSON"
    )
    settings_in_calls: str | None = nullable("torch's settings that timed calls changed, JSON")
    own_graphs: int | None = nullable(
        "graphs that the model compiled by itself, in the baseline too"
    )


@dataclass(frozen=True, kw_only=True)
class Rounds:
    """Timed rounds of case and baseline in pairs, or of the case alone; durations in seconds."""

    warmup_s: float | None = nullable("warm-up of case and baseline")
    timed_s: float = column("duration of the timed rounds")
    calls_per_round: int = column("timed calls of the case in a round")
    latency_rounds_s: tuple[float, ...] = column("median latency of the case's calls")
    baseline_latency_rounds_s: tuple[float, ...] | None = nullable("the same for the baseline")
    case_ran_first: tuple[bool, ...] | None = nullable("whether the case ran before the baseline")
    pace_rounds_s: tuple[float, ...] | None = nullable(
        "time of a fixed piece of Python code: how fast the machine was"
    )
    rounds_left_out: int | None = nullable(
        "further rounds, in which another program took a core from this process while a call was "
        "timed; 0 too if so few others would be left that all are kept"
    )
    rounds_again: bool | None = nullable(
        "whether a GPU's rounds were played once more, as the host was slow in nearly all of the "
        "first; these are the better ones; null on a CPU"
    )
    best_pace_s: float | None = nullable(
        "shortest time of that code (5th percentile of a run) in all runs of these results here"
    )
    stopped_early: bool | None = nullable(
        "whether a sweep ended the rounds early at a speedup below 0.8"
    )
    latency_calls_s: tuple[float, ...] | None = nullable(
        "single calls of the case, thinned to a few thousand"
    )


@dataclass(frozen=True)
class Clocks:
    """Times by several timers (clocks), in rounds of their own; position i is round i.

    Rounds in which a clock failed are left out of all columns; a clock that failed in most is null.
    """

    clocks_latency_rounds_s: tuple[float, ...] | None = nullable(
        "median latency of the case's calls, to which the others are related"
    )
    host_rounds_s: tuple[float, ...] | None = nullable("how long the host is busy issuing a call")
    pipelined_rounds_s: tuple[float, ...] | None = nullable(
        "time that a further call adds if nothing waits"
    )
    pipelined_note: str | None = nullable("why pipelined_rounds_s is null")
    device_rounds_s: tuple[float, ...] | None = nullable(
        "device time of a call, launches queued ahead; null on a CPU"
    )
    baseline_device_rounds_s: tuple[float, ...] | None = nullable("the same for the baseline")
    device_note: str | None = nullable("why device_rounds_s is null")
    device_calls: int | None = nullable("calls that are queued before the device starts")
    device_calls_wanted: int | None = nullable(
        "calls that the resolution of CUDA events asks for, though they may not fit the queue"
    )
    dispatch_rounds_s: tuple[float, ...] | None = nullable(
        "host time of the same call on an empty batch, which does no work"
    )
    baseline_dispatch_rounds_s: tuple[float, ...] | None = nullable("the same for the baseline")
    dispatch_note: str | None = nullable("why dispatch_rounds_s is null, or what to know about it")
    clocks_s: float | None = nullable("time spent on these clocks")


@dataclass(frozen=True)
class Calibration:
    """What measuring itself costs. It is not subtracted from any number."""

    synchronize_s: float | None = nullable("synchronise on an idle device")


@dataclass(frozen=True)
class Contention:
    """How much other work used the machine's cores while the case was timed."""

    watched_s: float | None = nullable("wall time of warm-up and timing, which these columns cover")
    cpu_wait_s: float | None = nullable(
        "time for which the measuring thread was ready and had no core"
    )
    others_cpu_s: float | None = nullable(
        "CPU time of all other processes, to 10 ms; on a virtual machine of its host too"
    )
    machine_cores: int | None = nullable("logical cores that others_cpu_s covers")
    cgroup_throttled_s: float | None = nullable("time for which CPU quotas stopped the process")


@dataclass(frozen=True)
class DeviceState:
    """The device's clock rate, and other processes on the device, at a few moments."""

    device_clock_hz: tuple[float, ...] | None = nullable(
        "clock of the GPU before warm-up, after the rounds of latency, and after those of all "
        "clocks; null on a CPU"
    )
    throttle_reasons: tuple[str, ...] | None = nullable(
        "why it was lowered: NVML's reasons, or cpu_thermal; empty: nothing; null: unknown"
    )
    gpu_processes: int | None = nullable(
        "other processes that compute on the GPU; null if NVML does not say"
    )


@dataclass(frozen=True)
class Alone:
    """The case's calls after the rounds, without the baseline's in between; null on a CPU."""

    latency_alone_s: float | None = nullable("median latency of the case's calls in a block")
    clock_alone_hz: float | None = nullable("clock of the GPU right after that block")
    throttle_alone: tuple[str, ...] | None = nullable(
        "why it was lowered meanwhile: NVML's reasons; empty: nothing; null: unknown"
    )


@dataclass(frozen=True)
class LossScaling:
    """What GradScaler did; null for inference."""

    loss_scale: float | None = nullable(
        "GradScaler's scale in the first step: a quarter of the largest without an overflow"
    )
    overflow_skipped: bool | None = nullable(
        "whether it skipped exactly the step that was made to overflow; null if none can be"
    )


@dataclass(frozen=True)
class StepParts:
    """The parts of a training step; null for inference."""

    forward_rounds_s: tuple[float, ...] | None = nullable("forward and loss")
    backward_rounds_s: tuple[float, ...] | None = nullable("backward")
    optimizer_rounds_s: tuple[float, ...] | None = nullable(
        "the optimizer's step and dropping the gradients"
    )
    scaler_rounds_s: tuple[float, ...] | None = nullable(
        "GradScaler's own operations; null without one"
    )
    parts_latency_rounds_s: tuple[float, ...] | None = nullable(
        "the whole step, to which its parts are related"
    )
    parts_note: str | None = nullable("why these are null, or what to know about them")


@dataclass(frozen=True)
class GeneratedCode:
    """Code that the compiler generated in the case's first call; null if it compiled nothing.

    Numbers are null, too, where blocks share code (mode.regions=blocks).
    """

    generated_kernels: int | None = nullable("calls of generated kernels in a call of the case")
    extern_calls: int | None = nullable("calls from generated code to operators and libraries")
    fallback_kernels: str | None = nullable(
        "operators among these that go through torch's dispatcher, JSON"
    )
    bytes_accessed: int | None = nullable(
        "bytes that all of these read and write, as the compiler counts"
    )


@dataclass(frozen=True)
class CompiledCode:
    """What identifies that code, and the weights that it holds; null if nothing was compiled.

    Those of weights are null, too, unless mode.freezing is true of the case or its baseline.
    """

    code_hash: str | None = nullable(
        "hash of Inductor's code without comments and folders: equal for equal code"
    )
    frozen_weights: int | None = nullable("parameters and buffers that became constants of it")
    packed_weights: int | None = nullable(
        "weights that Inductor stored anew in the layout of a library's kernels"
    )


@dataclass(frozen=True)
class Profiled:
    """One steady call under the profiler: of several, the one of median duration.

    The durations are first related to the machine's speed beside each call. Operators are those
    that torch's dispatcher calls. Kernels are the GPU's; on a CPU a kernel is the outermost
    operator that does work of its own, or a generated C++ function, which may hold several loops
    (and shows in the profile after the case was compiled once more).
    """

    ops_dispatched: int | None = nullable("operators that no other operator called")
    ops_leaf: int | None = nullable("operators that call no other operator")
    leaf_ops_s: float | None = nullable("time of ops_leaf")
    kernels: int | None = nullable("kernels that ran")
    kernels_s: float | None = nullable("sum of their times, overlaps included")
    launches: int | None = nullable("kernels launched one by one, not by a graph; null on a CPU")
    copies: int | None = nullable("copies by the CUDA API; null on a CPU")
    fills: int | None = nullable("fills by the CUDA API; null on a CPU")
    device_busy_s: float | None = nullable("time in which a kernel, copy or fill runs")
    profiled_kernels_rounds_s: tuple[float, ...] | None = nullable(
        "kernels_s of every profiled call; null on a GPU"
    )
    profiled_latency_rounds_s: tuple[float, ...] | None = nullable(
        "latency of the same code without the profiler, beside every such call; null on a GPU"
    )
    profiled_pace_s: float | None = nullable("time of the fixed Python code beside this call")
    guards_s: float | None = nullable(
        "looking up compiled code, with its guards; null if none was called"
    )
    compiled_wrapper_s: float | None = nullable(
        "the Python around compiled graphs; null if none was called"
    )
    profiled_span_s: float | None = nullable(
        "from the start of the call to its end, or that of its last kernel"
    )
    launch_delay_s: float | None = nullable(
        "median time from a launch to the start of its kernel; null on a CPU"
    )
    heaviest_kernels: str | None = nullable("the ten kernels with the most time, JSON")
    heaviest_ops: str | None = nullable("the ten operators with the most time of their own, JSON")
    profiler_overhead: float | None = nullable("latency under the profiler ÷ latency without")
    profile_note: str | None = nullable("why these are null, or what to know about them")
    trace: str | None = nullable("file in the study's folder of traces")


@dataclass(frozen=True)
class Memory:
    """What the memory of one variant consists of."""

    weights_bytes: int | None = nullable("parameters and buffers, shared storage counted once")
    input_bytes: int | None = nullable("inputs, shared storage counted once")
    gradient_bytes: int | None = nullable(
        "gradients of the parameters after a step; null for inference"
    )
    optimizer_state_bytes: int | None = nullable(
        "what the optimizer keeps between steps; null for inference"
    )
    resident_bytes: int | None = nullable("all tensors of the process between two calls")
    workspace_bytes: int | None = nullable(
        "part of that in cuBLAS's workspaces, one for each stream; null on a CPU"
    )
    saved_activation_bytes: int | None = nullable(
        "most that a call saves for backward, besides weights and inputs; null if both are "
        "captured graphs"
    )
    autocast_copy_bytes: int | None = nullable(
        "most that low-precision copies of weights take at once; 0 without autocast"
    )
    step_peak_bytes: int | None = nullable(
        "peak of a steady call above what is held between calls; a training step first drops the "
        "last gradients"
    )
    step_left_bytes: int | None = nullable(
        "memory held after a call minus before; above 0 it grows with every call"
    )
    allocations_per_call: int | None = nullable("allocations")
    allocated_bytes_per_call: int | None = nullable("bytes of all allocations, however short-lived")
    reserved_bytes: int | None = nullable(
        "held by the caching allocator after a call; null on a CPU"
    )
    graph_pool_bytes: int | None = nullable("reserved for CUDA graphs alone; null on a CPU")
    graph_pool_live_bytes: int | None = nullable(
        "part of that in tensors between calls, so in resident_bytes too; null on a CPU"
    )
    memory_note: str | None = nullable("why any of these is null")


@dataclass(frozen=True)
class Snapshot:
    """A memory snapshot: a file for PyTorch's memory viewer."""

    snapshot: str | None = nullable(
        "file in the study's folder of traces for PyTorch's memory viewer: one steady call"
    )
    snapshot_note: str | None = nullable("why there is none on a GPU, or what it lacks")


@dataclass(frozen=True)
class Setup:
    """Memory that the first call took, with compiling, autotuning and capturing."""

    setup_peak_bytes: int | None = nullable(
        "most memory that the first call took above what was held before"
    )
    setup_peak_note: str | None = nullable(
        "what was measured instead of the allocator's peak, or why nothing was"
    )


@dataclass(frozen=True)
class WorkCounts:
    """The work of one call: operations and bytes."""

    flops: int | None = nullable(
        "of matrix products, convolutions and attention (causal: what is not masked); a "
        "multiply-add is two; recomputation counts again"
    )
    least_bytes: int | None = nullable(
        "weights and inputs read once, outputs written once; in training trained weights and "
        "optimizer state too"
    )
    eager_bytes: int | None = nullable(
        "arguments and results of all operators of plain eager but views: the traffic without "
        "fusion"
    )
    subnormal: str | None = nullable(
        "tensors of which at least 1 % are subnormal numbers, with the share, JSON; null if none "
        "is, and on a GPU"
    )
    work_note: str | None = nullable("why any of these is null, or what to know about the ceilings")


@dataclass(frozen=True)
class CeilingRates:
    """The highest rates that were measured on the device."""

    ceiling_flops_per_s: float | None = nullable(
        "highest rate of a large matrix product at this dtype"
    )
    ceiling_bytes_per_s: float | None = nullable(
        "highest bandwidth of a copy or read of least_bytes or more"
    )
