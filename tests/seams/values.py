"""The values of the made-up world, worked out by hand from what it is made of.

A table for stored and one for derived columns: row -> column -> value. A new column needs a value
that is not null in at least one row.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict, dataclass
from itertools import pairwise
from statistics import median, stdev
from typing import Any

import pytest

from tests.seams import given
from tests.seams.machine import (
    CACHES_BYTES,
    CAPTURE_S,
    COPIED_BYTES_PER_S,
    FLOPS_PER_S,
    MARK_S,
    READ_S,
    US,
)
from tests.seams.world import BUDGET, ENVIRONMENT, LONGER, PLACE, SCHEDULING

Columns = dict[str, Any]
Rows = dict[str, Columns]


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

CPU = "plain_cpu"

# A step whose parts rise by 1, 2, 0.5 and 0.1 µs from block to block, in one of 400 µs
PARTS = {"forward": (100, 1.0), "backward": (200, 2.0), "optimizer": (50, 0.5), "scaler": (10, 0.1)}


@dataclass(frozen=True)
class Json:
    """A text that says so."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and bool(json.loads(other) == self.value)


def traced_s(us: float) -> float:
    """A time in the trace of the process with slowdown 1.5, whose microseconds are true ones."""
    return us * 1e-6 * 1.5


def listed(*entries: tuple[str, int, float]) -> Json:
    """Names, counts and times in the trace."""
    return Json([{"name": name, "count": count, "seconds": pytest.approx(traced_s(us))}
                 for name, count, us in entries])  # fmt: skip


