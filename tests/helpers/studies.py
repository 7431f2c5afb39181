"""Synthetic studies: records with planted times, so that every value can be worked out by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from modescope.bench.records import parquet, results
from modescope.bench.records.cases import canonical_json
from modescope.bench.records.results import SCHEMA_VERSION, Findings, Record, columns_of
from modescope.bench.summary import summary
from tests.helpers.findings import with_defaults

# preset -> grad, autocast, compile, graph (as resolved for inference)
MODES = {
    "eager": ("enabled", False, "none", False),
    "no_grad": ("no_grad", False, "none", False),
    "inference_mode": ("inference_mode", False, "none", False),
    "amp": ("inference_mode", True, "none", False),
    "compile": ("inference_mode", False, "default", False),
    "reduce-overhead": ("inference_mode", False, "reduce-overhead", False),
    "max-autotune": ("inference_mode", False, "max-autotune", False),
    "max-autotune-no-cudagraphs": ("inference_mode", False, "max-autotune-no-cudagraphs", False),
    "freezing": ("inference_mode", False, "default", False),
    "cuda-graph": ("inference_mode", False, "none", True),
    "compile-cuda-graph": ("inference_mode", False, "default", True),
    "aoti": ("inference_mode", False, "aoti", False),
    "amp-compile": ("inference_mode", True, "default", False),
}
PACE_S = 50e-6  # of the machine, the same in every round
# Of every row's baseline: gains over it relate rows to each other.
BASELINE_DEVICE_S, BASELINE_DISPATCH_S = 40e-6, 60e-6
ROUNDS_OF_CLOCKS = 12
RANKS = {"smoke": 0, "quick": 1, "standard": 2, "thorough": 3}
_started = count()

_ENVIRONMENT = {
    "environment_id": "env-1",
    "host": "bench-host",
    "device_name": "AMD EPYC 9554",
    "cpu_name": "AMD EPYC 9554",
    "cpu_cores": 2,
    "memory_bytes": 8 * 2**30,
    "python_version": "3.11.9",
    "torch_version": "2.13.0+cpu",
    "load_1min": 0.3,
    "git_commit": "0123456789abcdef",
    "git_dirty": False,
    "variables": "{}",
}


def paired_rounds(
    latency_s: float, speedup: float, rounds: int = 40, spread: float = 0.02
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Times of the rounds of case and baseline, in seconds.

    The logarithms of their ratios are spread evenly, by ± `spread`, around that of `speedup`, in
    random order.
    """
    offsets = np.random.default_rng(1).permutation(np.linspace(-spread, spread, rounds))
    case = latency_s * np.exp(-offsets / 2)
    baseline = latency_s * speedup * np.exp(offsets / 2)
    return tuple(case.tolist()), tuple(baseline.tolist())


def stepped(spread: float = 0.001, **latencies_s: float) -> dict[str, Any]:
    """The columns of measured steps: 40 latencies of each variant, which vary by `spread`."""
    draw = np.random.default_rng(7)
    blocks = (
        latency_s * (1 + spread * draw.standard_normal(40)) for latency_s in latencies_s.values()
    )
    return {
        "steps": tuple(latencies_s),
        "steps_rounds_s": tuple(float(call_s) for block in blocks for call_s in block),
        "steps_unlike": "{}",
    }


