"""Columns of what is measured: one group per measuring function, which returns that group.

Null where nothing was measured; no column is derived from others. Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


def column(doc: str, **default: Any) -> Any:
    """A field that is a column; `doc` is its entry in the data dictionary (results/README.md)."""
    return field(metadata={"doc": doc}, **default)


def nullable(doc: str) -> Any:
    """A column that is null unless it is given a value."""
    return column(doc, default=None)


@dataclass(frozen=True)
class Checks:
    """Whether the mode took effect and computes the right thing, and what its first call took."""

    in_effect: bool | None = nullable(
        "whether the mode did what its name says; false where torch ran something else"
    )
    in_effect_note: str | None = nullable("what torch ran instead, or what to know about the mode")
    matmul_precision: str | None = nullable("torch.get_float32_matmul_precision() while measuring")
    seen_grad: str | None = nullable("grad state in which the step called the model")
    seen_autocast: str | None = nullable("autocast dtype at that call; none where off")
    seen_weight_dtype: str | None = nullable("dtype of the weights at that call")
    changed_arguments: str | None = nullable(
        "places of the arguments that forward changes, such as [0] or ['x']: they are put back "
        "before every call, outside the clock; null where it changes none"
    )
    steady_operators: str | None = nullable(
        "operators by which a steady call differs from a call of a plain eager copy with new "
        "arguments; null where it runs the same ones, and where they cannot be listed"
    )
    checked: str | None = nullable(
        "how results were checked: exact (those of the timed step), without_randomness (those of a "
        "copy that is built and compiled the same, with its random numbers switched off), or not; "
        "null where the case ended before"
    )
    checked_note: str | None = nullable(
        "how the randomness was switched off, why results could not be checked, what error_limit "
        "rests on, or what the inputs of the check cannot show"
    )
    checked_inputs: str | None = nullable(
        "on which inputs results were checked, the first of these that plain eager takes: fresh "
        "(like the example, all redrawn), floats (only tensors of finite floats that are not all "
        "whole numbers are redrawn), rebuilt (the model's function called with other seeds), or "
        "example (alone, with one floating argument scaled if eager takes that); null where "
        "results are not compared with a reference"
    )
    checked_against: str | None = nullable(
        "what results were compared with, the first of these that computes what plain eager does: "
        "float64 (a copy of the model), fp32 (plain eager in it), or own (plain eager in the "
        "dtypes of the model); null where checked_inputs is"
    )
    error: float | None = nullable(
        "relative RMS error against `checked_against` of what `checked` names, of finite values; "
        "the worst output over two inputs (what a call writes into buffers counts as an output), "
        "or the worst loss, gradient or update over three steps of training"
    )
    error_place: str | None = nullable(
        "where that error is: an output, a buffer that forward writes, a loss, or the gradient or "
        "update of a parameter"
    )
    unchecked_outputs: str | None = nullable(
        "what forward returns beside the outputs that are compared: places and types, such as "
        "objects that hold no tensor as far as torch knows, and whole numbers beside floating "
        "outputs; null where there is none, and in training, where losses and gradients are "
        "compared"
    )
    eager_error: float | None = nullable(
        "the same error of plain eager at this dtype; null where checked_against is not float64"
    )
    baseline_error: float | None = nullable("the same error of the timed baseline")
    baseline_error_limit: float | None = nullable(
        "largest error accepted for the baseline unless max_error is larger"
    )
    error_limit: float | None = nullable(
        "largest error accepted for this case unless max_error is larger; 0 where the error of "
        "plain eager at this dtype is too large to judge any mode"
    )
    scale_error: float | None = nullable(
        "in training: how far the factor between a gradient or update and that of float64 is from "
        "1, where it comes nearest to its limit; a gradient that is 2 % too large has 0.02"
    )
    eager_scale_error: float | None = nullable("the largest such error of plain eager")
    scale_error_limit: float | None = nullable("largest scale_error accepted there")
    drawn_spread: float | None = nullable(
        "of a model that draws random numbers: how much its results differ from call to call, "
        "relative to eager (1: as much; 0: the same random numbers in every call)"
    )
    first_call_s: float | None = nullable(
        "time of the first call, with compiling, autotuning and capturing, without imports; where "
        "the compiler records CUDA graphs, which it does in the second call, of the first two"
    )
    baseline_first_call_s: float | None = nullable(
        "time of the baseline's first call; null where it compiles, as the case warmed its caches"
    )
    graphs: int | None = nullable("graphs that torch.compile made (Dynamo)")
    graph_breaks: int | None = nullable(
        "expressions of the model at which torch.compile broke its graph in the first call; one "
        "that is reached several times counts once, two on one line count as two; null for modes "
        "without torch.compile, where unknown, and where nothing was compiled and torch gave no "
        "reason"
    )
    graph_break_reasons: str | None = nullable(
        "JSON, in order of occurrence: the place of each break (file and line; null outside the "
        "model's code) and torch's reason; null where graph_breaks is null"
    )
    eager_functions: str | None = nullable(
        "JSON: names of the functions that run in eager because of a graph break, as a whole "
        "(after a break in a loop, for example) or from the break on; null where graph_breaks is "
        "null"
    )
    recompiles: int | None = nullable("compilations within the timed window")
    torch_warnings: str | None = nullable(
        "JSON: what torch warned of in the first call, printed or logged, each text once"
    )
    autotuned: int | None = nullable("choices the compiler benchmarked while autotuning")
    graph_launches: int | None = nullable("CUDA graph launches in one steady call")


@dataclass(frozen=True)
class Compilations:
    """What torch recorded of the compilations of the first call; null where there was none."""

    compiler_cache_hits: int | None = nullable(
        "graphs whose code came from the compiler's cache on disk"
    )
    compiler_cache_misses: int | None = nullable(
        "graphs whose code was not in that cache and was generated"
    )
    compile_phases_s: str | None = nullable(
        "JSON: seconds of each phase of compiling, without those inside it: dynamo (tracing), aot "
        "(AOTAutograd), inductor, kernels (compiling generated C++ or Triton code), autotune; "
        "loading from caches counts in the phase that asks for it"
    )
    recompile_reasons: str | None = nullable(
        "JSON: torch's reasons to compile the same code again, each once"
    )
    cudagraph_skip_reasons: str | None = nullable(
        "JSON: torch's reasons to run compiled code without a CUDA graph, each once"
    )


@dataclass(frozen=True)
class FirstPass:
    """The first pass over calls of different sizes; null with calls=repeat."""

    first_pass_s: str | None = nullable("JSON: time of each call of the first pass, in order")
    compiled_calls: str | None = nullable(
        "JSON: the calls in which torch compiled, each with its number from 1, its time in seconds "
        "and torch's reason to compile again; larger numbers belong to a second pass, in which the "
        "compiler records CUDA graphs"
    )
    eager_from_call: int | None = nullable(
        "the first call that runs the model's own code although the mode compiles; null without one"
    )
    eager_calls: int | None = nullable("how many calls of a pass do that; null in eager")


@dataclass(frozen=True)
class SizeLatencies:
    """Latency at each size, after the first pass; null with calls=repeat."""

    size_latencies_s: str | None = nullable(
        "JSON: by size before padding, the median latency of the case and, where there is one, of "
        "the baseline, whose calls were taken in turns"
    )


@dataclass(frozen=True)
class ModelsOwn:
    """What the model itself does to torch, whatever the mode; null where it does nothing."""

    settings_put_back: str | None = nullable(
        "JSON: torch's settings that building the model or its first calls changed, such as "
        "`threads 1 → 2`, and that were put back before timing"
    )
    settings_in_calls: str | None = nullable(
        "JSON: torch's settings that the timed calls changed, so that they are not those of the row"
    )
    own_graphs: int | None = nullable(
        "graphs that code of the model compiled by itself in eager: then the baseline is compiled "
        "in part"
    )


@dataclass(frozen=True)
class Rounds:
    """Case and baseline in paired rounds, or the case alone; durations in seconds."""

    warmup_s: float | None = nullable("warm-up of case and baseline")
    timed_s: float | None = nullable("duration of the timed rounds")
    calls_per_round: int | None = nullable("timed calls of the case in each round")
    latency_rounds_s: tuple[float, ...] | None = nullable(
        "per round: median latency of the case's calls"
    )
    baseline_latency_rounds_s: tuple[float, ...] | None = nullable(
        "per round: median latency of the baseline's calls, paired by position"
    )
    case_ran_first: tuple[bool, ...] | None = nullable(
        "per round: whether the case ran before the baseline"
    )
    pace_rounds_s: tuple[float, ...] | None = nullable(
        "per round: time of a fixed piece of Python code, which shows how fast the machine was"
    )
    best_pace_s: float | None = nullable(
        "shortest time of that code (5th percentile of a run's rounds) in any run on this machine "
        "with the same results_dir, this one included; null below 12 rounds"
    )
    stopped_early: bool | None = nullable(
        "whether the speedup's interval lay wholly below 0.8 after the pilot, so that a sweep "
        "ended the rounds at a half-width of 5 % and read other clocks in no more rounds than a "
        "pilot has; always false where a case is measured alone, in replicates, in a versus, or "
        "with budget=thorough"
    )
    latency_calls_s: tuple[float, ...] | None = nullable(
        "latency of single calls of the case in order, thinned to a few thousand"
    )


@dataclass(frozen=True)
class Clocks:
    """Several clocks in rounds of their own: position i of each column is round i.

    Rounds in which a clock failed are left out of all columns; a clock that failed in most is null.
    """

    clocks_latency_rounds_s: tuple[float, ...] | None = nullable(
        "per round of the clocks: median latency of the case's calls, to which the other clocks of "
        "the round are related"
    )
    clocks_pace_rounds_s: tuple[float, ...] | None = nullable(
        "per round of the clocks: time of a fixed piece of Python code, as pace_rounds_s"
    )
    host_rounds_s: tuple[float, ...] | None = nullable(
        "per round of the clocks: how long the host is busy issuing one call, without waiting for "
        "its result"
    )
    pipelined_rounds_s: tuple[float, ...] | None = nullable(
        "per round of the clocks: time that one further call adds when calls follow each other "
        "without waiting"
    )
    pipelined_note: str | None = nullable("why pipelined_rounds_s is null")
    device_rounds_s: tuple[float, ...] | None = nullable(
        "per round of the clocks: device time of one call, launches queued before the device "
        "starts; null on a CPU"
    )
    baseline_device_rounds_s: tuple[float, ...] | None = nullable(
        "the same for the baseline's call; null also where the baseline has no device time"
    )
    device_note: str | None = nullable("why device_rounds_s is null")
    device_calls: int | None = nullable(
        "calls queued before the device starts in each block of device_rounds_s; null where that is"
    )
    device_calls_wanted: int | None = nullable(
        "calls that make such a block long enough for the resolution of CUDA events; larger than "
        "device_calls where they do not fit in the queue"
    )
    dispatch_rounds_s: tuple[float, ...] | None = nullable(
        "per round of the clocks: host time of the same call on an empty batch, which does no work"
    )
    baseline_dispatch_rounds_s: tuple[float, ...] | None = nullable(
        "the same for the baseline's call; null also where the baseline has no dispatch"
    )
    dispatch_note: str | None = nullable("why dispatch_rounds_s is null, or what to know about it")
    clocks_s: float | None = nullable(
        "time spent measuring these clocks, including the compilation that dispatch may need"
    )


@dataclass(frozen=True)
class Calibration:
    """Costs of measuring itself, not subtracted from any figure."""

    synchronize_s: float | None = nullable("cost of a synchronise on an idle device")
    timer_resolution_s: float | None = nullable("smallest observed step of the clock")
    timer_cost_s: float | None = nullable("cost of one reading of the clock")
    empty_step_s: float | None = nullable(
        "latency of a call that does nothing: the harness's part of every latency, not subtracted"
    )
    event_interval_s: float | None = nullable(
        "device time between two marks with nothing between them: the harness's part of every "
        "block of device time, not subtracted; null on a CPU"
    )


@dataclass(frozen=True)
class Contention:
    """What other work used the machine's cores while the case was timed."""

    watched_s: float | None = nullable(
        "wall time of warm-up and timing, which the next five columns cover"
    )
    cpu_wait_s: float | None = nullable(
        "how long the measuring thread was ready to run but had no core"
    )
    involuntary_switches: int | None = nullable(
        "involuntary context switches of the measuring thread"
    )
    others_cpu_s: float | None = nullable(
        "CPU time of all other processes, on all cores together, to 10 ms; in a virtual machine it "
        "includes time that the host took"
    )
    machine_cores: int | None = nullable("logical cores of the machine, which others_cpu_s covers")
    cgroup_throttled_s: float | None = nullable(
        "how long CPU quotas stopped the process's cgroup or its parents"
    )


