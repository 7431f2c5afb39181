"""Columns of timed calls, and of the machine while they were timed."""

from __future__ import annotations

from dataclasses import dataclass

from modescope.bench.records.columns.column import column, nullable


@dataclass(frozen=True)
class SizeLatencies:
    """Latency at each size, after the first pass; null if calls are equal (calls=repeat)."""

    size_latencies_s: str | None = nullable(
        "JSON: by size before padding, the median latency of the case and, where there is one, of "
        "the baseline, whose calls were taken in turns"
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
class CachedData:
    """The data of a call, the caches of the device, and what is evicted before each timed call."""

    working_set_bytes: int | None = nullable(
        "parameters, buffers, inputs, the optimizer's state and outputs: what a call reads or "
        "writes and a cache may keep until the next one"
    )
    l2_bytes: int | None = nullable("second-level cache of a core, or of the GPU")
    last_level_bytes: int | None = nullable("last-level cache, which a virtual machine may share")
    evicted_with: str | None = nullable("instruction that evicts data, or what takes their place")
    evicted_bytes: int | None = nullable("data that are evicted before a call; null: none")
    baseline_evicted_bytes: int | None = nullable("the same for the baseline")
    eviction_s: float | None = nullable("time of an eviction, which no other column contains")
    cold_read_s: float | None = nullable("time of reading these data once after their eviction")
    warm_read_s: float | None = nullable("the same without eviction")


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