def record(
    mode: str = "compile",
    latency_s: float = 357e-6,
    speedup: float = 1.25,
    *,
    rounds: int = 40,
    spread: float = 0.02,
    **columns: Any,
) -> Record:
    """A run whose status is ok; any stored column can be given by name."""
    case, baseline = paired_rounds(latency_s, speedup, rounds, spread)
    played = columns.get("latency_rounds_s") or case
    grad, autocast, compiled, graph = MODES[mode.partition("[")[0]]
    number = next(_started)
    model = columns.get("model", "transformer")
    shape = columns.get("shape", canonical_json({"batch": 4, "seq": 64}))
    dtype = columns.get("dtype", "bf16" if autocast else "fp32")
    values: dict[str, Any] = {
        **_ENVIRONMENT,
        "schema_version": SCHEMA_VERSION,
        "run_id": f"run-{number:06d}",
        "case_id": f"{model}-{shape}-{_step(columns)}-{dtype}-{mode}",
        "study": "main",
        "started_at": f"2026-03-01T{number // 3600:02d}:{number // 60 % 60:02d}:{number % 60:02d}Z",
        "budget": "standard",
        "budget_rank": RANKS[columns.get("budget", "standard").partition("[")[0]],
        "seed": 0,
        "replicate": 0,
        "status": "ok",
        "reason": None,
        "duration_s": 11.0,
        "command": f"python run.py model={model} mode={mode} dtype={dtype}",
        "model": model,
        "model_args": "{}",
        "model_inputs": None,
        "fullgraph": True,
        "shape": shape,
        "batch": 4,
        "seq": 64,
        "phase": "inference",
        "optimizer": None,
        "training": None,
        "dtype": dtype,
        "mode": mode,
        "grad": grad,
        "autocast": autocast,
        "compile_mode": compiled,
        "graph": graph,
        "baseline_mode": "eager",
        "baseline_dtype": "fp32",
        "device": "cpu",
        "threads": 1,
        "compile_cache": "cold",
        "in_effect": True,
        "error": 2.1e-7,
        "eager_error": 2.0e-7,
        "baseline_error": 2.0e-7,
        "error_limit": 1e-5 if dtype == "fp32" else 1e-2,
        "first_call_s": 1.0,
        "baseline_first_call_s": 0.002,
        "latency_rounds_s": case,
        "baseline_latency_rounds_s": baseline,
        "case_ran_first": tuple(index % 2 == 0 for index in range(len(played))),
        "latency_calls_s": case * 5,
        "pace_rounds_s": (PACE_S,) * len(played),
        "clocks_latency_rounds_s": (latency_s,) * ROUNDS_OF_CLOCKS,
        "profiled_latency_rounds_s": (latency_s,) * ROUNDS_OF_CLOCKS,
        "profiled_pace_s": PACE_S,
    }
    made: Record = with_defaults(Record, values | columns)
    return made


def _step(columns: dict[str, Any]) -> str:
    """Phase, optimizer, options of training, and data, as a part of the case id."""
    named = (("phase", "inference"), ("optimizer", None), ("training", None))
    parts = [str(columns.get(name, usual)) for name, usual in named]
    return "-".join([*parts, *filter(None, [columns.get("data")])])


def training(
    mode: str = "compile",
    latency_s: float = 1200e-6,
    speedup: float = 1.25,
    parts_s: Sequence[float] | None = (400e-6, 600e-6, 200e-6),
    part_spread: float = 0.002,
    **columns: Any,
) -> Record:
    """A run of training; `parts_s` are the times of forward, backward, optimizer and any scaler.

    None for `parts_s` is a step whose parts cannot be timed.
    """
    names = ("forward", "backward", "optimizer", "scaler")
    known = dict(zip(names, parts_s or (), strict=False))
    times = {f"{name}_rounds_s": blocks(known_s, spread=part_spread)
             for name, known_s in known.items()}  # fmt: skip
    if parts_s:
        times["parts_latency_rounds_s"] = (latency_s,) * ROUNDS_OF_CLOCKS
    usual: dict[str, Any] = {
        "phase": "train",
        "optimizer": "sgd",
        "training": "{}",
        "grad": "enabled",
        "loss_scale": 65536.0 if "scaler" in known else None,
        "overflow_skipped": True if "scaler" in known else None,
        "parts_note": None if parts_s else "the whole step is one CUDA graph",
    }
    return record(mode, latency_s, speedup, **(usual | times | columns))


def blocks(
    middle_s: float, count: int = ROUNDS_OF_CLOCKS, spread: float = 0.01
) -> tuple[float, ...]:
    """`count` times spread evenly around `middle_s` by ± `spread`.

    The interval of the median of 12 is ± `spread` * 7 / 11.
    """
    return tuple((middle_s * (1 + np.linspace(-spread, spread, count))).tolist())


def cpu_clocks(latency_s: float, dispatch_s: float | None, spread: float = 0.01) -> dict[str, Any]:
    """Columns of the clocks on a CPU, which has no queue. Dispatch may be None (autocast)."""
    unread = "autocast casts every weight on an empty batch too"
    return {
        "host_rounds_s": blocks(latency_s, spread=spread),
        "pipelined_rounds_s": blocks(latency_s, spread=spread),
        "device_note": "a CPU has no queue of its own",
        "dispatch_rounds_s": None if dispatch_s is None else blocks(dispatch_s, spread=spread),
        "baseline_dispatch_rounds_s": (BASELINE_DISPATCH_S,) * ROUNDS_OF_CLOCKS,
        "dispatch_note": unread if dispatch_s is None else None,
        "synchronize_s": 0.0,
    }


