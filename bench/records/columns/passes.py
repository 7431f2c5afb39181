"""Columns of the profile of a call, of memory and of the work."""

from __future__ import annotations

from dataclasses import dataclass

from modescope.bench.records.columns.column import nullable


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
class GapSteps:
    """Variants between eager and a compiled mode, of which neighbours differ by one thing."""

    steps: tuple[str, ...] | None = nullable(
        "names of the variants of `bench.records.gap_steps` that were timed in the same rounds"
    )
    steps_rounds_s: tuple[float, ...] | None = nullable(
        "their latencies: all rounds of the first variant, then all of the second, and so on"
    )
    steps_unlike: str | None = nullable(
        "JSON: step -> what else it changes than its name says, such as other operators"
    )
    steps_s: float | None = nullable("time of this pass")
    steps_note: str | None = nullable("why these are null")


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
