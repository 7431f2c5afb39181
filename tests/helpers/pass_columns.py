"""Made-up columns of the passes after timing: profile, memory, counted work and ceilings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from modescope.bench.records.results import Record
from tests.helpers.studies import (
    ROUNDS_OF_CLOCKS,
    cpu_clocks,
    cuda_clocks,
    record,
    training,
)

MIB = 2**20


def profiled(kernels: int, kernels_s: float, **columns: Any) -> dict[str, Any]:
    """Columns of the profile of a call with `kernels` equal kernels, one after another.

    They take `kernels_s` together. The call takes twice that, and its operators half of the call.
    """
    heaviest = [{"name": "aten::addmm", "count": kernels, "seconds": kernels_s}]
    operators = [{"name": "aten::linear", "count": kernels, "seconds": kernels_s}]
    return {
        "ops_dispatched": kernels,
        "ops_leaf": kernels,
        "leaf_ops_s": kernels_s,
        "profiled_span_s": kernels_s * 2,
        "kernels": kernels,
        "kernels_s": kernels_s,
        "profiled_kernels_rounds_s": (kernels_s,) * ROUNDS_OF_CLOCKS,
        "device_busy_s": kernels_s,
        "heaviest_kernels": json.dumps(heaviest),
        "heaviest_ops": json.dumps(operators),
        "profiler_overhead": 1.1,
        **columns,
    }


def memory(weights: int, step: int, saved: int = 0, **columns: Any) -> dict[str, Any]:
    """Columns of memory in bytes. Only weights, and inputs of a hundredth of them, are kept."""
    inputs = weights // 100
    return {
        "weights_bytes": weights,
        "input_bytes": inputs,
        "resident_bytes": weights + inputs,
        "saved_activation_bytes": saved,
        "autocast_copy_bytes": 0,
        "step_peak_bytes": step,
        **columns,
    }


def pool(size_bytes: int, live_bytes: int) -> dict[str, Any]:
    """Columns of a graph's pool, of which `live_bytes` are held by tensors between calls."""
    return {"graph_pool_bytes": size_bytes, "graph_pool_live_bytes": live_bytes}


# One graph of nine kernels and four matrix products, generated anew.
GENERATED: dict[str, Any] = {
    "generated_kernels": 9,
    "extern_calls": 4,
    "bytes_accessed": 20 * MIB,
    "eager_bytes": 50 * MIB,
    "compiler_cache_hits": 0,
    "compiler_cache_misses": 1,
}

# 2 GFLOP at 100 GFLOP/s take 20 ms, 1 GB at 20 GB/s 50 ms
BOUNDS: dict[str, Any] = {
    "flops": 2_000_000_000,
    "least_bytes": 1_000_000_000,
    "ceiling_flops_per_s": 1e11,
    "ceiling_bytes_per_s": 2e10,
}


def _small(floor_s: float) -> dict[str, Any]:
    return BOUNDS | {"least_bytes": 1000, "ceiling_bytes_per_s": 1000 / floor_s, "flops": 0}


def cpu_passes() -> Sequence[Record]:
    """Rows of five modes on a CPU; compile has fewer kernels, and no call beats the least time."""
    planted = {  # latency, dispatch, kernels, step peak, saved
        "eager": (468e-6, 56e-6, 42, 6 * MIB, 4 * MIB),
        "no_grad": (455e-6, 43e-6, 42, 3 * MIB, 0),
        "inference_mode": (449e-6, 38e-6, 42, 3 * MIB, 0),
        "amp": (890e-6, None, 51, 4 * MIB, 0),
        "compile": (306e-6, 19e-6, 9, 2 * MIB, 0),
    }
    return [
        record(
            mode, latency_s, 468e-6 / latency_s,
            first_call_s=7.2 if mode == "compile" else 0.002,
            **cpu_clocks(latency_s, dispatch_s),
            **profiled(kernels, (latency_s - (dispatch_s or 60e-6)) * 1.02,
                       trace=f"{mode}.json.gz", launches=None),
            **memory(12 * MIB, step, saved, setup_peak_bytes=90 * MIB,
                     setup_peak_note="growth of the resident set",
                     autocast_copy_bytes=2 * MIB if mode == "amp" else 0),
            **_small(67e-6),
        )
        for mode, (latency_s, dispatch_s, kernels, step, saved) in planted.items()
    ]  # fmt: skip


