"""Rows in words: what was done, where, and what was found, the one way each of them is written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from analysis import numbers
from analysis.numbers import UNKNOWN
from bench.instruction_sets import phrase
from bench.tolerances import eager_is_sane

Row = Mapping[str, Any]  # a row of the derived table; what is unknown is None


def as_rows(frame: pd.DataFrame) -> list[Row]:
    """The table as mappings in which everything unknown (NaN, NA) is None."""
    names = [str(name) for name in frame.columns]
    cells = frame.to_numpy(dtype=object, na_value=None).tolist()  # type: ignore[arg-type]
    return [dict(zip(names, values, strict=True)) for values in cells]


def on_cuda(row: Row) -> bool:
    """Whether host and device run beside each other, as on a GPU."""
    return str(row["device"]).startswith("cuda")


OF_ROUNDS = ("speedup", "speedup_ci_low", "speedup_ci_high", "speedup_same_grad")


def that_counts(row: Any, name: str) -> Any:
    """A column of a row, or of a table, as it is shown: of OF_ROUNDS unknown for a smoke budget.

    That proves only that a case runs, and has too few rounds for them.
    """
    if name not in OF_ROUNDS:
        return row[name]
    if isinstance(row, pd.DataFrame):
        return row[name].where(row["budget_rank"] > 0)
    return None if is_smoke(row) else row[name]


def is_smoke(row: Row) -> bool:
    """Whether the budget was one that proves only that the case runs."""
    return bool(row["budget_rank"] == 0)


def speedup(row: Row) -> str:
    """`1.23× [1.21, 1.25]`; without the brackets where there is no interval."""
    names = ("speedup", "speedup_ci_low", "speedup_ci_high")
    return numbers.factor_interval(*(that_counts(row, name) for name in names))


def same_grad(row: Row) -> str:
    """`1.05×`: the speedup beyond plain eager with the same grad axis."""
    return numbers.factor(that_counts(row, "speedup_same_grad"))


def fusion_gain(row: Row) -> str:
    """The same of the fusion gain."""
    ends = row["fusion_gain_ci_low"], row["fusion_gain_ci_high"]
    return numbers.factor_interval(row["fusion_gain"], *ends)


def latency(row: Row) -> str:
    """The latency with its interval."""
    ends = row["latency_ci_low_s"], row["latency_ci_high_s"]
    return numbers.duration_interval(row["latency_s"], *ends)


def first_call(row: Row) -> str:
    """`7.20 s`, marked where the compiler's cache was not emptied before."""
    text = numbers.duration(row["first_call_s"])
    return text if text == UNKNOWN or row["compile_cache"] == "cold" else f"{text} (warm cache)"


def host_of_cuda(row: Row) -> str:
    """How long the host is busy with a call; on a CPU it would be the latency once more."""
    return numbers.duration(row["host_s"]) if on_cuda(row) else UNKNOWN


def residual(row: Row) -> str:
    """`-12.3 µs (9 %)`: work by the clocks less the profiler's kernels, of the work."""
    told, seconds = numbers.duration(row["residual_s"]), row["residual_s"]
    if seconds is None or not row["work_s"]:
        return told
    return f"{told} ({numbers.share(abs(seconds), row['work_s'])})"


def loss_scale(row: Row) -> str:
    """`65,536, overflow skipped`: GradScaler's factor, and what it did about an overflow."""
    if row["loss_scale"] is None:
        return UNKNOWN
    told = f"{row['loss_scale']:,.10g}"
    return f"{told}, overflow skipped" if row["overflow_skipped"] else told


def launches(row: Row) -> str:
    """`42 launches`, `1 graph launch`: what the host hands to a GPU for a call."""
    kinds = (("launch", row["launches"]), ("graph launch", row["graph_launches"]))
    named = (numbers.counted(n, kind, f"{kind}es") for kind, n in kinds if n)
    return " + ".join(named) or (UNKNOWN if row["launches"] is None else "0 launches")


def roofline(row: Row) -> str:
    """`62 % (compute)`: how near to the floor, and what sets it."""
    told = numbers.share(row["roofline_fraction"], 1)
    return told if told == UNKNOWN else f"{told} ({row['floor_bound']})"


def leaf_operators(row: Row) -> str:
    """`38 (210 µs)`: operators that call no further one, and their time."""
    told, seconds = numbers.count(row["ops_leaf"]), row["leaf_ops_s"]
    return told if seconds is None else f"{told} ({numbers.duration(seconds)})"