# The row `graph`, whole: a stored column that is not named here is null in it.
GRAPH: Columns = {
    # Which run
    "schema_version": 5, "run_id": "graph", "case_id": Text("^[0-9a-f]{16}$"), "study": "seams",
    "started_at": Text(r"^\d{4}-\d\d-\d\dT.*\+00:00$"), "duration_s": Lasted("whole run"),
    "budget": "quick", "budget_rank": 1, "budget_settings": BUDGET.settings, "seed": 11,
    "replicate": 0, "status": "ok", "command": "python run.py mode=cuda-graph", "profile": True,
    "memory": True, "explain": "true", "max_error": 0.25, **asdict(PLACE),
    # The work
    "model": "seams", "model_args": "{}", "fullgraph": True, "shape": '{"batch":6}', "batch": 6,
    "phase": "inference", "dtype": "bf16", "mode": "cuda-graph", "grad": "no_grad",
    "autocast": False, "compile_mode": "none", "graph": True, "baseline_mode": "eager",
    "baseline_dtype": "fp32", "device": "cuda", "threads": 1, "compile_cache": "cold",
    "batch_dim": 0,
    # The machine: as given, and the load that the system tells
    **asdict(ENVIRONMENT), "load_1min": 0.75, **asdict(SCHEDULING),
    # Checks. Of two checks of bf16 (3/64 before timing, 1/128 after) the larger error is stored.
    # The limit is 3 x eager's error + a tenth of the tolerance. The world's models call an operator
    # that their steps on the simulated device do not.
    "in_effect": True, "matmul_precision": "highest", "seen_grad": "no_grad",
    "seen_autocast": "none", "seen_weight_dtype": "bfloat16",
    "checked": "exact",
    "checked_inputs": "fresh", "checked_against": "float64", "error": 3 * 2**-6,
    "error_place": "output [0]", "unchecked_outputs": Text(r"^\[1\] \(int64"),
    "eager_error": 2**-6, "error_limit": 3 * 2**-6 + 2e-3, "baseline_error": 2**-14,
    "baseline_error_limit": 5 * 1e-4, "steady_operators": "with aten.mul",
    # First calls: capturing, then one replay that is waited for
    "first_call_s": CAPTURE_S * 1.5 + GRAPH_S, "baseline_first_call_s": GRAPH_BASELINE_S + READ_S,
    "graphs": 0, "recompiles": 0, "torch_warnings": "[]", "autotuned": 0, "graph_launches": 1,
    # Paired rounds: blocks of 1.5 ms, so 10 calls; 14 rounds, as all are equal; half each way
    "warmup_s": Lasted("warm-up", SEARCHED_S), "timed_s": Lasted("timing", SEARCHED_S),
    "calls_per_round": math.ceil(1.5e-3 / GRAPH_S), "latency_rounds_s": rounds(14, GRAPH_S),
    "baseline_latency_rounds_s": rounds(14, GRAPH_BASELINE_S), "case_ran_first": Half(14),
    "pace_rounds_s": rounds(14, waited_s(50, 1.5)), "latency_calls_s": rounds(140, GRAPH_S),
    "rounds_left_out": 0, "rounds_again": True, "stopped_early": False, "best_pace_s": waited_s(50),
    # Rounds of the clocks, of which there are 13; no two clocks have the same time. The device is
    # busy for longer than the host.
    "clocks_latency_rounds_s": rounds(13, GRAPH_S),
    "host_rounds_s": rounds(13, waited_s(5, 1.5)),
    "pipelined_rounds_s": rounds(13, 102 * 1.5 * US),
    "device_rounds_s": rounds(13, GRAPH_DEVICE_S),
    "baseline_device_rounds_s": rounds(13, GRAPH_EAGER_DEVICE_S),
    "device_calls": 4, "device_calls_wanted": 4, "dispatch_note": Text("captured graph"),
    "clocks_s": Lasted("clocks"), "synchronize_s": READ_S,
    # The system's counters: 10 s on 4 cores, 35.5 idle and 4 of this process, so 0.5 of others
    "watched_s": 10.0, "cpu_wait_s": 0.05, "others_cpu_s": 10 * 4 - 35.5 - 4, "machine_cores": 4,
    "cgroup_throttled_s": 0.02, "device_clock_hz": [2e9 / 1.5] * 3, "gpu_processes": 0,
    "throttle_reasons": ["sw_power_cap"],
    # Alone it takes as long, as the simulated power cap slows nothing down
    "latency_alone_s": GRAPH_S, "clock_alone_hz": 2e9 / 1.5, "throttle_alone": ["sw_power_cap"],
    # Weights, inputs of 8 bytes, outputs; a slower level is larger
    "working_set_bytes": 2 * (16 + 4) + 8 * 24 + 2 * 24, "l2_bytes": CACHES_BYTES[0],
    "last_level_bytes": CACHES_BYTES[1],
    # The profile. Of five calls the one with the median span counts, the fourth. Two kernels
    # overlap (40 to 93, 70 to 110), then a copy of 5, a fill of 4 and a kernel of 20: busy for 99.
    # Launches precede their work by 10, 10, 25, 26 and 30.
    "ops_dispatched": 2, "ops_leaf": 2, "leaf_ops_s": traced_s(60 + 30), "kernels": 3,
    "kernels_s": traced_s(53 + 40 + 20), "launches": 3, "copies": 1, "fills": 1,
    "device_busy_s": traced_s((110 - 40) + 5 + 4 + 20), "profiled_pace_s": waited_s(50, 1.5),
    "guards_s": traced_s(4), "compiled_wrapper_s": traced_s(150 - 100 - 30),
    "profiled_span_s": traced_s(220), "launch_delay_s": traced_s(25),
    "heaviest_kernels": listed(("gemm", 2, 73), ("add", 1, 40)),
    "heaviest_ops": listed(
        ("aten::addmm", 1, 60), ("aten::linear", 1, 100 - 60), ("aten::mul", 1, 30)
    ),
    "profiler_overhead": waited_s(12 + REPLAY_BF16, 1.5) / GRAPH_S, "trace": "graph.json.gz",
    # Memory. Weights 4 x 4 and a buffer of 4; inputs 6 x 4 of 8 bytes
    "setup_peak_bytes": 99_000, "weights_bytes": 2 * (16 + 4),
    "input_bytes": 8 * 24, "resident_bytes": 3000, "saved_activation_bytes": 0,
    "autocast_copy_bytes": 0, "step_peak_bytes": 4096, "step_left_bytes": 7000 - 6400,
    "allocations_per_call": 7, "allocated_bytes_per_call": 7000, "reserved_bytes": 90_000,
    "workspace_bytes": 333, "graph_pool_bytes": 20_000, "graph_pool_live_bytes": 1_500,
    "snapshot": "graph.pickle",
    # Work: x (24 of 8 bytes) is cast, multiplied (24 x 4 multiply-adds) and shifted
    "flops": 2 * 24 * 4, "least_bytes": 8 * 24 + 2 * (16 + 4) + 2 * 24,
    "eager_bytes": 8 * 24 + 2 * (24 + 24 + 16 + 24 + 24 + 4 + 24),
    # The rates of the device, which is slower by 1.25 in the process that measured them at bf16:
    # the product of 256 alone is short enough; of copies and reads of 256 KiB copies are faster
    "ceiling_flops_per_s": FLOPS_PER_S["bf16"] / 1.25,
    "ceiling_bytes_per_s": COPIED_BYTES_PER_S / 1.25,
    "flags": ["other_operators"],
}  # fmt: skip

