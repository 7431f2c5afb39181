"""What can be found out about a case, one group of columns for each way to find out.

Standard library only. Null where it could not be found out; nothing here is derived. The text given
to `column` is the column's entry in the data dictionary (results/README.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


def column(doc: str, **default: Any) -> Any:
    """A dataclass field that becomes a column; `doc` is its entry in the data dictionary."""
    return field(metadata={"doc": doc}, **default)


@dataclass(frozen=True)
class Timed:
    """Whether the case does what it says, rightly, and how fast: by clocks, without a profiler."""

    in_effect: bool | None = column(
        "did the mode do what its name says? false where torch gave something else", default=None
    )
    in_effect_note: str | None = column("what torch gave instead, in one sentence", default=None)
    matmul_precision: str | None = column(
        "torch.get_float32_matmul_precision() while measuring", default=None
    )
    seen_grad: str | None = column("grad state seen where the step calls the model", default=None)
    seen_autocast: str | None = column("autocast dtype seen there; none where off", default=None)
    seen_weight_dtype: str | None = column("dtype of the weights seen there", default=None)
    error: float | None = column(
        "relative RMS error against float64 of the artifact that was timed: the worst output over "
        "two fresh inputs, or the worst loss, gradient or update over three steps of training; an "
        "error that a ReLU can explain which rounding turned on is looked at on other batches",
        default=None,
    )
    error_place: str | None = column(
        "which output, or the gradient or update of which parameter, has that error", default=None
    )
    eager_error: float | None = column("the same for plain eager at this dtype", default=None)
    baseline_error: float | None = column("the same for the timed baseline", default=None)
    error_limit: float | None = column(
        "largest error accepted for this case unless max_error is larger; 0 where plain eager at "
        "this dtype is itself beyond what can be judged",
        default=None,
    )
    first_call_s: float | None = column(
        "first call: compile, autotune and capture included (the compiler records its CUDA graphs "
        "with the second call, so there the first two), imports not",
        default=None,
    )
    baseline_first_call_s: float | None = column(
        "first call of the baseline; null where it compiles, as its caches are warm by then",
        default=None,
    )
    graphs: int | None = column("graphs that torch.compile made (Dynamo)", default=None)
    graph_breaks: int | None = column(
        "expressions of the model at which torch.compile broke its graph in the first call; one "
        "that is reached several times counts once, two on one line are two; null for modes "
        "without torch.compile, where unknown, and where nothing was compiled and torch does not "
        "say why",
        default=None,
    )
    graph_break_reasons: str | None = column(
        "JSON, in the order met: the place of each (file and line; null where it is no line of the "
        "model's) and the reason that torch gives; null where graph_breaks is",
        default=None,
    )
    eager_functions: str | None = column(
        "JSON: names of the functions that a graph break left to Python, as a whole (a break in a "
        "loop, for example) or from the break to their end; null where graph_breaks is",
        default=None,
    )
    recompiles: int | None = column("compilations within the timed window", default=None)
    autotuned: int | None = column(
        "choices the compiler benchmarked while autotuning", default=None
    )
    graph_launches: int | None = column("CUDA graph launches seen in one steady call", default=None)
    warmup_s: float | None = column("warm-up of case and baseline", default=None)
    timed_s: float | None = column("duration of the timed rounds", default=None)
    calls_per_round: int | None = column("timed calls of the case in each round", default=None)
    latency_rounds_s: tuple[float, ...] | None = column(
        "per round: median latency of the case's calls", default=None
    )
    baseline_latency_rounds_s: tuple[float, ...] | None = column(
        "per round: median latency of the baseline's calls, paired by position", default=None
    )
    case_ran_first: tuple[bool, ...] | None = column(
        "per round: whether the case ran before the baseline", default=None
    )
    latency_calls_s: tuple[float, ...] | None = column(
        "single calls of the case in order, thinned to a few thousand", default=None
    )
    host_rounds_s: tuple[float, ...] | None = column(
        "per block: how long the host is busy with one call whose result nobody waits for",
        default=None,
    )
    pipelined_rounds_s: tuple[float, ...] | None = column(
        "per block: time that one further call adds when calls follow each other without waiting",
        default=None,
    )
    device_rounds_s: tuple[float, ...] | None = column(
        "per block: device time of one call, launches queued ahead of a held device; null on a CPU",
        default=None,
    )
    device_note: str | None = column("why device_rounds_s is null", default=None)
    device_calls: int | None = column(
        "calls queued ahead of the held device in each block of device_rounds_s; null with it",
        default=None,
    )
    device_calls_wanted: int | None = column(
        "calls that would make such a block long enough for the events' resolution; larger than "
        "device_calls where the queue did not take them",
        default=None,
    )
    dispatch_rounds_s: tuple[float, ...] | None = column(
        "per block: host time of the same call on an empty batch, which does no work", default=None
    )
    dispatch_note: str | None = column(
        "why dispatch_rounds_s is null, or what to know about it", default=None
    )
    clocks_s: float | None = column(
        "duration of reading host, pipelined, device and dispatch; where dispatch compiles once "
        "more, that included",
        default=None,
    )
    synchronize_s: float | None = column(
        "cost of a synchronise when the device has nothing to do", default=None
    )
    timer_resolution_s: float | None = column("smallest step of the clock seen", default=None)
    timer_cost_s: float | None = column("cost of one reading of the clock", default=None)
    empty_step_s: float | None = column(
        "latency of a call that does nothing: the harness's own part of every latency, subtracted "
        "from none",
        default=None,
    )
    event_interval_s: float | None = column(
        "device time between two marks with nothing between them: the harness's own part of every "
        "block of device time, subtracted from none; null on a CPU",
        default=None,
    )
    watched_s: float | None = column(
        "wall time of warm-up, timing and clocks (dispatch not included), to which the five "
        "columns below belong",
        default=None,
    )
    cpu_wait_s: float | None = column(
        "how long the measuring thread was ready to run and had no core", default=None
    )
    involuntary_switches: int | None = column(
        "how often the measuring thread was made to leave its core", default=None
    )
    others_cpu_s: float | None = column(
        "CPU time of all but this process, on all cores together, to 10 ms; in a virtual machine "
        "with what its host took away",
        default=None,
    )
    machine_cores: int | None = column(
        "logical cores of the machine that others_cpu_s is about", default=None
    )
    cgroup_throttled_s: float | None = column(
        "how long CPU quotas stopped the process's cgroup or one that it lies in", default=None
    )
    device_clock_hz: tuple[float, ...] | None = column(
        "clock of the GPU before warm-up, after timing and after the clocks; null on a CPU",
        default=None,
    )
    throttle_reasons: tuple[str, ...] | None = column(
        "what lowered the clock after the first of these moments: of a GPU what NVML said at the "
        "others (sw_power_cap, hw_slowdown, sw_thermal, hw_thermal, hw_power_brake), of a CPU "
        "cpu_thermal; empty: asked, and nothing; null: cannot be asked",
        default=None,
    )
    gpu_processes: int | None = column(
        "other processes with a compute context on the GPU, the most at these moments; null on a "
        "CPU and where NVML does not say",
        default=None,
    )


@dataclass(frozen=True)
class Trained:
    """What only a training step has; null for inference."""

    loss_scale: float | None = column(
        "factor of the loss in the first of the steps, for GradScaler: a quarter of the largest at "
        "which no gradient overflowed; null without one",
        default=None,
    )
    overflow_skipped: bool | None = column(
        "whether GradScaler skipped a step whose gradients were made to overflow, and that alone; "
        "null without one, and where no gradient can be made to",
        default=None,
    )
    forward_rounds_s: tuple[float, ...] | None = column(
        "per block of a pass of its own, in which each part is waited for: forward and loss",
        default=None,
    )
    backward_rounds_s: tuple[float, ...] | None = column(
        "the same: the backward of the loss", default=None
    )
    optimizer_rounds_s: tuple[float, ...] | None = column(
        "the same: the optimizer's step, and dropping the gradients before the next",
        default=None,
    )
    scaler_rounds_s: tuple[float, ...] | None = column(
        "the same: scaling the loss, unscaling the gradients unless a fused optimizer does, and "
        "updating the scale; null without a GradScaler",
        default=None,
    )
    parts_note: str | None = column("why these are null, or what to know", default=None)


@dataclass(frozen=True)
class GeneratedCode:
    """What the compiler made for the case's first call; null where nothing was compiled."""

    generated_kernels: int | None = column(
        "calls of generated kernels in one call of the case", default=None
    )
    extern_calls: int | None = column(
        "calls from generated code to operators and libraries, such as matrix products",
        default=None,
    )
    bytes_accessed: int | None = column(
        "read and written by all of these, as the compiler counts", default=None
    )
    compiler_cache_hits: int | None = column(
        "graphs whose code came from the compiler's cache on disk", default=None
    )
    compiler_cache_misses: int | None = column(
        "graphs whose code was looked for there and had to be generated", default=None
    )


