"""Large synthetic studies: thousands of files, written as `bench.records.parquet` does it."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from modescope.bench.records import parquet
from modescope.bench.records.cases import canonical_json
from modescope.bench.records.results import Record, row
from tests.helpers.pass_columns import memory, profiled
from tests.helpers.studies import MODES, cpu_clocks, not_measured, record

MIB = 2**20
MODELS = ("mlp", "transformer")
REPLICATES = 5
# mode -> speedup over eager at batch 1, first call in seconds; graphs are skipped on a CPU
GAINS = {
    "eager": (1.0, 0.002),
    "no_grad": (1.04, 0.002),
    "inference_mode": (1.05, 0.002),
    "amp": (2.0, 0.003),
    "compile": (1.6, 7.0),
    "reduce-overhead": (1.6, 7.4),
    "max-autotune": (1.6, 31.0),
    "max-autotune-no-cudagraphs": (1.6, 30.0),
    "amp-compile": (2.2, 9.0),
}
NOT_IN_EFFECT = ("reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def study(folder: Path, runs: int, cases: int, rounds: int = 240) -> Path:
    """Writes a study of so many `runs` of so many `cases`, and returns its folder.

    Cases differ in mode, model, batch and sequence length. A case has up to REPLICATES processes,
    and further runs of it are later ones of the same processes. 240 `rounds`, with 1,200 single
    calls, are what a small transformer has at budget=standard.
    """
    (folder / "rows").mkdir(parents=True)
    write = partial(_write, folder / "rows", cases, rounds)
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # Arrow writes beside the interpreter
        list(pool.map(write, range(runs)))
    return folder


def _write(folder: Path, cases: int, rounds: int, number: int) -> None:
    """Writes one file, without waiting until it is on the disk."""
    one = _record(number % cases, number // cases, rounds, number)
    table = parquet.pack(pa.Table.from_pylist([row(one)], schema=parquet.SCHEMA))
    pq.write_table(table, folder / f"{one.attempt.run_id}.parquet", **parquet.FORMAT)


def _record(case: int, repetition: int, rounds: int, number: int) -> Record:
    place, preset = divmod(case, len(MODES))
    mode = list(MODES)[preset]
    place, model = divmod(place, len(MODELS))
    sizes = {"batch": 2 ** (place % 8), "seq": 64 * (1 + place // 8)}
    columns: dict[str, Any] = {
        "run_id": f"run-{number:06d}",
        "started_at": f"2026-03-{1 + number // 86400:02d}T{number // 3600 % 24:02d}:"
        f"{number // 60 % 60:02d}:{number % 60:02d}Z",
        "case_id": f"case-{case}",
        "replicate": repetition % REPLICATES,
        "model": MODELS[model],
        "shape": canonical_json(sizes),
        **sizes,
    }
    if mode not in GAINS:
        return not_measured(mode, "skipped", "a CUDA graph needs an NVIDIA GPU", **columns)
    return _measured(mode, rounds, np.random.default_rng(number), columns)


def _measured(
    mode: str, rounds: int, noise: np.random.Generator, columns: dict[str, Any]
) -> Record:
    gain, first_call_s = GAINS[mode]
    speedup = 1 + (gain - 1) / np.sqrt(columns["batch"])
    eager_s = 50e-6 + 1e-6 * columns["batch"] * columns["seq"]
    baseline = eager_s * np.exp(noise.normal(0, 0.01, rounds))
    case = baseline / speedup * np.exp(noise.normal(0, 0.01, rounds))
    latency_s = float(np.median(case))
    calls = latency_s * np.exp(noise.normal(0, 0.02, 5 * rounds))
    in_effect = mode not in NOT_IN_EFFECT
    timed = {
        "latency_rounds_s": tuple(case.tolist()),
        "baseline_latency_rounds_s": tuple(baseline.tolist()),
        "case_ran_first": tuple((noise.permutation(rounds) % 2 == 0).tolist()),
        "latency_calls_s": tuple(calls.tolist()),
        "first_call_s": first_call_s,
        "in_effect": in_effect,
        "in_effect_note": None if in_effect else "this is what compile=default gives",
    }
    passes = {
        **cpu_clocks(latency_s, latency_s / 4),
        **profiled(12, latency_s / 2),
        **memory(8 * MIB, MIB * columns["batch"], setup_peak_bytes=MIB),
    }
    return record(mode, **{**passes, **timed, **columns})