STORED: Rows = {
    "graph": GRAPH,
    "control": {
        "max_error": None, "dtype": "fp32", "mode": "eager", "grad": "enabled", "graph": False,
        "seen_grad": "enabled", "seen_weight_dtype": "float32", "error": 2**-16,
        "eager_error": 2**-15, "error_limit": 3 * 2**-15 + 1e-5,
        "first_call_s": CONTROL_S + READ_S, "graph_launches": 0, "weights_bytes": 4 * (16 + 4),
        "working_set_bytes": 4 * (16 + 4) + 8 * 24 + 4 * 24,
        "saved_activation_bytes": 4 * 24,  # eager saves inputs as fp32
        "least_bytes": 8 * 24 + 4 * (16 + 4) + 4 * 24,
        "eager_bytes": 8 * 24 + 4 * (24 + 24 + 16 + 24 + 24 + 4 + 24),
        "ceiling_flops_per_s": FLOPS_PER_S["fp32"], "ceiling_bytes_per_s": COPIED_BYTES_PER_S,
        "flags": ["other_operators", "profile_contradicts_device_time"],
    },
    "plain": {
        "clocks_latency_rounds_s": rounds(13, PLAIN_S),
        "host_rounds_s": rounds(13, waited_s(80 + 40, 1.25)),
        "pipelined_rounds_s": rounds(13, 120 * 1.25 * US),  # the host is busy for longer
        "device_rounds_s": rounds(13, PLAIN_DEVICE_S),
        "baseline_device_rounds_s": rounds(13, PLAIN_EAGER_DEVICE_S),
        "device_calls": 3, "device_calls_wanted": 4, "dispatch_note": None,
        "dispatch_rounds_s": rounds(13, waited_s(15, 1.25)),
        "baseline_dispatch_rounds_s": rounds(13, waited_s(24, 1.25)),
        "throttle_reasons": [], "throttle_alone": [], "clock_alone_hz": 2e9 / 1.25,
        "latency_alone_s": PLAIN_S,
    },
    "graph_fp32": {
        "budget": "standard", "budget_rank": 2, "budget_settings": LONGER.settings,
        "latency_rounds_s": rounds(16, waited_s(156)),
    },
    "graph_fp32_again": {"replicate": 1, "trace": None, "snapshot": None},
    "inference": {"seen_grad": "inference_mode"},
    "wrong": {  # nan is larger than any number
        "status": "wrong_result", "reason": Text("error nan .* eager's is 3.1e-05"),
        "error": math.nan, "shape": '{"batch":5}', "batch": 5, "steady_operators": None,
        "device_calls": None,
    },
    CPU: {"device_rounds_s": None, "device_note": "a CPU has no queue"},
    "compiled": {
        **dict.fromkeys(("checked_inputs", "checked_against", "stopped_early", "steady_operators")),
        **dict.fromkeys(("best_pace_s", "batch_dim")),
        "compile_mode": "default", "device": "cpu", "threads": 2, "checked": "without_randomness",
        "checked_note": "dropout was switched off", "drawn_spread": 0.9, **given.COMPILED,
        **{name: list(held) if isinstance(held, tuple) else held
           for name, held in given.STARTS.items()},
        "profiled_kernels_rounds_s": rounds(12, 84e-6),
        "profiled_latency_rounds_s": rounds(12, 105e-6),
    },
    "one_thread": {
        "explain": "fusion", "steps": [*given.VARIANTS], "steps_s": 6.5,
        "steps_unlike": '{"autograd":"with aten.mul"}',
        "steps_rounds_s": [call_s for first, step in given.VARIANTS.values()
                           for call_s in given.rounds(first * 1e-6, step * 1e-6)],
    },
    "trained": {
        "seq": 64, "phase": "train", "optimizer": "sgd", "training": '{"scaler":true}',
        "autocast": True, "model_inputs": '{"x":[4]}',
        "model_kernels": '{"mine":"net:mine"}', "seen_autocast": "float16",
        "scale_error": 0.02, "eager_scale_error": 0.01, "scale_error_limit": 0.05,
        "loss_scale": 4096.0, "overflow_skipped": True, "gradient_bytes": 640,
        "optimizer_state_bytes": 1280, "parts_latency_rounds_s": rounds(12, 400e-6),
        **{f"{part}_rounds_s": [*given.rounds(first * 1e-6, step * 1e-6)]
           for part, (first, step) in PARTS.items()},
        **{f"{name}_note": f"note on {name}" for name in given.NOTES},
    },
}  # fmt: skip
"""Columns of the rows as they are stored."""