def cuda_passes() -> Sequence[Record]:
    """Rows of six modes on a GPU: fusion shortens device time, graphs shorten host time.

    Tensors hold 2 MiB of a graph's pool between calls.
    """
    planted = {  # latency, host, device, dispatch, kernels, graph launches, pool
        "eager": (132e-6, 120e-6, 40e-6, 70e-6, 42, 0, 0),
        "no_grad": (118e-6, 106e-6, 40e-6, 56e-6, 42, 0, 0),
        "inference_mode": (112e-6, 100e-6, 40e-6, 50e-6, 42, 0, 0),
        "compile": (72e-6, 60e-6, 25e-6, 20e-6, 9, 0, 0),
        "reduce-overhead": (34e-6, 15e-6, 25e-6, None, 9, 1, 14 * MIB),
        "cuda-graph": (52e-6, 8e-6, 40.5e-6, None, 42, 1, 22 * MIB),
    }
    return [
        record(
            mode, latency_s, 132e-6 / latency_s,
            **(cuda_clocks(host_s, device_s, dispatch_s)
               | profiled(kernels, device_s * 0.95, launches=0 if graphs else kernels,
                          graph_launches=graphs, trace=f"{mode}.json.gz")
               | memory(64 * MIB, 0 if graphs else 9 * MIB,
                        6 * MIB if mode == "eager" else 0,
                        reserved_bytes=100 * MIB + held, setup_peak_bytes=48 * MIB,
                        resident_bytes=64 * MIB + 64 * MIB // 100 + live,
                        allocations_per_call=0 if graphs else kernels,
                        allocated_bytes_per_call=0 if graphs else 12 * MIB,
                        snapshot=f"{mode}.pickle")
               | pool(held, live)
               | (GENERATED if mode in ("compile", "reduce-overhead") else {})
               | {"launch_delay_s": 6e-6}
               | _small(18e-6)),
        )
        for mode, (latency_s, host_s, device_s, dispatch_s, kernels, graphs, held)
        in planted.items()
        for live in [2 * MIB if held else 0]
    ]  # fmt: skip


def trained(weights: int, step: int, saved: int, state: int = 0, **columns: Any) -> dict[str, Any]:
    """Columns of memory of training, in bytes; gradients, as large as weights, are kept, too."""
    kept = memory(weights, step, saved)
    held = {"resident_bytes": kept["resident_bytes"] + weights + state}
    return kept | held | {"gradient_bytes": weights, "optimizer_state_bytes": state} | columns


def cuda_training() -> Sequence[Record]:
    """Rows of training with AdamW on a GPU; cuda-graph has no parts, amp (fp16) has a scaler."""
    planted: dict[str, Any] = {  # latency, host, device, parts, saved, taken beyond the gradients
        "eager": (610e-6, 590e-6, 240e-6, (170e-6, 260e-6, 210e-6), 90 * MIB, 30 * MIB),
        "amp": (930e-6, 900e-6, 180e-6, (290e-6, 350e-6, 215e-6, 120e-6), 60 * MIB, 4 * MIB),
        "compile": (420e-6, 400e-6, 190e-6, (90e-6, 150e-6, 208e-6), 50 * MIB, 0),
        "reduce-overhead": (330e-6, 300e-6, 192e-6, (50e-6, 80e-6, 209e-6), 50 * MIB, 0),
        "cuda-graph": (246e-6, 9e-6, 238e-6, None, 90 * MIB, 0),
    }
    rows = []
    for mode, (latency_s, host_s, device_s, parts_s, saved, step) in planted.items():
        graphs = mode in ("reduce-overhead", "cuda-graph")
        options = {"dtype": "fp16"} if mode == "amp" else {}
        rows.append(training(
            mode, latency_s, 610e-6 / latency_s, parts_s,
            **(cuda_clocks(host_s, device_s) | options
               | {"baseline_device_rounds_s": (240e-6,) * ROUNDS_OF_CLOCKS}
               | profiled(120, device_s * 0.95, launches=1 if graphs else 120)
               | trained(64 * MIB, step, saved, state=128 * MIB)
               | pool(160 * MIB if graphs else 0, 64 * MIB if graphs else 0)
               | {"optimizer": "adamw", "training": '{"optimizer":"adamw"}'}),
        ))  # fmt: skip
    return rows