def cuda_clocks(
    host_s: float, device_s: float | None, dispatch_s: float | None = None
) -> dict[str, Any]:
    """Columns of the clocks on a GPU; pipelined time is the larger of host and device time.

    Latency, baseline and pace are the same in all rounds, so the ratio of a clock to them spreads
    as that clock does.
    """
    return {
        "device": "cuda",
        "device_name": "NVIDIA H200",
        "host_rounds_s": blocks(host_s),
        "device_rounds_s": None if device_s is None else blocks(device_s),
        "baseline_device_rounds_s": (BASELINE_DEVICE_S,) * ROUNDS_OF_CLOCKS,
        "baseline_dispatch_rounds_s": (BASELINE_DISPATCH_S,) * ROUNDS_OF_CLOCKS,
        "device_note": "the queue ran empty" if device_s is None else None,
        "pipelined_rounds_s": blocks(max(host_s, device_s or 0.0)),
        "dispatch_rounds_s": None if dispatch_s is None else blocks(dispatch_s),
        "dispatch_note": "the captured graph is empty" if dispatch_s is None else None,
        "synchronize_s": 4e-6,
    }


def not_measured(mode: str, status: str, reason: str, **columns: Any) -> Record:
    """A run that ended with `status`, and so without any measured column."""
    nothing = {one.name: None for one in columns_of(Findings) if one.name != "flags"}
    return record(mode, **{**nothing, "status": status, "reason": reason, **columns})


def save(records: Iterable[Record], study: Path, summarised: bool = True) -> Path:
    """Writes the records to the folder `study`, which it returns; `summarised`: with summaries."""
    (study / "rows").mkdir(parents=True, exist_ok=True)
    for one in records:
        row = results.row(one)
        parquet.write(row | summary(row) if summarised else row, study / "rows")
    return study


def content(records: Sequence[Record]) -> str:
    """A text of all columns, without run ids and times: equal texts have equal derived rows."""
    text = repr(records)
    for name in ("run_id", "started_at"):
        values = sorted({getattr(one.attempt, name) for one in records})
        for place, value in enumerate(values):
            text = text.replace(repr(value), f"{name} {place}")
    return text


def with_threads(count: int, latency_s: float, mode: str = "compile", **columns: Any) -> Record:
    """A run with `count` threads, which is all in which it differs from others of its mode."""
    return record(mode, latency_s, 1.0, threads=count, **{"case_id": f"{mode}-{count}", **columns})


def cpu_sweep(model: str = "transformer", **columns: Any) -> Sequence[Record]:
    """Runs of all eleven modes on a CPU; some are skipped, and some have the code of others."""
    no_graphs = "the compiler skipped CUDA graphs, which a CPU does not have: same code as compile"
    no_tuning = "autotuning had no choices to compare: same code as compile"
    needs_cuda = "graph=true captures a CUDA graph and device=cpu has none; use device=cuda"
    same: dict[str, Any] = {"model": model, **columns}
    return (
        record("eager", 468e-6, 1.0005, first_call_s=0.002, **same),
        record("no_grad", 455e-6, 1.028, first_call_s=0.002, **same),
        record("inference_mode", 452e-6, 1.034, first_call_s=0.002, spread=0.08, **same),
        record("amp", 890e-6, 0.526, error=3.2e-3, first_call_s=0.003, **same),
        record("compile", 357e-6, 1.311, first_call_s=7.2, **same),
        record(
            "reduce-overhead", 358e-6, 1.308, first_call_s=7.4, in_effect=False,
            in_effect_note=no_graphs, **same,
        ),
        record(
            "max-autotune", 356e-6, 1.312, first_call_s=31.0, in_effect=False,
            in_effect_note=no_graphs, **same,
        ),
        record(
            "max-autotune-no-cudagraphs", 359e-6, 1.307, first_call_s=30.0, in_effect=False,
            in_effect_note=no_tuning, **same,
        ),
        not_measured("cuda-graph", "skipped", needs_cuda, **same),
        not_measured("compile-cuda-graph", "skipped", needs_cuda, **same),
        record("amp-compile", 700e-6, 0.668, error=3.4e-3, first_call_s=8.9, flags=("drift",),
               **same),
    )  # fmt: skip


# mode -> planted dispatch per operator and per call, planted work per element, all in seconds
SERIES = {
    "eager": (1.8e-6, 3e-6),
    "no_grad": (1.2e-6, 3e-6),
    "inference_mode": (0.9e-6, 2e-6),
    "compile": (0.01e-6, 12e-6),
}


def dispatch_series(noise: float = 0.01, **columns: Any) -> Sequence[Record]:
    """Runs of chains of 4 to 64 operators; dispatch is fixed + slope × ops, ± `noise`."""
    records = []
    for mode, (per_op_s, fixed_s) in SERIES.items():
        for place, count_ in enumerate((4, 8, 16, 32, 64)):
            wobble = 1 + noise * (-1) ** place
            dispatch_s = (fixed_s + per_op_s * count_) * wobble
            latency_s = dispatch_s + 0.25e-6 * count_
            eager_s = 3e-6 + (1.8e-6 + 0.25e-6) * count_
            records.append(
                record(mode, latency_s, eager_s / latency_s, model="pointwise", seq=None, batch=8,
                       shape=canonical_json({"batch": 8, "ops": count_, "width": 64}),
                       **(cpu_clocks(latency_s, dispatch_s) | columns))
            )  # fmt: skip
    return records