# --- Derived columns -------------------------------------------------------------------------
# Rows by their processes. `fused` and `inferred` are two processes each; their values are geometric
# means, their intervals the range of both. In `compiled` and other given rows, 12 rounds rise by a
# step: the median is the first + 5.5 steps, the interval from + 2 to + 9 steps.

FUSED, INFERRED = "graph_fp32;graph_fp32_again", "inference;inference_again"


Triple = tuple[float, float, float]
"""A value and the ends of its interval."""

NONE = (None, None, None)


def sure(value: float) -> Triple:
    """Equal in all rounds."""
    return value, value, value


def hull(one: float, other: float) -> Triple:
    """Two processes, each equal in all of its rounds."""
    return math.sqrt(one * other), min(one, other), max(one, other)


def rising(first: float, step: float) -> Triple:
    """Of twelve rounds that rise by a step; that fall, if it is negative."""
    ends = sorted((first + 2 * step, first + 9 * step))
    return first + 5.5 * step, ends[0], ends[1]


def worst(top: Triple, bottom: Triple, widened: float = 1.0) -> Triple:
    """A quotient with the least favourable ends, widened by what two processes may differ by."""
    return top[0] / bottom[0], top[1] / bottom[2] / widened, top[2] / bottom[1] * widened


STUDENT = 4.302653  # of two degrees of freedom, at 95 %


def spread(middle: float, deviation: float) -> Triple:
    """The mean of three processes with this standard deviation."""
    half_width = STUDENT * deviation / math.sqrt(3)
    return middle, middle - half_width, middle + half_width


def geometric(*values: float) -> Triple:
    """The geometric mean of three processes, with Student's interval of the logarithms."""
    logs = [math.log(value) for value in values]
    mean, low, high = spread(sum(logs) / 3, stdev(logs))
    return math.exp(mean), math.exp(low), math.exp(high)


def gained(first: float) -> Triple:
    """Speedups that rise by 0.01 from `first`; their median is that of their logarithms."""
    return math.sqrt((first + 0.05) * (first + 0.06)), first + 0.02, first + 0.09


PROCESSES = 1.03


def saved(before: str, after: str) -> Triple:
    """What a variant saves beyond another, as a share of eager's steady 100 µs."""
    (slow, rise), (fast, other_rise) = given.VARIANTS[before], given.VARIANTS[after]
    return rising((slow - fast) / 100, (rise - other_rise) / 100)


MODE_US, MODE_RISE_US = given.VARIANTS["capture"]  # the last rung; those of trials are steady
LADDER = ("eager", "autograd", "autocast", "python", "code", "entry", "guards", "capture")