@dataclass(frozen=True)
class DeviceState:
    """The device's clock and other processes on it at a few moments."""

    device_clock_hz: tuple[float, ...] | None = nullable(
        "clock of the GPU before warm-up and after timing; null on a CPU"
    )
    throttle_reasons: tuple[str, ...] | None = nullable(
        "why the clock was lowered between these moments: for a GPU the reasons that NVML gave at "
        "the second (sw_power_cap, hw_slowdown, sw_thermal, hw_thermal, "
        "hw_power_brake), for a CPU cpu_thermal; empty: no reason; null: unknown"
    )
    gpu_processes: int | None = nullable(
        "most other processes with a compute context on the GPU at these moments, without those "
        "that started this one and wait for it; null on a CPU and where NVML does not say"
    )


@dataclass(frozen=True)
class LossScaling:
    """What GradScaler does; null for inference."""

    loss_scale: float | None = nullable(
        "GradScaler's scale in the first step: a quarter of the largest at which no gradient "
        "overflowed; null without GradScaler"
    )
    overflow_skipped: bool | None = nullable(
        "whether GradScaler skipped a step whose gradients were made to overflow, and no other; "
        "null without GradScaler, and where no gradient can be made to overflow"
    )


@dataclass(frozen=True)
class StepParts:
    """The parts of a training step; null for inference."""

    forward_rounds_s: tuple[float, ...] | None = nullable(
        "per block, in a separate pass that waits for each part: forward and loss"
    )
    backward_rounds_s: tuple[float, ...] | None = nullable("the same for the backward of the loss")
    optimizer_rounds_s: tuple[float, ...] | None = nullable(
        "the same for the optimizer's step, and for dropping the gradients before the next"
    )
    scaler_rounds_s: tuple[float, ...] | None = nullable(
        "the same for scaling the loss, unscaling the gradients (unless a fused optimizer does it) "
        "and updating the scale; null without GradScaler"
    )
    parts_latency_rounds_s: tuple[float, ...] | None = nullable(
        "per block of this pass: latency of the whole step, to which its parts are related"
    )
    parts_note: str | None = nullable("why these are null, or what to know about them")


