"""Rows whose samples are given: what only a compiler, a training step or a CPU leaves in a row."""

from __future__ import annotations

from typing import Any

from modescope.bench.records.results import Record
from tests.helpers.studies import record, training

SHUFFLED = (5, 0, 9, 2, 11, 4, 7, 1, 10, 3, 8, 6)
"""Twelve rounds in an order without trend. Of twelve values the interval of the median goes from
the third smallest to the third largest."""

US = 1e-6


def rounds(first: float, step: float) -> tuple[float, ...]:
    """first, first + step, ... first + 11 step, shuffled: median first + 5.5 step, interval
    from first + 2 step to first + 9 step."""
    return tuple(first + step * place for place in SHUFFLED)


def paired(latency_us: float, ratio: float) -> dict[str, Any]:
    """Latencies from `latency_us` in steps of 1 µs; ratios from `ratio` in steps of 0.01."""
    case = rounds(latency_us * US, US)
    ratios = [ratio + 0.01 * place for place in SHUFFLED[::-1]]
    return {
        "latency_rounds_s": case,
        "baseline_latency_rounds_s": tuple(c * r for c, r in zip(case, ratios, strict=True)),
        "latency_calls_s": tuple(US * call for call in range(1, 102)),
        "case_ran_first": tuple(place % 2 == 0 for place in range(12)),
    }


def _on_a_cpu(latency_us: float, dispatch_us: float) -> dict[str, Any]:
    """Clocks of rounds of their own: latency stays, dispatch rises by 0.1 µs from round to round.

    The baseline's dispatch is 60 µs, that of a baseline with another mode.
    """
    steady = (latency_us * US,) * 12
    return {
        "clocks_latency_rounds_s": steady,
        "host_rounds_s": steady,
        "pipelined_rounds_s": steady,
        "dispatch_rounds_s": rounds(dispatch_us * US, 0.1 * US),
        "baseline_dispatch_rounds_s": (60 * US,) * 12,
        "device_note": "a CPU has no queue",
        "synchronize_s": 0.0,
    }


MACHINE: dict[str, Any] = {
    "environment_id": "machine 2",
    "device": "cpu",
    "threads": 2,
    "baseline_mode": "eager",
    "study": "seams",
}

COMPILED: dict[str, Any] = {
    "graphs": 2,
    "graph_breaks": 1,
    "graph_break_reasons": '[{"place":"net.py:3","reason":"print"}]',
    "eager_functions": '["helper"]',
    "compile_options": '{"dynamic":true}',
    "autotuned": 5,
    "recompiles": 0,
    "compiler_cache_hits": 3,
    "compiler_cache_misses": 4,
    "compile_phases_s": '{"dynamo":1.5,"inductor":2.5}',
    "recompile_reasons": '["size changed"]',
    "cudagraph_skip_reasons": '["cpu device"]',
    "generated_kernels": 6,
    "extern_calls": 2,
    "fallback_kernels": '["aten::sort"]',
    "own_kernels": 1,
    "own_kernel_names": '["norm_kernel"]',
    "kernel_use": "inlined",
    "kernel_names": '["norm_kernel"]',
    "bytes_accessed": 1_000,
    "eager_bytes": 3_500,
}

VARIANTS = {
    "eager": (100, 0.0), "autograd": (80, 0.1), "autocast": (90, 0.3), "python": (75, 0.2),
    "code": (30, 0.6), "entry": (60, 1.0), "guards": (64, 1.5), "capture": (16, 2.1),
    "again": (17, 2.8), "unfused": (50, 3.6), "skip_guard_on_inbuilt_nn_modules": (15, 0.0),
    "skip_guard_on_all_nn_modules": (14, 0.0), "keep_tensor_guards": (12, 0.0),
    "skip_all_guards": (10, 0.0), "flush_denormal": (8, 0.0), "contiguous": (6, 0.0),
    "static": (5, 0.0),
}  # fmt: skip
"""Variants between eager and a mode: latency of the first round, and rise per round, in µs."""