GRAPH_GAIN, PLAIN_GAIN = sure(GRAPH_BASELINE_S / GRAPH_S), sure(PLAIN_BASELINE_S / PLAIN_S)
PLAIN_FP32_S = waited_s(NO_GRAD_FP32)
PLAIN_FP32_GAIN = sure(CONTROL_S / PLAIN_FP32_S)
FUSED_S = waited_s(156), waited_s(171, 1.25)
FUSED_GAIN = hull(CONTROL_S / FUSED_S[0], waited_s(EAGER, 1.25) / FUSED_S[1])
INFERRED_S = waited_s(174), waited_s(166, 2.0)
COMPILED_GAIN, CPU_GAIN = gained(1.5), gained(1.1)
COMPILED_DISPATCH = rising(20 / 105.5, 0.1 / 105.5)
CPU_DISPATCH = rising(40 / 205.5, 0.1 / 205.5)


def rest(share: Triple) -> Triple:
    """What a share leaves."""
    return 1 - share[0], 1 - share[2], 1 - share[1]


def times(one: Triple, other: Triple) -> Triple:
    """A product with its ends."""
    return one[0] * other[0], one[1] * other[1], one[2] * other[2]


# Device time of the baseline ÷ that of the row, each of the same process
GRAPH_DEVICE_GAIN = sure(GRAPH_EAGER_DEVICE_S / GRAPH_DEVICE_S)
PLAIN_DEVICE_GAIN = sure(PLAIN_EAGER_DEVICE_S / PLAIN_DEVICE_S)
FUSED_DEVICE_S = queued_s(150, 1.0, calls=4), queued_s(165, 1.25, calls=3)
FUSED_DEVICE_GAIN = hull(CONTROL_DEVICE_S / FUSED_DEVICE_S[0],
                         PLAIN_EAGER_DEVICE_S / FUSED_DEVICE_S[1])  # fmt: skip

# Fusion: the work of plain eager at the same dtype ÷ the row's, through their baselines
COMPILED_FUSION = times(worst(COMPILED_GAIN, CPU_GAIN),
                        worst(rest(CPU_DISPATCH), rest(COMPILED_DISPATCH)))  # fmt: skip
SAME_GRAD_FUSED = worst(FUSED_GAIN, PLAIN_FP32_GAIN, PROCESSES)
CHAINED = times(times(gained(1.3), gained(4.0)), (1.0, 1 / PROCESSES, PROCESSES))
SAME_GRAD_COMPILED = worst(COMPILED_GAIN, CPU_GAIN, PROCESSES)


def less_work(share: float, gain: float) -> float:
    """Speedup of a call of which the work takes a share, if only that is divided by `gain`."""
    return 1 / (1 - share + share / gain)


COMPILED_ALONE = less_work(1 - CPU_DISPATCH[0], COMPILED_FUSION[0])

# µs as if all rounds had run at the machine's best pace of 50 µs. Of `one_thread` latencies rise by
# 1 from 170 and paces by 4 from 80, so their quotients fall.
COMPILED_AT_FULL_PACE = rising(100 * 50 / 100, 1 * 50 / 100)
ONE_THREAD_AT_FULL_PACE = (50 * (175 / 100 + 176 / 104) / 2, 50 * 179 / 116, 50 * 172 / 88)


def in_us(values: Triple) -> Triple:
    """True microseconds, in seconds."""
    value, low, high = (each * 1e-6 for each in values)
    return value, low, high


GRAPH_FLOOR_S = GRAPH["least_bytes"] / GRAPH["ceiling_bytes_per_s"]

NEVER = {
    "apart", "named_inputs", "changed_arguments", "settings_put_back", "settings_in_calls",
    "changed_state", "state_left", "dtypes_kept", "own_graphs",
    "regions", "regions_called", "region_names", "baseline_note", "pipelined_note",
    "subnormal", "confirms", "axes", "seen_axes", "seen_attention",
    "calls", "calls_pad", "first_pass_s", "compiled_calls", "gave_up_at_call", "eager_calls",
    "size_latencies_s", "data", "evicted_with", "evicted_bytes", "baseline_evicted_bytes",
    "eviction_s", "cold_read_s", "warm_read_s", "code_hash", "options_changed_code",
    "frozen_weights", "packed_weights", "layout_kept",
    "quantize", "quantized_share", "quantizer", "output_cosine", "top1_agreement",
    "package_export_s", "package_build_s", "package_load_s", "package_bytes",
    *(f"confirming_speedup{end}" for end in ("", "_ci_low", "_ci_high")),
}  # fmt: skip
"""Columns that are null in this world: no two rows of it have the same name, no model changes
anything but what it returns, no calls differ in size, no process confirms another, modes set no
further axes, give weights no fewer bits, compile no blocks, load no package and evict no data, and
Inductor's code is made up."""