@dataclass(frozen=True)
class GeneratedCode:
    """Code that the compiler generated in the case's first call; null where it compiled nothing."""

    generated_kernels: int | None = nullable("calls of generated kernels in one call of the case")
    extern_calls: int | None = nullable(
        "calls from generated code to operators and libraries, such as matrix products"
    )
    fallback_kernels: str | None = nullable(
        "JSON: names of operators that generated code calls through torch's dispatcher, because "
        "the compiler generates no kernel and calls no library for them"
    )
    bytes_accessed: int | None = nullable(
        "bytes that all of these read and write, as counted by the compiler"
    )


@dataclass(frozen=True)
class Profiled:
    """One steady call under the profiler: of several, the one with the median span at equal pace.

    Operators are those of the dispatcher. Kernels are the GPU's; on a CPU a kernel is the outermost
    operator that does work of its own, or a fused C++ kernel (which shows in the profile after the
    case was compiled once more).
    """

    ops_dispatched: int | None = nullable(
        "operators called by Python, autograd or compiled code, not by other operators"
    )
    ops_leaf: int | None = nullable("operators that call no further operator")
    leaf_ops_s: float | None = nullable(
        "time of ops_leaf under the profiler, without what other operators compute themselves"
    )
    kernels: int | None = nullable(
        "kernels that ran; on a CPU operators that do work of their own, and fused C++ kernels"
    )
    kernels_s: float | None = nullable("sum of the kernels' times, overlaps included")
    launches: int | None = nullable(
        "kernels launched one by one, without those of a replayed graph; null on a CPU"
    )
    copies: int | None = nullable("copies by the CUDA API; null on a CPU")
    fills: int | None = nullable("fills by the CUDA API; null on a CPU")
    device_busy_s: float | None = nullable(
        "time in which a kernel, copy or fill runs on any stream"
    )
    profiled_kernels_rounds_s: tuple[float, ...] | None = nullable(
        "kernels_s of every profiled call; null on a GPU"
    )
    profiled_latency_rounds_s: tuple[float, ...] | None = nullable(
        "beside every profiled call: latency of the same code without the profiler, mean of the "
        "calls before and after; null on a GPU"
    )
    profiled_pace_s: float | None = nullable(
        "time of the fixed piece of Python code beside this call, as pace_rounds_s"
    )
    guards_s: float | None = nullable(
        "time of looking up compiled code in that call: its guards are checked; null where no "
        "compiled code was called"
    )
    compiled_wrapper_s: float | None = nullable(
        "time of the Python around compiled graphs in that call, from the lookup to the graph and "
        "back, under the profiler; null where no compiled code was called"
    )
    profiled_span_s: float | None = nullable(
        "from the start of the call to its end or the end of its last kernel, whichever is later"
    )
    launch_delay_s: float | None = nullable(
        "median time from the start of a launch to the start of its first kernel; null on a CPU"
    )
    heaviest_kernels: str | None = nullable(
        'the ten kernels with the most time, JSON: [{"name", "count", "seconds"}, ...]; their '
        "seconds are part of kernels_s"
    )
    heaviest_ops: str | None = nullable(
        "the same for operators, by their time without that of operators they call"
    )
    profiler_overhead: float | None = nullable(
        "latency under the profiler divided by latency without it; on a CPU of calls in turns"
    )
    profile_note: str | None = nullable(
        "why columns of the profiler pass are null, or what to know about them"
    )
    trace: str | None = nullable("file in the study's folder of traces; null where none is kept")