def traffic(row: Row) -> str:
    """`12.3 MiB (27.8 MiB less)`: what compiled code reads and writes, and how eager compares."""
    told, saved = numbers.size(row["bytes_accessed"]), row["bytes_saved"]
    if saved is None:
        return told
    return f"{told} ({numbers.size(abs(saved))} {'more' if saved < 0 else 'less'})"


def from_cache(row: Row) -> str:
    """`1 of 2`: pieces of compiled code that the compiler had on disk already."""
    hits, misses = row["compiler_cache_hits"], row["compiler_cache_misses"]
    known = None not in (hits, misses) and hits + misses > 0
    return f"{numbers.count(hits)} of {numbers.count(hits + misses)}" if known else UNKNOWN


def allocations(row: Row) -> str:
    """`12 (3.42 MiB)`: how often a steady call allocates, and how much all in all."""
    number, size_bytes = row["allocations_per_call"], row["allocated_bytes_per_call"]
    told = numbers.count(number)
    return f"{told} ({numbers.size(size_bytes)})" if number and size_bytes is not None else told


def break_even(row: Row) -> str:
    """After how many calls the first one is paid back."""
    after = row["break_even_calls"]
    return "at once" if after == 0 else numbers.calls(after)


def process_spread(row: Row) -> str:
    """`0.4 % (latency 2.1 %)`: how far the speedup differs between processes of the case."""
    ratio, latency_too = row["speedup_process_spread"], row["latency_process_spread"]
    if latency_too is None:
        return UNKNOWN
    return f"{numbers.percent(ratio)} (latency {numbers.percent(latency_too)})"


def sizes(shape: str) -> str:
    """`batch 4, seq 64` from the canonical JSON; batch and sequence length first."""
    first = ("batch", "seq")
    named = sorted(json.loads(shape).items(), key=lambda size: size[0] not in first)
    return ", ".join(f"{name} {size}" for name, size in named)


def work(row: Row) -> str:
    """`transformer, batch 4, seq 64, train with sgd`: what is computed."""
    return work_at(row, row["shape"])


def work_at(row: Row, shape: str) -> str:
    """The same with the sizes of `shape` alone, canonical JSON."""
    arguments = row["model_args"] if row["model_args"] not in (None, "{}") else None
    parts = (row["model"], arguments, sizes(shape), phase(row))
    return ", ".join(part for part in parts if part)


def phase(row: Row) -> str:
    """`inference`, or `train with adamw, checkpoint model`: options that differ from defaults."""
    options = json.loads(row["training"] or "{}")
    optimizer = row["optimizer"] or options.get("optimizer")
    named = [f"{row['phase']} with {optimizer}" if optimizer else row["phase"]]
    named += [
        f"{name.replace('_', ' ')} {value if isinstance(value, str) else json.dumps(value)}"
        for name, value in options.items()
        if name != "optimizer"
    ]
    return ", ".join(named)


PLACE = ("device", "device_name", "cpu_capability", "cpu_instructions", "threads", "environment")
"""The columns that `place` reads."""


def place(row: Row, letter: bool) -> str:
    """`AMD EPYC, AVX2, no bf16 instructions, 1 thread`: where; with the environment's letter.

    The letter is for studies with several. Instruction sets are those of a CPU that measured. A GPU
    that was asked for by its number has it: `NVIDIA H200 (cuda:1), 1 thread`.
    """
    threads = f"{row['threads']} thread{'' if row['threads'] == 1 else 's'}"
    name, device = row["device_name"], row["device"]
    parts = (
        f"{name} ({device})" if name and ":" in device else name or device,
        None if on_cuda(row) else phrase(row["cpu_capability"], row["cpu_instructions"]),
        threads,
        f"environment {row['environment']}" if letter else None,
    )
    return ", ".join(part for part in parts if part)


def baseline(row: Row) -> str:
    """`eager fp32`, or that there was none."""
    mode, dtype = row["baseline_mode"], row["baseline_dtype"]
    return "no baseline" if mode is None else f"{mode} {dtype}"


def contest(row: Row) -> str:
    """`fp32 against eager fp32`: which precision is compared with what."""
    return f"{row['dtype']} against {baseline(row)}"


def mode(row: Row) -> str:
    """`compile`, or `compile (fullgraph=false)` beside another row of that name."""
    return f"{row['mode']} ({row['apart']})" if row["apart"] else str(row["mode"])


def variant(row: Row) -> str:
    """`compile fp32`: one of the things that are compared."""
    return f"{mode(row)} {row['dtype']}"