def _baseline_s(latency_us: float, ratio: float) -> float:
    """The median of a given row's baseline."""
    return float(median(given.paired(latency_us, ratio)["baseline_latency_rounds_s"]))


# Latencies that are shown on a CPU: the median of the baseline's in a group of two ÷ the speedup.
CPU_BASE_S = (_baseline_s(100, 1.5) + _baseline_s(200, 1.1)) / 2
COMPILED_PAIRED_S = CPU_BASE_S / COMPILED_GAIN[0]
TRAINED_S = _baseline_s(300, 0.9) / gained(0.9)[0]
ONE_THREAD_S = _baseline_s(170, 1.2) / gained(1.2)[0]

SUMMARISED: Rows = {"graph": {"speedup": GRAPH_GAIN, "mde": 0.0}}
"""What the summary of a row says and its derived columns, which know other rows, do not."""

DERIVED: Rows = {
    # The row `graph`, whole, as above. Against plain eager of the same grad axis at the baseline's
    # dtype, not at the row's: so of bf16 the gain of the launches is unknown. Its host was slow, so
    # it has no speedup, and what follows from that is unknown.
    "graph": {
        "latency_s": sure(GRAPH_S), "latency_p95_s": GRAPH_S,
        "baseline_latency_s": GRAPH_BASELINE_S, "verdict": "inconclusive",
        "latency_paired_s": sure(GRAPH_S), "host_paired_s": waited_s(5, 1.5),
        "device_paired_s": GRAPH_DEVICE_S, "pipelined_paired_s": 102 * 1.5 * US,
        "host_s": sure(waited_s(5, 1.5)), "device_s": sure(GRAPH_DEVICE_S),
        "pipelined_s": sure(102 * 1.5 * US), "host_share": sure(waited_s(5, 1.5) / GRAPH_S),
        "device_share": sure(GRAPH_DEVICE_S / GRAPH_S),
        "pipelined_share": sure(102 * 1.5 * US / GRAPH_S),
        "host_per_device": sure(waited_s(5, 1.5) / GRAPH_DEVICE_S),
        "device_gain": GRAPH_DEVICE_GAIN,
        "pace": waited_s(50) / waited_s(50, 1.5), "pace_slowest": 1.0,  # the best is 50 US
        "work_s": GRAPH_DEVICE_S, "bound_by": "work",
        "host_wait_s": GRAPH_S - waited_s(5, 1.5),
        "device_idle_fraction": 1 - traced_s(99) / GRAPH_S,
        "residual_s": GRAPH_DEVICE_S - traced_s(99),
        "peak_bytes": 3000 + 4096 + 20_000 - 1_500,
        # by the copies: 192 FLOPs take 0.1 µs
        "floor_s": GRAPH_FLOOR_S, "floor_bound": "memory",
        "roofline_fraction": GRAPH_FLOOR_S / GRAPH_DEVICE_S,
        "flags": ["other_operators", "throttled", "slow_pace"],
        "flags_touch": ["speedup", "latency", "speedup"],
        "cause": "slow_host", "cause_text": Text("."),
        "environment": "B",  # given rows began in the past
        "rounds": 14, "measured_times": 1, "replicates": 1, "speedup_processes": 1,
        "replicates_not_ok": 0, "process_run_ids": "graph", "process_nodes": "node7",
    },
    "control": {  # its profile contradicts its device time
        "verdict": "equivalent", "break_even_calls": None, "device_idle_fraction": None,
        "residual_s": None, "flags": ["other_operators", "profile_contradicts_device_time"],
        "cause": "grad_left_on",
    },
    "plain": {
        "speedup": PLAIN_GAIN, "host_paired_s": waited_s(120, 1.25),
        "speedup_same_grad": worst(PLAIN_GAIN, PLAIN_FP32_GAIN, PROCESSES),
        "break_even_calls": 0.0, "host_s": sure(waited_s(120, 1.25)),
        "pipelined_s": sure(120 * 1.25 * US), "dispatch_s": sure(waited_s(15, 1.25)),
        "dispatch_share": sure(waited_s(15, 1.25) / PLAIN_S), "device_gain": PLAIN_DEVICE_GAIN,
        "host_per_device": sure(waited_s(120, 1.25) / PLAIN_DEVICE_S),
        "dispatch_ratio": sure(waited_s(24, 1.25) / waited_s(15, 1.25)),
        "dispatch_paired_s": waited_s(15, 1.25),
        "launch_s": waited_s(120, 1.25) - waited_s(15, 1.25),
        "bound_by": "overhead", "fusion_gain": NONE, "fusion_speedup": None,
        "flags": ["other_operators", "queue_full"],
        "flags_touch": ["speedup", "device"], "process_run_ids": "plain",
    },
    "plain_fp32": {"speedup": PLAIN_FP32_GAIN, "speedup_same_grad": NONE},
    FUSED: {
        "latency_s": hull(*FUSED_S), "speedup": FUSED_GAIN, "speedup_same_grad": SAME_GRAD_FUSED,
        # of two logarithms: their difference ÷ √2
        "speedup_process_spread": math.log(FUSED_GAIN[2] / FUSED_GAIN[1]) / math.sqrt(2),
        "latency_process_spread": math.log(FUSED_S[1] / FUSED_S[0]) / math.sqrt(2),
        "mde": None, "rounds": 14, "device_s": hull(*FUSED_DEVICE_S),
        "pipelined_s": hull(150 * US, 165 * 1.25 * US), "device_gain": FUSED_DEVICE_GAIN,
        # eager's kernels in a graph: nothing is fused
        "launch_gain": SAME_GRAD_FUSED[0], "replicates": 2, "speedup_processes": 2,
        "process_run_ids": FUSED, "process_nodes": "node7",
    },
    INFERRED: {"speedup": NONE, "rounds": 14, "process_run_ids": INFERRED},
    "wrong": {
        **dict.fromkeys(("latency_s", "speedup", "latency_paired_s"), NONE),
        **dict.fromkeys(("baseline_latency_s", "verdict", "rounds", "bound_by", "cause")),
        "flags": [], "replicates": 0, "speedup_processes": 0, "replicates_not_ok": 1,
        "process_run_ids": "wrong",
    },
    "compiled": {
        "latency_s": in_us(rising(100, 1)), "latency_p95_s": 96e-6,  # of 1 to 101 µs
        "speedup": COMPILED_GAIN, "speedup_same_grad": SAME_GRAD_COMPILED,
        "latency_paired_s": (
            COMPILED_PAIRED_S, CPU_BASE_S / COMPILED_GAIN[2], CPU_BASE_S / COMPILED_GAIN[1],
        ),
        "pipelined_paired_s": COMPILED_PAIRED_S,
        "mde": math.expm1(1.43 * math.log(1.59 / 1.52) / 2),  # 1.43 half-widths of the logarithm
        "break_even_calls": (4.03 - 0.03) / (105.5e-6 * (COMPILED_GAIN[0] - 1)), "rounds": 12,
        "dispatch_share": COMPILED_DISPATCH,
        "dispatch_ratio": ((60 / 20.5 + 60 / 20.6) / 2, 60 / 20.9, 60 / 20.2),
        "pace": 0.5, "latency_at_full_pace_s": in_us(COMPILED_AT_FULL_PACE),  # the best is 50 µs
        "threads_gain": worst(ONE_THREAD_AT_FULL_PACE, COMPILED_AT_FULL_PACE),
        "work_s": COMPILED_PAIRED_S * (1 - COMPILED_DISPATCH[0]), "bound_by": "work",
        "residual_s": COMPILED_PAIRED_S * (1 - COMPILED_DISPATCH[0] - 84 / 105),
        "fusion_gain": COMPILED_FUSION, "fusion_speedup": COMPILED_ALONE,
        "launch_gain": SAME_GRAD_COMPILED[0] / COMPILED_ALONE, "bytes_saved": 3500 - 1000,
        "start_s": spread(14 / 3, math.sqrt(28 / 3)), "start_ratio": geometric(2.0, 2.0, 1.6),
        "flags": ["slow_pace"], "environment": "A", "process_nodes": None,
        "cause": "compiled_code;fused_kernels;no_autograd;first_call;recompiles;graph_breaks",
    },
    "switched": {"speedup": gained(1.3), "link_run_id": "linking", "chained_speedup": CHAINED},
    "linking": {"speedup": gained(4.0), "link_run_id": None, "chained_speedup": NONE},
    "one_thread": {  # 2e6 FLOPs at 1e11/s, and 1 µs for its bytes
        "pace": 50 / 102, "pace_slowest": (80 + 4 * 0.55) / (80 + 4 * 10.45),
        "latency_at_full_pace_s": in_us(ONE_THREAD_AT_FULL_PACE), "threads_gain": NONE,
        "floor_s": 20e-6, "floor_bound": "compute",
        "roofline_fraction": 20e-6 / (ONE_THREAD_S * (1 - 22.55 / 175.5)),
        **{f"step_{after}": saved(before, after)[0] for before, after in pairwise(LADDER)},
        "step_fusion": saved("unfused", "code")[0], "steps_gap": saved("eager", "capture"),
        "steps_control": saved("capture", "again"), "steps_rest": 0.0,  # straight lines add up
        **{f"with_{name}": rising(MODE_US / us, MODE_RISE_US / us)[0]
           for name, (us, rise) in given.VARIANTS.items() if not rise and name != "eager"},
        "measured_cause": "capture", "measured_share": saved("guards", "capture"),
        "cause": "threads;first_call;recompiles;graph_breaks",
    },
    CPU: {
        "speedup": CPU_GAIN, "dispatch_s": in_us(rising(40, 0.1)), "dispatch_share": CPU_DISPATCH,
        **dict.fromkeys(("device_s", "host_per_device", "device_gain"), NONE),
        **dict.fromkeys(("device_paired_s", "launch_s", "host_wait_s")),
        **dict.fromkeys(("device_idle_fraction", "peak_bytes", "floor_s", "floor_bound")),
    },
    "trained": {
        "verdict": "slower", "break_even_calls": math.inf, "cause": None, "cause_text": None,
        "parts_ratio": rising(360 / 400, 3.6 / 400),
        **{f"{part}_s": in_us(rising(*each)) for part, each in PARTS.items()},
        **{f"{part}_share": rising(first / 400, step / 400)
           for part, (first, step) in PARTS.items()},
        **{f"{part}_paired_s": TRAINED_S * (first + 5.5 * step) / 400
           for part, (first, step) in PARTS.items()},
    },
}  # fmt: skip
"""Columns of the derived table, by the processes of a row; of three numbers the second and third
are the ends of an interval."""