@dataclass(frozen=True)
class Memory:
    """What the memory of one variant consists of."""

    weights_bytes: int | None = nullable("parameters and buffers, shared storage counted once")
    buffers_bytes: int | None = nullable(
        "part of weights_bytes in buffers: a KV cache, tables, statistics of batch norm"
    )
    input_bytes: int | None = nullable("inputs, shared storage counted once")
    gradient_bytes: int | None = nullable(
        "gradients of parameters after a step; null for inference"
    )
    optimizer_state_bytes: int | None = nullable(
        "what the optimizer keeps from step to step, such as moments; null for inference"
    )
    resident_bytes: int | None = nullable(
        "all tensors of the process between two calls; what exceeds weights and inputs is held by "
        "the mode or by the harness"
    )
    saved_activation_bytes: int | None = nullable(
        "most that one call saves for a backward: each storage once, without weights, buffers and "
        "inputs, with casted copies of weights that backward needs; null where forward and "
        "backward are captured graphs"
    )
    autocast_copy_bytes: int | None = nullable(
        "most that low-precision copies of weights take at one time within a call; 0 without "
        "autocast"
    )
    step_peak_bytes: int | None = nullable(
        "peak memory of a steady call above what is held between calls; on a CPU as requested, on "
        "CUDA in blocks of 512 bytes. A training step first drops the gradients held since the "
        "last step, so activations show only as far as they exceed the gradients"
    )
    step_requested_bytes: int | None = nullable("the same before the allocator rounded sizes up")
    step_left_bytes: int | None = nullable(
        "memory held after a steady call minus before it; anything but 0 grows with every call"
    )
    allocations_per_call: int | None = nullable("allocations in a steady call")
    releases_per_call: int | None = nullable("releases in a steady call")
    allocated_bytes_per_call: int | None = nullable(
        "bytes of all allocations in a steady call, however short-lived"
    )
    reserved_bytes: int | None = nullable(
        "held by the caching allocator after a steady call, used or not; null on a CPU"
    )
    graph_pool_bytes: int | None = nullable(
        "part of reserved_bytes that only CUDA graphs use, including what cuBLAS took during "
        "captures; null on a CPU"
    )
    graph_pool_live_bytes: int | None = nullable(
        "part of graph_pool_bytes held by tensors between two calls, so in resident_bytes too; "
        "null on a CPU"
    )
    memory_note: str | None = nullable("why any of these is null")