def batch_series(batches: Sequence[int] = (1, 4, 16, 64, 256), **columns: Any) -> Sequence[Record]:
    """Runs of a transformer at several batches: dispatch is constant, work 1 µs per row.

    So dispatch is half of the call where the batch is dispatch / 1 µs.
    """
    records = []
    for mode, dispatch_s in {"eager": 50e-6, "inference_mode": 33e-6, "compile": 10e-6}.items():
        for batch in batches:
            latency_s, eager_s = dispatch_s + batch * 1e-6, 50e-6 + batch * 1e-6
            shape = canonical_json({"batch": batch, "seq": 64})
            clocks = cpu_clocks(latency_s, dispatch_s) | columns
            records.append(
                record(mode, latency_s, eager_s / latency_s, shape=shape, batch=batch, **clocks)
            )
    return records


# mode -> planted host time on CUDA: fixed, and per operator of a chain; seconds
CUDA_HOST = {"eager": (20e-6, 5e-6), "cuda-graph": (6e-6, 0.2e-6)}


def at_size(mode: str, speedup: float, batch: int, seq: int = 64, **columns: Any) -> Record:
    """A run of `mode` at this batch and sequence length."""
    shape = canonical_json({"batch": batch, "seq": seq})
    return record(mode, speedup=speedup, shape=shape, batch=batch, **columns)


def saving_steps(mode: str, saved_bytes: Sequence[int | None]) -> list[Record]:
    """Runs of training at batches of 1, 2, 4, ..., which save these bytes for backward."""
    batches = [2**n for n in range(len(saved_bytes))]
    return [
        training(mode, shape=f'{{"batch":{batch}}}', batch=batch, saved_activation_bytes=saved)
        for batch, saved in zip(batches, saved_bytes, strict=True)
    ]


def cuda_series(size: str, values: Sequence[int] = (1, 4, 16, 64, 256)) -> Sequence[Record]:
    """Runs on a GPU at several values of `size`, which is ops or batch.

    Device time is 1 µs times the value; host time grows with ops only. A call takes as long as the
    slower of both, and 2 µs. A CUDA graph has no dispatch time.
    """
    records = []
    for mode, (fixed_s, per_op_s) in CUDA_HOST.items():
        for value in values:
            host_s = fixed_s + (per_op_s * value if size == "ops" else 0.0)
            device_s = 1e-6 * value
            dispatch_s = None if mode == "cuda-graph" else host_s / 2
            clocks = cuda_clocks(host_s, device_s, dispatch_s)
            shape = canonical_json({size: value, "width": 64})
            latency_s = max(host_s, device_s) + 2e-6
            records.append(record(mode, latency_s, 1.1, model="pointwise", shape=shape, **clocks))
    return records


def replicates(count_: int, speedup: float = 1.25, **columns: Any) -> Sequence[Record]:
    """Runs of one case in `count_` processes.

    Between them latency has a relative standard deviation of 2 %, speedup of 0.4 %.
    """
    source = np.random.default_rng(0)
    return [
        record("compile", 357e-6 * float(np.exp(source.normal(0, 0.02))),
               speedup * float(np.exp(source.normal(0, 0.02 / 5))), replicate=number, **columns)
        for number in range(count_)
    ]  # fmt: skip


def cuda_sweep(**columns: Any) -> Sequence[Record]:
    """Runs of modes on a GPU: eager is bound by the host, graphs by the device.

    max-autotune has no device time.
    """
    return (
        record("eager", 132e-6, 1.0, **(cuda_clocks(120e-6, 40e-6, 70e-6) | columns)),
        record("inference_mode", 112e-6, 1.18, **(cuda_clocks(100e-6, 40e-6, 50e-6) | columns)),
        record("compile", 72e-6, 1.83, **(cuda_clocks(60e-6, 25e-6, 20e-6) | columns)),
        record("reduce-overhead", 45e-6, 2.93, **(cuda_clocks(15e-6, 28e-6) | columns)),
        record("cuda-graph", 52e-6, 2.54, **(cuda_clocks(8e-6, 41e-6) | columns)),
        record("max-autotune", 50e-6, 2.64, **(cuda_clocks(14e-6, None) | columns)),
    )