@dataclass(frozen=True)
class Profiled:
    """What the profiler pass saw of one steady call: of several, the one of median span.

    Operators are those of the dispatcher. A kernel is one of the GPU; on a CPU it is the outermost
    operator that does work of its own, or a fused C++ kernel, for which the case is compiled once
    more.
    """

    ops_dispatched: int | None = column(
        "operators called by Python, autograd or compiled code, not those that they call",
        default=None,
    )
    ops_leaf: int | None = column("operators that call no further operator", default=None)
    leaf_ops_s: float | None = column(
        "time of these under the profiler; misses what an operator computes around those it calls",
        default=None,
    )
    kernels: int | None = column(
        "kernels that ran; on a CPU operators that do work of their own, and fused C++ kernels",
        default=None,
    )
    kernels_s: float | None = column("their times added up, overlaps included", default=None)
    launches: int | None = column(
        "kernels launched one by one, those of a replayed graph not; null on a CPU", default=None
    )
    copies: int | None = column("copies by the CUDA API; null on a CPU", default=None)
    fills: int | None = column("fills by the CUDA API; null on a CPU", default=None)
    device_busy_s: float | None = column(
        "time with a kernel, copy or fill running, on whatever stream", default=None
    )
    profiled_span_s: float | None = column(
        "from the start of the call to its end or that of its last kernel", default=None
    )
    launch_delay_s: float | None = column(
        "median time from the start of a launch to that of its first kernel; null on a CPU",
        default=None,
    )
    heaviest_kernels: str | None = column(
        'the ten that took longest in this call, JSON: [{"name", "count", "seconds"}, ...]; their '
        "seconds are part of kernels_s",
        default=None,
    )
    heaviest_ops: str | None = column(
        "the same of operators, by the time not spent in operators that they call", default=None
    )
    profiler_overhead: float | None = column(
        "latency under the profiler divided by latency without it", default=None
    )
    profile_note: str | None = column(
        "why columns of the profiler pass are null, or what to know about them", default=None
    )
    trace: str | None = column(
        "file in the study's folder of traces; null where none is kept", default=None
    )