ANSWERS: dict[tuple[str, str], Any] = {
    # On CUDA the host of a row at a pace of 1.5 or more was slow.
    ("fp32", '{"batch":6}'): (
        "mode", "graph_fp32_again", [], {"plain_fp32": "less", "inference": "slow_host"},
    ),
    ("bf16", '{"batch":6}'): ("mode", "plain", [], {"graph": "slow_host"}),
    ("fp32", '{"batch":5}'): ("nothing", None, [], {"wrong": "wrong"}),
    ("fp32", '{"batch":4,"seq":64}'): ("mode", "compiled", [], {CPU: "less"}),
    ("tf32", '{"batch":9}'): ("mode", "switched", [], {}),
    ("fp16", '{"batch":4,"seq":64}'): ("baseline", None, [], {"trained": "slower"}),
}  # fmt: skip
"""By dtype and shape: outcome, chosen run, tied runs, and the kind of refusal of the others."""


def by_column(rows: Rows) -> Rows:
    """The same, with a column for each end of an interval: `name_ci_low_s` beside `name_s`."""
    apart: Rows = {}
    for row, columns in rows.items():
        apart[row] = {}
        for name, value in columns.items():
            stem, unit = (name[:-2], "_s") if name.endswith("_s") else (name, "")
            ends = value if isinstance(value, tuple) else (value,)
            for end, each in zip(("", "_ci_low", "_ci_high"), ends, strict=False):
                apart[row][f"{stem}{end}{unit}"] = each
    return apart
