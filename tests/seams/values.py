"""The values of the made-up world, worked out by hand from what it is made of.

A table for stored and one for derived columns: column -> row -> value. A new column needs a line
with a value that is not null in at least one row.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from tests.seams import planted
from tests.seams.machine import CAPTURE_S, COPIED_BYTES_PER_S, FLOPS_PER_S, MARK_S, READ_S, US
from tests.seams.world import BUDGET, ENVIRONMENT, LONGER, PLACE, RUNS, SCHEDULING

Values = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Text:
    """Any text that matches: sentences are not compared here."""

    pattern: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and re.search(self.pattern, other) is not None


@dataclass(frozen=True)
class Lasted:
    """The time between two messages about the run's progress, by the machine's own clock."""

    phase: str
    less_s: float = 0.0  # without this at its begin


@dataclass(frozen=True)
class Half:
    """So many truth values, of which half are true."""

    count: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, list) and (len(other), 2 * sum(other)) == (self.count, self.count)


SEARCHED_S = 10 * 1001 * READ_S
"""For the cost of a reading of the clock, before anything is timed."""


def rounds(count: int, value_s: float) -> list[float]:
    """The same in all rounds."""
    return [value_s] * count


# --- Times of a call, in seconds -------------------------------------------------------------
# Launches (host, device): eager (30, 150) (10, 60); no_grad bf16 (80, 70) (40, 40); no_grad fp32
# (20, 120) (10, 70); a replay in bf16 (5, 102). Latency: first launch, then the device works
# without a pause, except in no_grad bf16, where the host is still busy when the first kernel ends.
# Each process has its own slowdown; a timer that reads the clock around calls adds one reading.


def waited_s(call: float, slowdown: float = 1.0) -> float:
    """Latency or host time of one call."""
    return call * US * slowdown + READ_S


def queued_s(call: float, slowdown: float, calls: int) -> float:
    """Device time: a block of calls behind a mark, and the mark at its end."""
    return call * US * slowdown + MARK_S * slowdown / calls


EAGER, NO_GRAD_BF16, NO_GRAD_FP32, REPLAY_BF16 = 30 + 210, 80 + 70 + 40, 20 + 190, 5 + 102
EAGER_DEVICE, NO_GRAD_BF16_DEVICE = 150 + 60, 70 + 40

GRAPH_S, GRAPH_BASELINE_S = waited_s(REPLAY_BF16, 1.5), waited_s(EAGER, 1.5)
GRAPH_DEVICE_S = queued_s(102, 1.5, calls=4)  # 4 x 153 US: the first block of 500 µs or more
GRAPH_EAGER_DEVICE_S = queued_s(EAGER_DEVICE, 1.5, calls=2)
PLAIN_S, PLAIN_BASELINE_S = waited_s(NO_GRAD_BF16, 1.25), waited_s(EAGER, 1.25)
PLAIN_DEVICE_S = queued_s(NO_GRAD_BF16_DEVICE, 1.25, calls=3)  # a fourth overfills its queue
PLAIN_EAGER_DEVICE_S = queued_s(EAGER_DEVICE, 1.25, calls=2)
CONTROL_S, CONTROL_DEVICE_S = waited_s(EAGER), queued_s(EAGER_DEVICE, 1.0, calls=3)

KERNELS = [{"name": "gemm", "count": 2, "seconds": 73}, {"name": "add", "count": 1, "seconds": 40}]
OPERATORS = [
    {"name": "aten::addmm", "count": 1, "seconds": 60},
    {"name": "aten::linear", "count": 1, "seconds": 100 - 60},
    {"name": "aten::mul", "count": 1, "seconds": 30},
]


@dataclass(frozen=True)
class Seconds:
    """JSON of names, counts and times, given in µs; slower by a factor."""

    entries: list[dict[str, Any]]
    slowdown: float

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, str):
            return False
        found = json.loads(other)
        times = [each.pop("seconds") for each in found]
        named = [{key: each[key] for key in ("name", "count")} for each in self.entries]
        wanted = [each["seconds"] * 1e-6 * self.slowdown for each in self.entries]
        return found == named and all(map(math.isclose, times, wanted))


def traced_s(us: float) -> float:
    """A time in the trace of the process with slowdown 1.5, whose microseconds are true ones."""
    return us * 1e-6 * 1.5


STORED: Values = {
    # Which run
    "schema_version": {"graph": 5},
    "run_id": {"graph": "graph"},
    "case_id": {"graph": Text("^[0-9a-f]{16}$")},
    "study": {"graph": "seams"},
    "started_at": {"graph": Text(r"^\d{4}-\d\d-\d\dT.*\+00:00$")},
    "budget": {"graph": "quick", "graph_fp32": "standard"},
    "budget_rank": {"graph": 1, "graph_fp32": 2},
    "budget_settings": {"graph": BUDGET.settings, "graph_fp32": LONGER.settings},
    "seed": {"graph": 11},
    "replicate": {"graph": 0, "graph_fp32_again": 1},
    "status": {"graph": "ok", "wrong": "wrong_result"},
    "reason": {"graph": None, "wrong": Text("error nan .* eager's is 3.1e-05")},
    "checked_inputs": {"graph": "fresh", "compiled": None},
    "checked_against": {"graph": "float64", "compiled": None},
    "stopped_early": {"graph": False, "compiled": None},
    # The world's models call an operator that their steps on the simulated device do not
    "steady_operators": {"graph": "with aten.mul", "wrong": None, "compiled": None},
    "best_pace_s": {"graph": waited_s(50), "compiled": None},
    "duration_s": {"graph": Lasted("whole run")},
    "command": {"graph": "python run.py mode=cuda-graph"},
    **{name: {"graph": value} for name, value in asdict(PLACE).items()},
    "profile": {"graph": True},
    "memory": {"graph": True},
    "max_error": {"graph": 0.25, "control": None},
    # The work
    "model": {"graph": "seams"},
    "model_args": {"graph": "{}"},
    "fullgraph": {"graph": True},
    "shape": {"graph": '{"batch":6}', "wrong": '{"batch":5}'},
    "batch": {"graph": 6, "wrong": 5},
    "seq": {"graph": None, "trained": 64},
    "phase": {"graph": "inference", "trained": "train"},
    "optimizer": {"graph": None, "trained": "sgd"},
    "training": {"graph": None, "trained": '{"scaler":true}'},
    "dtype": {"graph": "bf16", "control": "fp32"},
    "mode": {"graph": "cuda-graph", "control": "eager"},
    "grad": {"graph": "no_grad", "control": "enabled"},
    "autocast": {"graph": False, "trained": True},
    "compile_mode": {"graph": "none", "compiled": "default"},
    "graph": {"graph": True, "control": False},
    "baseline_mode": {"graph": "eager"},
    "baseline_dtype": {"graph": "fp32"},
    "device": {"graph": "cuda", "compiled": "cpu"},
    "threads": {"graph": 1, "compiled": 2},
    "compile_cache": {"graph": "cold"},
    "batch_dim": {"graph": 0, "compiled": None},
    "compile_options": {"graph": None, "compiled": '{"dynamic":true}'},
    "model_inputs": {"graph": None, "trained": '{"x":[4]}'},
    # The machine: as given, and the load that the system tells
    **{name: {"graph": value} for name, value in asdict(ENVIRONMENT).items()},
    "load_1min": {"graph": 0.75},
    **{name: {"graph": value} for name, value in asdict(SCHEDULING).items()},
    # Checks. Of two checks of bf16 (3/64 before timing, 1/128 after) the larger error is stored;
    # nan is larger than any number. The limit is 3 x eager's error + a tenth of the tolerance.
    "in_effect": {"graph": True},
    "in_effect_note": {"graph": None, "trained": "note on in_effect"},
    "matmul_precision": {"graph": "highest"},
    "seen_grad": {"graph": "no_grad", "control": "enabled", "inference": "inference_mode"},
    "seen_autocast": {"graph": "none", "trained": "float16"},
    "seen_weight_dtype": {"graph": "bfloat16", "control": "float32"},
    "checked": {"graph": "exact", "compiled": "without_randomness"},
    "checked_note": {"graph": None, "compiled": "dropout was switched off"},
    "error": {"graph": 3 * 2**-6, "control": 2**-16, "wrong": math.nan},
    "error_place": {"graph": "output [0]"},
    "unchecked_outputs": {"graph": Text(r"^\[1\] \(int64")},
    "eager_error": {"graph": 2**-6, "control": 2**-15},
    "baseline_error": {"graph": 2**-14},
    "baseline_error_limit": {"graph": 5 * 1e-4},
    "error_limit": {"graph": 3 * 2**-6 + 2e-3, "control": 3 * 2**-15 + 1e-5},
    "scale_error": {"graph": None, "trained": 0.02},
    "eager_scale_error": {"graph": None, "trained": 0.01},
    "scale_error_limit": {"graph": None, "trained": 0.05},
    "drawn_spread": {"graph": None, "compiled": 0.9},
    # First calls: capturing, then one replay that is waited for
    "first_call_s": {"graph": CAPTURE_S * 1.5 + GRAPH_S, "control": CONTROL_S + READ_S},
    "baseline_first_call_s": {"graph": GRAPH_BASELINE_S + READ_S},
    "graphs": {"graph": 0, "compiled": 2},
    "graph_breaks": {"graph": None, "compiled": 1},
    "graph_break_reasons": {"graph": None, "compiled": planted.COMPILED["graph_break_reasons"]},
    "eager_functions": {"graph": None, "compiled": '["helper"]'},
    "recompiles": {"graph": 0},
    "torch_warnings": {"graph": "[]"},
    "autotuned": {"graph": 0, "compiled": 5},
    "graph_launches": {"graph": 1, "control": 0},
    # Paired rounds: blocks of 1.5 ms, so 10 calls; 14 rounds, as all are equal; half each way
    "warmup_s": {"graph": Lasted("warm-up", SEARCHED_S)},
    "timed_s": {"graph": Lasted("timing", SEARCHED_S)},
    "calls_per_round": {"graph": math.ceil(1.5e-3 / GRAPH_S)},
    "latency_rounds_s": {"graph": rounds(14, GRAPH_S), "graph_fp32": rounds(16, waited_s(156))},
    "baseline_latency_rounds_s": {"graph": rounds(14, GRAPH_BASELINE_S)},
    "case_ran_first": {"graph": Half(14)},
    "pace_rounds_s": {"graph": rounds(14, waited_s(50, 1.5))},
    "latency_calls_s": {"graph": rounds(140, GRAPH_S)},
    # Rounds of the clocks, of which there are 13; no two clocks have the same time
    "clocks_latency_rounds_s": {"graph": rounds(13, GRAPH_S), "plain": rounds(13, PLAIN_S)},
    "clocks_pace_rounds_s": {"graph": rounds(13, waited_s(50, 1.5))},
    "host_rounds_s": {
        "graph": rounds(13, waited_s(5, 1.5)),
        "plain": rounds(13, waited_s(80 + 40, 1.25)),
    },
    "pipelined_rounds_s": {
        "graph": rounds(13, 102 * 1.5 * US),  # the device is busy for longer
        "plain": rounds(13, 120 * 1.25 * US),  # the host is
    },
    "device_rounds_s": {
        "graph": rounds(13, GRAPH_DEVICE_S),
        "plain": rounds(13, PLAIN_DEVICE_S),
        "plain_cpu": None,
    },
    "baseline_device_rounds_s": {
        "graph": rounds(13, GRAPH_EAGER_DEVICE_S),
        "plain": rounds(13, PLAIN_EAGER_DEVICE_S),
    },
    "device_note": {"graph": None, "plain_cpu": "a CPU has no queue"},
    "device_calls": {"graph": 4, "plain": 3, "wrong": None},
    "device_calls_wanted": {"graph": 4, "plain": 4},
    "dispatch_rounds_s": {"graph": None, "plain": rounds(13, waited_s(15, 1.25))},
    "baseline_dispatch_rounds_s": {"graph": None, "plain": rounds(13, waited_s(24, 1.25))},
    "dispatch_note": {"graph": Text("captured graph"), "plain": None},
    "clocks_s": {"graph": Lasted("clocks")},
    "synchronize_s": {"graph": READ_S},
    "empty_step_s": {"graph": READ_S},
    "event_interval_s": {"graph": MARK_S * 1.5, "plain": None},  # 101 marks overfill its queue
    # The system's counters: 10 s on 4 cores, 35.5 idle and 4 of this process, so 0.5 of others
    "watched_s": {"graph": 10.0},
    "cpu_wait_s": {"graph": 0.05},
    "others_cpu_s": {"graph": 10 * 4 - 35.5 - 4},
    "machine_cores": {"graph": 4},
    "cgroup_throttled_s": {"graph": 0.02},
    "device_clock_hz": {"graph": [2e9 / 1.5] * 2},
    "throttle_reasons": {"graph": ["sw_power_cap"], "plain": []},
    "gpu_processes": {"graph": 0},
    # Training
    "loss_scale": {"graph": None, "trained": 4096.0},
    "overflow_skipped": {"graph": None, "trained": True},
    "forward_rounds_s": {"graph": None, "trained": list(planted.rounds(100e-6, 1e-6))},
    "backward_rounds_s": {"graph": None, "trained": list(planted.rounds(200e-6, 2e-6))},
    "optimizer_rounds_s": {"graph": None, "trained": list(planted.rounds(50e-6, 0.5e-6))},
    "scaler_rounds_s": {"graph": None, "trained": list(planted.rounds(10e-6, 0.1e-6))},
    "parts_latency_rounds_s": {"graph": None, "trained": rounds(12, 400e-6)},
    "parts_note": {"graph": None, "trained": "note on parts"},
    # The compiler
    **{name: {"graph": None, "compiled": planted.COMPILED[name]} for name in (
        "generated_kernels", "extern_calls", "fallback_kernels", "bytes_accessed",
        "compiler_cache_hits", "compiler_cache_misses", "compile_phases_s", "recompile_reasons",
        "cudagraph_skip_reasons",
    )},
    # The profile. Of five calls the one with the median span counts, the fourth. Two kernels
    # overlap (40 to 93, 70 to 110), then a copy of 5, a fill of 4 and a kernel of 20: busy for 99.
    # Launches precede their work by 10, 10, 25, 26 and 30.
    "ops_dispatched": {"graph": 2},
    "ops_leaf": {"graph": 2},
    "leaf_ops_s": {"graph": traced_s(60 + 30)},
    "kernels": {"graph": 3},
    "kernels_s": {"graph": traced_s(53 + 40 + 20)},
    "launches": {"graph": 3},
    "copies": {"graph": 1},
    "fills": {"graph": 1},
    "device_busy_s": {"graph": traced_s((110 - 40) + 5 + 4 + 20)},
    "profiled_kernels_rounds_s": {"graph": None, "compiled": rounds(12, 84e-6)},
    "profiled_latency_rounds_s": {"graph": None, "compiled": rounds(12, 105e-6)},
    "profiled_pace_s": {"graph": waited_s(50, 1.5)},
    "guards_s": {"graph": traced_s(4)},
    "compiled_wrapper_s": {"graph": traced_s(150 - 100 - 30)},
    "profiled_span_s": {"graph": traced_s(220)},
    "launch_delay_s": {"graph": traced_s(25)},
    "heaviest_kernels": {"graph": Seconds(KERNELS, 1.5)},
    "heaviest_ops": {"graph": Seconds(OPERATORS, 1.5)},
    "profiler_overhead": {"graph": waited_s(12 + REPLAY_BF16, 1.5) / GRAPH_S},
    "profile_note": {"graph": None, "trained": "note on profile"},
    "trace": {"graph": "graph.json.gz", "graph_fp32_again": None},
    # Memory. Weights 4 x 4 and a buffer of 4; inputs 6 x 4 of 8 bytes. Eager saves them as fp32.
    "setup_peak_bytes": {"graph": 99_000},
    "setup_peak_note": {"graph": None, "trained": "note on setup_peak"},
    "weights_bytes": {"graph": 2 * (16 + 4), "control": 4 * (16 + 4)},
    "buffers_bytes": {"graph": 2 * 4, "control": 4 * 4},
    "input_bytes": {"graph": 8 * 24},
    "gradient_bytes": {"graph": None, "trained": 640},
    "optimizer_state_bytes": {"graph": None, "trained": 1280},
    "resident_bytes": {"graph": 3000},
    "saved_activation_bytes": {"graph": 0, "control": 4 * 24},
    "autocast_copy_bytes": {"graph": 0},
    "step_peak_bytes": {"graph": 4096},
    "step_left_bytes": {"graph": 7000 - 6400},
    "allocations_per_call": {"graph": 7},
    "allocated_bytes_per_call": {"graph": 7000},
    "reserved_bytes": {"graph": 90_000},
    "graph_pool_bytes": {"graph": 20_000},
    "graph_pool_live_bytes": {"graph": 1_500},
    "memory_note": {"graph": None, "trained": "note on memory"},
    "snapshot": {"graph": "graph.pickle", "graph_fp32_again": None},
    "snapshot_note": {"graph": None, "trained": "note on snapshot"},
    # Work: x (24 of 8 bytes) is cast, multiplied (24 x 4 multiply-adds) and shifted
    "flops": {"graph": 2 * 24 * 4},
    "least_bytes": {
        "graph": 8 * 24 + 2 * (16 + 4) + 2 * 24,
        "control": 8 * 24 + 4 * (16 + 4) + 4 * 24,
    },
    "eager_bytes": {
        "graph": 8 * 24 + 2 * (24 + 24 + 16 + 24 + 24 + 4 + 24),
        "control": 8 * 24 + 4 * (24 + 24 + 16 + 24 + 24 + 4 + 24),
    },
    "work_note": {"graph": None, "trained": "note on work"},
    # The rates of the device, which is slower by 1.25 in the process that measured them at bf16:
    # the product of 256 alone is short enough; of copies and reads of 256 KiB copies are faster
    "ceiling_flops_per_s": {"graph": FLOPS_PER_S["bf16"] / 1.25, "control": FLOPS_PER_S["fp32"]},
    "ceiling_bytes_per_s": {"graph": COPIED_BYTES_PER_S / 1.25, "control": COPIED_BYTES_PER_S},
    "flags": {
        "graph": ["other_operators"],
        "control": ["other_operators", "profile_contradicts_device_time"],
    },
}  # fmt: skip


# --- Derived columns -------------------------------------------------------------------------
# Rows by their processes. `fused` and `inferred` are two processes each; their values are geometric
# means, their intervals the range of both. In `compiled` and other given rows, 12 rounds rise by a
# step: the median is the first + 5.5 steps, the interval from + 2 to + 9 steps.

CPU = "plain_cpu"
FUSED, INFERRED = "graph_fp32;graph_fp32_again", "inference;inference_again"


def clock(name: str, rows: dict[str, tuple[float, float, float]], unit: str = "_s") -> Values:
    """A value and its interval in three columns."""
    names = (f"{name}{unit}", f"{name}_ci_low{unit}", f"{name}_ci_high{unit}")
    return {
        column: {row: values[place] for row, values in rows.items()}
        for place, column in enumerate(names)
    }


def ratio(name: str, rows: dict[str, tuple[float, float, float]]) -> Values:
    """The same without a unit."""
    return clock(name, rows, unit="")


def sure(value: float) -> tuple[float, float, float]:
    """Equal in all rounds."""
    return value, value, value


def hull(one: float, other: float) -> tuple[float, float, float]:
    """Two processes, each equal in all of its rounds."""
    return math.sqrt(one * other), min(one, other), max(one, other)


def rising(first: float, step: float) -> tuple[float, float, float]:
    """Of twelve rounds that rise by a step; that fall, if it is negative."""
    ends = sorted((first + 2 * step, first + 9 * step))
    return first + 5.5 * step, ends[0], ends[1]


def worst(
    top: tuple[float, float, float], bottom: tuple[float, float, float], widened: float = 1.0
) -> tuple[float, float, float]:
    """A quotient with the least favourable ends, widened by what two processes may differ by."""
    return top[0] / bottom[0], top[1] / bottom[2] / widened, top[2] / bottom[1] * widened


def gained(first: float) -> tuple[float, float, float]:
    """Speedups that rise by 0.01 from `first`; their median is that of their logarithms."""
    return math.sqrt((first + 0.05) * (first + 0.06)), first + 0.02, first + 0.09


NONE = (None, None, None)
PROCESSES = 1.03

GRAPH_GAIN, PLAIN_GAIN = sure(GRAPH_BASELINE_S / GRAPH_S), sure(PLAIN_BASELINE_S / PLAIN_S)
PLAIN_FP32_S = waited_s(NO_GRAD_FP32)
PLAIN_FP32_GAIN = sure(CONTROL_S / PLAIN_FP32_S)
FUSED_S = waited_s(156), waited_s(171, 1.25)
FUSED_GAIN = hull(CONTROL_S / FUSED_S[0], waited_s(EAGER, 1.25) / FUSED_S[1])
INFERRED_S = waited_s(174), waited_s(166, 2.0)
INFERRED_GAIN = hull(CONTROL_S / INFERRED_S[0], waited_s(EAGER, 2.0) / INFERRED_S[1])
COMPILED_GAIN, CPU_GAIN = gained(1.5), gained(1.1)
COMPILED_DISPATCH = rising(20 / 105.5, 0.1 / 105.5)
CPU_DISPATCH = rising(40 / 205.5, 0.1 / 205.5)


def rest(share: tuple[float, float, float]) -> tuple[float, float, float]:
    """What a share leaves."""
    return 1 - share[0], 1 - share[2], 1 - share[1]


def times(
    one: tuple[float, float, float], other: tuple[float, float, float]
) -> tuple[float, float, float]:
    """A product with its ends."""
    return one[0] * other[0], one[1] * other[1], one[2] * other[2]


# Device time of the baseline ÷ that of the row, each of the same process
GRAPH_DEVICE_GAIN = sure(GRAPH_EAGER_DEVICE_S / GRAPH_DEVICE_S)
PLAIN_DEVICE_GAIN = sure(PLAIN_EAGER_DEVICE_S / PLAIN_DEVICE_S)
PLAIN_FP32_DEVICE_S = queued_s(190, 1.0, calls=3)
PLAIN_FP32_DEVICE_GAIN = sure(CONTROL_DEVICE_S / PLAIN_FP32_DEVICE_S)
FUSED_DEVICE_S = queued_s(150, 1.0, calls=4), queued_s(165, 1.25, calls=3)
FUSED_DEVICE_GAIN = hull(CONTROL_DEVICE_S / FUSED_DEVICE_S[0],
                         PLAIN_EAGER_DEVICE_S / FUSED_DEVICE_S[1])  # fmt: skip

# Fusion: the device time of plain eager at the same dtype ÷ the row's, through their baselines
GRAPH_FUSION = worst(GRAPH_DEVICE_GAIN, PLAIN_DEVICE_GAIN)
FUSED_FUSION = worst(FUSED_DEVICE_GAIN, PLAIN_FP32_DEVICE_GAIN)
COMPILED_FUSION = times(worst(COMPILED_GAIN, CPU_GAIN),
                        worst(rest(CPU_DISPATCH), rest(COMPILED_DISPATCH)))  # fmt: skip
SAME_GRAD_FUSED = worst(FUSED_GAIN, PLAIN_FP32_GAIN, PROCESSES)
SAME_GRAD_COMPILED = worst(COMPILED_GAIN, CPU_GAIN, PROCESSES)


def less_work(share: float, gain: float) -> float:
    """Speedup of a call of which the work takes a share, if only that is divided by `gain`."""
    return 1 / (1 - share + share / gain)


FUSED_ALONE = less_work(PLAIN_FP32_DEVICE_S / PLAIN_FP32_S, FUSED_FUSION[0])
COMPILED_ALONE = less_work(1 - CPU_DISPATCH[0], COMPILED_FUSION[0])

# A step whose parts rise by 1, 2, 0.5 and 0.1 µs from block to block, in one of 400 µs
PARTS = {"forward": (100, 1.0), "backward": (200, 2.0), "optimizer": (50, 0.5), "scaler": (10, 0.1)}
PARTS_RATIO = rising(360 / 400, 3.6 / 400)


# µs as if all rounds had run at the machine's best pace of 50 µs. Of `one_thread` latencies rise by
# 1 from 170 and paces by 4 from 80, so their quotients fall.
COMPILED_AT_FULL_PACE = rising(100 * 50 / 100, 1 * 50 / 100)
ONE_THREAD_AT_FULL_PACE = (50 * (175 / 100 + 176 / 104) / 2, 50 * 179 / 116, 50 * 172 / 88)


def in_us(values: tuple[float, float, float]) -> tuple[float, float, float]:
    """True microseconds, in seconds."""
    value, low, high = (each * 1e-6 for each in values)
    return value, low, high


GRAPH_FLOOR_S = STORED["least_bytes"]["graph"] / STORED["ceiling_bytes_per_s"]["graph"]

NEVER = {
    "apart", "changed_arguments", "settings_put_back", "settings_in_calls", "own_graphs",
    "pipelined_note", "subnormal", "confirms",
    "calls", "calls_pad", "first_pass_s", "compiled_calls", "gave_up_at_call", "eager_calls",
    "size_latencies_s",
    *(f"confirming_speedup{end}" for end in ("", "_ci_low", "_ci_high")),
}  # fmt: skip
"""Columns that are null in this world: no two rows of it have the same name, no model changes
anything but what it returns, no calls differ in size, and no process confirms another."""


def _baseline_s(latency_us: float, ratio: float) -> float:
    """The median of a given row's baseline."""
    return float(median(planted.paired(latency_us, ratio)["baseline_latency_rounds_s"]))