@dataclass(frozen=True)
class Snapshot:
    """The file for PyTorch's memory viewer."""

    snapshot: str | None = nullable(
        "file in the study's folder of traces for PyTorch's memory viewer: one steady call; null "
        "where none is kept"
    )
    snapshot_note: str | None = nullable(
        "why no snapshot is kept, or what it lacks; null where none is made: on a CPU, and where "
        "the study keeps no files of this run"
    )


@dataclass(frozen=True)
class Setup:
    """What the first call took: compiling, autotuning and capturing included."""

    setup_peak_bytes: int | None = nullable(
        "most memory taken during the first call, above what was held before it"
    )
    setup_peak_note: str | None = nullable(
        "what was measured instead of the allocator's peak, or why there is none"
    )


@dataclass(frozen=True)
class WorkCounts:
    """How much work one call is."""

    flops: int | None = nullable(
        "FLOPs of matrix products, convolutions and attention in one call; a multiply-add is two; "
        "what activation checkpointing computes again counts again"
    )
    least_bytes: int | None = nullable(
        "weights and inputs read once, outputs written once; in training also the trained weights "
        "and the optimizer's state"
    )
    eager_bytes: int | None = nullable(
        "bytes of the arguments and results of all operators of plain eager, views excepted: the "
        "traffic without fusion, to compare with bytes_accessed"
    )
    subnormal: str | None = nullable(
        "JSON, on a CPU: weights, buffers, inputs and results of operators of which at least 1 % "
        "are subnormal numbers, with the share; null without any"
    )
    work_note: str | None = nullable(
        "why any of these is null, or what to know about the two ceilings"
    )


@dataclass(frozen=True)
class CeilingRates:
    """The highest rates of the device."""

    ceiling_flops_per_s: float | None = nullable(
        "highest rate of a large matrix product on the device at this dtype"
    )
    ceiling_bytes_per_s: float | None = nullable(
        "highest bandwidth of a copy or a read that moves least_bytes or more"
    )