def listed(names: Sequence[str]) -> str:
    """`eager, no_grad and compile`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def is_control(row: Row) -> bool:
    """Whether the row compares its baseline with itself."""
    return bool(row["mode"] == row["baseline_mode"] and row["dtype"] == row["baseline_dtype"])


def not_in_effect(row: Row) -> bool:
    """Whether the mode is known not to have done what its name says."""
    return row["in_effect"] is not None and not row["in_effect"]


def flags(row: Row) -> list[str]:
    """The diagnostics that were raised."""
    return [] if row["flags"] is None else list(row["flags"])


def accepted_error(row: Row) -> float | None:
    """The largest error that did not end the case; None where it was never settled."""
    limits = [limit for limit in (row["error_limit"], row["max_error"]) if limit is not None]
    return max(limits) if row["error_limit"] is not None else None


def accepted_knowingly(row: Row) -> str:
    """`error accepted up to 0.05` where only max_error=... accepts the error; else nothing."""
    error, usual, limit = row["error"], row["error_limit"], row["max_error"]
    if row["status"] != "ok" or None in (error, usual, limit) or error <= usual:
        return ""
    return f"error accepted up to {limit:g}"


def baseline_accepted(row: Row) -> str:
    """`baseline's error accepted up to 0.7` where only max_error accepts it; else nothing."""
    error, limit = row["baseline_error"], row["max_error"]
    if row["status"] != "ok" or None in (error, limit) or error > limit:
        return ""
    usual = eager_is_sane(error, row["baseline_dtype"], trains=row["phase"] == "train")
    return "" if usual else f"baseline's error accepted up to {limit:g}"


def remarks(row: Row) -> str:
    """What a reader must know beside the numbers: smoke budget, flags, repeated measurement."""
    found = [f"budget={row['budget']}"] if is_smoke(row) else []
    found += [accepted_knowingly(row), baseline_accepted(row), *flags(row)]
    found += [] if "fullgraph" in (row["apart"] or "") else [allows_breaks(row)]
    found += [breaks_counted(row)] if row["graph_breaks"] else []
    found += [f"newest of {row['measured_times']}"] if row["measured_times"] > 1 else []
    found += [_REPLICATES.get(row["replicates"], f"{row['replicates']} replicates")]
    lost = row["replicates_not_ok"] if row["replicates"] else 0  # else its status says it
    found += [f"{lost} more not ok"] if lost else []
    return ", ".join(filter(None, found))


def allows_breaks(row: Row) -> str:
    """`fullgraph=false`, of what is compiled."""
    return "fullgraph=false" if row["compile"] != "none" and row["fullgraph"] is False else ""


def breaks_counted(row: Row) -> str:
    """`2 graph breaks`."""
    return numbers.counted(row["graph_breaks"], "graph break", "graph breaks")


def graph_breaks(row: Row) -> str:
    """`2 graph breaks: print at net.py:12 and 1 more; in eager: Net.forward`; empty without any."""
    sites = json.loads(row["graph_break_reasons"] or "[]")
    in_eager = json.loads(row["eager_functions"] or "[]")
    told = [f"{breaks_counted(row)}: {_first(sites)}"] if sites else []
    told += [f"in eager: {', '.join(in_eager)}"] if in_eager else []
    return "; ".join(told)


def _first(sites: Sequence[Mapping[str, Any]]) -> str:
    at = f" at {sites[0]['place']}" if sites[0]["place"] else ""
    more = f" and {len(sites) - 1} more" if len(sites) > 1 else ""
    return f"{sites[0]['reason']}{at}{more}"


# Two have no 95 % interval between them (bench.stats.combine).
_REPLICATES = {0: "", 1: "", 2: "2 replicates (range of two processes)"}


def outcome(row: Row) -> str:
    """`faster`, `skipped`, `not in effect`: in a word what became of a row."""
    if row["status"] != "ok":
        return str(row["status"])
    if not_in_effect(row):
        return "not in effect"
    return row["verdict"] or ("smoke" if is_smoke(row) else UNKNOWN)


def ended(row: Row) -> str:
    """`oom: out of memory while compiling`: how a run ended that is not ok, on one line."""
    return f"{row['status']}: {' '.join((row['reason'] or 'no reason was recorded').split())}"


def why_left_out(row: Row) -> str | None:
    """Why a row is neither charted nor recommended, in one clause; None where it is."""
    if row["status"] != "ok":
        return ended(row)
    if not_in_effect(row):
        return f"not in effect: {row['in_effect_note'] or 'no note was recorded'}"
    if row["in_effect"] is None:
        return "not known to have been in effect"
    if is_smoke(row):
        return f"budget={row['budget']} proves only that it runs"
    if row["speedup_ci_low"] is None:
        return "no interval: no baseline, or fewer than 12 rounds"
    return None