@dataclass(frozen=True)
class Memory:
    """Where the bytes of one variant are."""

    weights_bytes: int | None = column(
        "parameters and buffers, shared storage counted once", default=None
    )
    input_bytes: int | None = column("inputs, shared storage counted once", default=None)
    gradient_bytes: int | None = column(
        "gradients of parameters after a step; null for inference", default=None
    )
    optimizer_state_bytes: int | None = column(
        "what the optimizer keeps from step to step, such as moments; null for inference",
        default=None,
    )
    resident_bytes: int | None = column(
        "all tensors of the process between two calls; more than weights and inputs is kept by the "
        "mode or by the harness",
        default=None,
    )
    saved_activation_bytes: int | None = column(
        "most that one call keeps for a backward: storages counted once, without weights, buffers "
        "and inputs; casted copies of weights that backward needs are in it; null where forward "
        "and backward are captured graphs",
        default=None,
    )
    autocast_copy_bytes: int | None = column(
        "most that low-precision copies of weights take at one time within a call; 0 without "
        "autocast",
        default=None,
    )
    step_peak_bytes: int | None = column(
        "most memory that a steady call takes above what is held between calls; on a CPU as "
        "requested, on CUDA in blocks of 512 bytes. Gradients are held between the steps of "
        "training, and dropped first: activations show as far as they take more than these",
        default=None,
    )
    step_requested_bytes: int | None = column(
        "the same before the allocator rounded sizes up", default=None
    )
    step_left_bytes: int | None = column(
        "held after a steady call more than before; anything but 0 grows with every call",
        default=None,
    )
    allocations_per_call: int | None = column("allocations in a steady call", default=None)
    releases_per_call: int | None = column("releases in a steady call", default=None)
    allocated_bytes_per_call: int | None = column(
        "sum of the allocations in a steady call, however short they lived", default=None
    )
    reserved_bytes: int | None = column(
        "held by the caching allocator after a steady call, used or not; null on a CPU",
        default=None,
    )
    graph_pool_bytes: int | None = column(
        "of it, reserved for CUDA graphs alone, with what cuBLAS took while any was captured; null "
        "on a CPU",
        default=None,
    )
    graph_pool_live_bytes: int | None = column(
        "of graph_pool_bytes, held by tensors between two calls, so part of resident_bytes too; "
        "null on a CPU",
        default=None,
    )
    memory_note: str | None = column("why any of these is null", default=None)
    snapshot: str | None = column(
        "file in the study's folder of traces for PyTorch's memory viewer: one steady call; null "
        "where none is kept",
        default=None,
    )
    snapshot_note: str | None = column(
        "why no snapshot is kept, or what it lacks; null where none is made: on a CPU, and where "
        "the study keeps no files of this run",
        default=None,
    )


@dataclass(frozen=True)
class Setup:
    """What the first call took: compiling, autotuning and capturing included."""

    setup_peak_bytes: int | None = column(
        "most memory taken during the first call, above what was held before it", default=None
    )
    setup_peak_note: str | None = column(
        "what was measured instead of the allocator's peak, or why there is none", default=None
    )


@dataclass(frozen=True)
class Bounds:
    """How much work one call is, and the highest rates seen on the device."""

    flops: int | None = column(
        "of matrix products, convolutions and attention in one call; a multiply-add is two; what "
        "activation checkpointing computes again counts again",
        default=None,
    )
    least_bytes: int | None = column(
        "weights and inputs read once, outputs written once; in training what is trained and the "
        "optimizer's state, too",
        default=None,
    )
    eager_bytes: int | None = column(
        "arguments and results of all operators of plain eager added up, views excepted: what it "
        "moves where nothing is fused; to be held against bytes_accessed",
        default=None,
    )
    work_note: str | None = column(
        "why any of these is null, or what to know about the two ceilings", default=None
    )
    ceiling_flops_per_s: float | None = column(
        "highest rate of a large matrix product on the device at this dtype", default=None
    )
    ceiling_bytes_per_s: float | None = column(
        "highest bandwidth of a copy or a read that moves least_bytes or more", default=None
    )