STEPS: dict[str, Any] = {
    "explain": "fusion",
    "steps": tuple(VARIANTS),
    "steps_rounds_s": tuple(
        call_s for first, step in VARIANTS.values() for call_s in rounds(first * US, step * US)
    ),
    "steps_unlike": '{"autograd":"with aten.mul"}',
    "steps_s": 6.5,
}

STARTS: dict[str, Any] = {
    "starts_s": (2.0, 4.0, 8.0),
    "baseline_starts_s": (1.0, 2.0, 5.0),
    "start_phases_s": '[{"import":1.5,"rest":0.5}]',
    "fill_s": 12.0,
    "cache_bytes": 5_000,
    "shipped_bytes": 4_000,
    "start_graphs": 3,
    "start_hits": 2,
    "start_misses": 1,
}

NOTES = ("in_effect", "snapshot", "parts", "memory", "work", "profile", "setup_peak", "steps")

TF32: dict[str, Any] = {
    **MACHINE,
    "dtype": "tf32",
    "shape": '{"batch":9}',
    "pace_rounds_s": (50 * US,) * 12,
}

ROWS: dict[str, Record] = {
    "switched": record(
        "compile",
        run_id="switched",
        case_id="switched",
        baseline_dtype="tf32",
        **(TF32 | paired(100, 1.3)),
    ),
    "linking": record(
        "eager",
        run_id="linking",
        case_id="linking",
        **(TF32 | paired(150, 4.0)),
    ),
    "plain_cpu": record(
        "inference_mode",
        run_id="plain_cpu",
        case_id="plain_cpu",
        first_call_s=0.02,
        baseline_first_call_s=0.03,
        **(MACHINE | paired(200, 1.1) | _on_a_cpu(205.5, 40) | {"pace_rounds_s": (50 * US,) * 12}),
    ),
    "compiled": record(
        "compile",
        run_id="compiled",
        case_id="compiled",
        first_call_s=4.03,
        baseline_first_call_s=0.03,
        drawn_spread=0.9,
        checked="without_randomness",
        checked_note="dropout was switched off",
        **(MACHINE | COMPILED | STARTS | paired(100, 1.5) | _on_a_cpu(105.5, 20)
           | {"pace_rounds_s": (100 * US,) * 12, "profiled_kernels_rounds_s": (84 * US,) * 12,
              "profiled_latency_rounds_s": (105 * US,) * 12}),
    ),
    "one_thread": record(
        "compile",
        run_id="one_thread",
        case_id="one_thread",
        **(MACHINE | COMPILED | paired(170, 1.2) | _on_a_cpu(175.5, 22)
           | {"threads": 1, "pace_rounds_s": rounds(80 * US, 4 * US)}
           | {"flops": 2_000_000, "ceiling_flops_per_s": 1e11,
              "least_bytes": 1000, "ceiling_bytes_per_s": 1e9} | STEPS),
    ),
    "trained": training(
        "amp",
        parts_s=None,
        run_id="trained",
        case_id="trained",
        dtype="fp16",
        training='{"scaler":true}',
        loss_scale=4096.0,
        overflow_skipped=True,
        scale_error=0.02,
        eager_scale_error=0.01,
        scale_error_limit=0.05,
        seq=64,
        model_inputs='{"x":[4]}',
        model_kernels='{"mine":"net:mine"}',
        gradient_bytes=640,
        optimizer_state_bytes=1280,
        seen_autocast="float16",
        forward_rounds_s=rounds(100 * US, 1 * US),
        backward_rounds_s=rounds(200 * US, 2 * US),
        optimizer_rounds_s=rounds(50 * US, 0.5 * US),
        scaler_rounds_s=rounds(10 * US, 0.1 * US),
        parts_latency_rounds_s=(400 * US,) * 12,
        **(MACHINE | paired(300, 0.9) | {f"{name}_note": f"note on {name}" for name in NOTES}),
    ),
}  # fmt: skip