# Latencies that are shown: the median of the baseline's in a group, of six rows or two, ÷ the
# speedup. The two in the middle of the six are those of `FUSED` and `plain`.
BASE_S = (math.sqrt(CONTROL_S * PLAIN_BASELINE_S) + PLAIN_BASELINE_S) / 2
CPU_BASE_S = (_baseline_s(100, 1.5) + _baseline_s(200, 1.1)) / 2
GRAPH_PACE, PLAIN_PACE = BASE_S / GRAPH_BASELINE_S, BASE_S / PLAIN_BASELINE_S
COMPILED_PAIRED_S = CPU_BASE_S / COMPILED_GAIN[0]
TRAINED_S = _baseline_s(300, 0.9) / gained(0.9)[0]
ONE_THREAD_S = _baseline_s(170, 1.2) / gained(1.2)[0]

DERIVED: Values = {
    **clock("latency", {
        "graph": sure(GRAPH_S), FUSED: hull(*FUSED_S), "compiled": in_us(rising(100, 1)),
        "wrong": NONE,
    }),
    "latency_p95_s": {"compiled": 96e-6, "graph": GRAPH_S},  # of 1 to 101 µs
    "baseline_latency_s": {"graph": GRAPH_BASELINE_S, "wrong": None},
    **ratio("speedup", {
        "graph": GRAPH_GAIN, "plain": PLAIN_GAIN, "plain_fp32": PLAIN_FP32_GAIN, FUSED: FUSED_GAIN,
        INFERRED: INFERRED_GAIN, "compiled": COMPILED_GAIN, CPU: CPU_GAIN, "wrong": NONE,
    }),
    **clock("latency_paired", {
        "graph": sure(GRAPH_S * GRAPH_PACE), "wrong": NONE,
        "compiled": (
            CPU_BASE_S / COMPILED_GAIN[0], CPU_BASE_S / COMPILED_GAIN[2],
            CPU_BASE_S / COMPILED_GAIN[1],
        ),
    }),
    "host_paired_s": {"plain": waited_s(120, 1.25) * PLAIN_PACE},
    "device_paired_s": {"graph": GRAPH_DEVICE_S * GRAPH_PACE, CPU: None},
    "pipelined_paired_s": {"compiled": COMPILED_PAIRED_S},
    "dispatch_paired_s": {"plain": waited_s(15, 1.25) * PLAIN_PACE, "graph": None},
    **{
        f"{name}_paired_s": {
            "trained": TRAINED_S * (first + 5.5 * step) / 400, "graph": None,
        }
        for name, (first, step) in PARTS.items()
    },
    "speedup_process_spread": {  # of two logarithms: their difference ÷ √2
        FUSED: math.log(FUSED_GAIN[2] / FUSED_GAIN[1]) / math.sqrt(2), "graph": None,
    },
    "latency_process_spread": {
        FUSED: math.log(FUSED_S[1] / FUSED_S[0]) / math.sqrt(2), "graph": None,
    },
    # Against plain eager of the same grad axis at the baseline's dtype, not at the row's
    **ratio("speedup_same_grad", {
        "graph": worst(GRAPH_GAIN, PLAIN_FP32_GAIN, PROCESSES),
        "plain": worst(PLAIN_GAIN, PLAIN_FP32_GAIN, PROCESSES),
        "plain_fp32": NONE, FUSED: SAME_GRAD_FUSED, "compiled": SAME_GRAD_COMPILED,
    }),
    "verdict": {"graph": "faster", "control": "equivalent", "trained": "slower", "wrong": None},
    "mde": {  # 1.43 half-widths of the logarithm; not of several processes
        "compiled": math.expm1(1.43 * math.log(1.59 / 1.52) / 2), "graph": 0.0, FUSED: None,
    },
    # What the first call took longer ÷ what a call gains
    "break_even_calls": {
        "graph": (CAPTURE_S * 1.5 + GRAPH_S - GRAPH_BASELINE_S) / (GRAPH_BASELINE_S - GRAPH_S),
        "compiled": (4.03 - 0.03) / (105.5e-6 * (COMPILED_GAIN[0] - 1)),
        "plain": 0.0, "control": None, "trained": math.inf,
    },
    "rounds": {"graph": 14, FUSED: 14, INFERRED: 14, "compiled": 12, "wrong": None},
    **clock("host", {"graph": sure(waited_s(5, 1.5)), "plain": sure(waited_s(120, 1.25))}),
    **clock("device", {"graph": sure(GRAPH_DEVICE_S), FUSED: hull(*FUSED_DEVICE_S), CPU: NONE}),
    **clock("pipelined", {
        "graph": sure(102 * 1.5 * US), "plain": sure(120 * 1.25 * US),
        FUSED: hull(150 * US, 165 * 1.25 * US),
    }),
    **clock("dispatch", {
        "plain": sure(waited_s(15, 1.25)), "graph": NONE, CPU: in_us(rising(40, 0.1)),
    }),
    **ratio("host_share", {"graph": sure(waited_s(5, 1.5) / GRAPH_S)}),
    **ratio("device_share", {"graph": sure(GRAPH_DEVICE_S / GRAPH_S)}),
    **ratio("pipelined_share", {"graph": sure(102 * 1.5 * US / GRAPH_S)}),
    **ratio("dispatch_share", {
        "plain": sure(waited_s(15, 1.25) / PLAIN_S), "graph": NONE,
        "compiled": COMPILED_DISPATCH, CPU: CPU_DISPATCH,
    }),
    **ratio("host_per_device", {
        "graph": sure(waited_s(5, 1.5) / GRAPH_DEVICE_S),
        "plain": sure(waited_s(120, 1.25) / PLAIN_DEVICE_S), CPU: NONE,
    }),
    **ratio("device_gain", {
        "graph": GRAPH_DEVICE_GAIN, "plain": PLAIN_DEVICE_GAIN, FUSED: FUSED_DEVICE_GAIN, CPU: NONE,
    }),
    **ratio("dispatch_ratio", {
        "plain": sure(waited_s(24, 1.25) / waited_s(15, 1.25)), "graph": NONE,
        "compiled": ((60 / 20.5 + 60 / 20.6) / 2, 60 / 20.9, 60 / 20.2),
    }),
    # The pace: the machines' best is 50 US and 50 µs
    "pace": {"graph": waited_s(50) / waited_s(50, 1.5), "compiled": 0.5, "one_thread": 50 / 102},
    "pace_slowest": {"graph": 1.0, "one_thread": (80 + 4 * 0.55) / (80 + 4 * 10.45)},
    **clock("latency_at_full_pace", {
        "compiled": in_us(COMPILED_AT_FULL_PACE), "one_thread": in_us(ONE_THREAD_AT_FULL_PACE),
        "graph": NONE,
    }),
    **ratio("threads_gain", {
        "compiled": worst(ONE_THREAD_AT_FULL_PACE, COMPILED_AT_FULL_PACE),
        "one_thread": NONE, "graph": NONE,
    }),
    **{name: values for part, (first, step) in PARTS.items() for name, values in (
        clock(part, {"trained": in_us(rising(first, step)), "graph": NONE})
        | ratio(f"{part}_share", {"trained": rising(first / 400, step / 400)})
    ).items()},
    **ratio("parts_ratio", {"trained": PARTS_RATIO, "graph": NONE}),
    "launch_s": {
        "plain": (waited_s(120, 1.25) - waited_s(15, 1.25)) * PLAIN_PACE, "graph": None, CPU: None,
    },
    "work_s": {
        "graph": GRAPH_DEVICE_S * GRAPH_PACE,
        "compiled": COMPILED_PAIRED_S * (1 - COMPILED_DISPATCH[0]),
    },
    "host_wait_s": {"graph": (GRAPH_S - waited_s(5, 1.5)) * GRAPH_PACE, CPU: None},
    "device_idle_s": {"graph": (GRAPH_S - GRAPH_DEVICE_S) * GRAPH_PACE, CPU: None},
    "bound_by": {"graph": "work", "plain": "overhead", "compiled": "work", "wrong": None},
    # By the profile, which contradicts the device time of the control
    "device_idle_fraction": {"graph": 1 - traced_s(99) / GRAPH_S, "control": None, CPU: None},
    "residual_s": {
        "graph": (GRAPH_DEVICE_S - traced_s(99)) * GRAPH_PACE, "control": None,
        "compiled": COMPILED_PAIRED_S * (1 - COMPILED_DISPATCH[0] - 84 / 105),
    },
    **ratio("fusion_gain", {
        "graph": GRAPH_FUSION, FUSED: FUSED_FUSION, "compiled": COMPILED_FUSION, "plain": NONE,
    }),
    "fusion_speedup": {
        "graph": less_work(PLAIN_DEVICE_S / PLAIN_S, GRAPH_FUSION[0]), FUSED: FUSED_ALONE,
        "compiled": COMPILED_ALONE, "plain": None,
    },
    # Not of bf16: its fusion is against plain eager at bf16, its speedup against that at fp32
    "launch_gain": {
        "graph": None, FUSED: SAME_GRAD_FUSED[0] / FUSED_ALONE,
        "compiled": SAME_GRAD_COMPILED[0] / COMPILED_ALONE,
    },
    "bytes_saved": {"compiled": 3500 - 1000, "graph": None},
    "peak_bytes": {"graph": 3000 + 4096 + 20_000 - 1_500, CPU: None},
    # By the copies: 192 FLOPs take 0.1 µs. Of one_thread 2e6 at 1e11/s, and 1 µs for its bytes
    "floor_s": {"graph": GRAPH_FLOOR_S, "one_thread": 20e-6, CPU: None},
    "floor_bound": {"graph": "memory", "one_thread": "compute", CPU: None},
    "roofline_fraction": {
        "graph": GRAPH_FLOOR_S / GRAPH_DEVICE_S,
        "one_thread": 20e-6 / (ONE_THREAD_S * (1 - 22.55 / 175.5)),
    },
    # Device times of eager and of the same kernels in a graph differ by more than 5 %
    "flags": {
        "graph": ["other_operators", "throttled", "graph_contradicts_gate", "slow_pace"],
        "plain": ["other_operators", "queue_full", "graph_contradicts_gate"],
        "control": ["other_operators", "profile_contradicts_device_time"],
        "compiled": ["slow_pace"], "wrong": [],
    },
    "flags_touch": {
        "graph": ["speedup", "latency", "device", "speedup"],
        "plain": ["speedup", "device", "device"],
    },
    "cause": {
        "graph": "no_autograd;less_overhead;first_call;guards",
        "compiled": "compiled_code;fused_kernels;no_autograd;first_call;recompiles;graph_breaks",
        "one_thread": "threads;first_call;recompiles;graph_breaks",
        "control": "grad_left_on", "trained": None, "wrong": None,
    },
    "cause_text": {"graph": Text("."), "trained": None},
    "environment": {"compiled": "A", "graph": "B"},  # given rows began in the past
    "measured_times": {"graph": 1},
    "replicates": {"graph": 1, FUSED: 2, "wrong": 0},
    "speedup_processes": {"graph": 1, FUSED: 2, "wrong": 0},
    "replicates_not_ok": {"graph": 0, "wrong": 1},
    "process_run_ids": {row: row for row in (*RUNS, FUSED, INFERRED) if row in {
        "graph", "plain", "wrong", FUSED, INFERRED}},
    "process_nodes": {"graph": "node7", FUSED: "node7", "compiled": None},
    "apart": {"graph": None},
}  # fmt: skip


ANSWERS: dict[tuple[str, str], Any] = {
    # 1.39 to 1.45 of inference_mode and 1.40 to 1.54 of the graph overlap, but their middles are
    # 4 % apart: they are no tie, and the graph's is higher.
    ("fp32", '{"batch":6}'): (
        "mode", "graph_fp32_again", [], {"plain_fp32": "less", "inference": "open"},
    ),
    ("bf16", '{"batch":6}'): ("mode", "graph", [], {"plain": "less"}),
    ("fp32", '{"batch":5}'): ("nothing", None, [], {"wrong": "wrong"}),
    ("fp32", '{"batch":4,"seq":64}'): ("mode", "compiled", [], {CPU: "less"}),
    ("fp16", '{"batch":4,"seq":64}'): ("baseline", None, [], {"trained": "slower"}),
}  # fmt: skip
"""By dtype and shape: outcome, chosen run, tied runs, and the kind of refusal of the others."""
