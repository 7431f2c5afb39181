"""Functions that make the text of one table cell from one row."""

from __future__ import annotations

import json

from modescope.analysis.format import numbers, phrases
from modescope.analysis.format.numbers import UNKNOWN
from modescope.analysis.rows import predicates
from modescope.analysis.rows.confirming import contradicted
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import required, value_of
from modescope.bench.records.caches import CACHES
from modescope.bench.records.outcomes import Status

MANY_ROUNDS = 0.1
"""Rounds left out because the host was slow are a remark from this share of all rounds on."""


def speedup(row: Row) -> str:
    """Returns the speedup with its interval, `1.23× [1.21, 1.25]`, or without: `1.23×`.

    A chained one (`derive.over_fp32.in_place`) is followed by that word.
    """
    text = numbers.factor_interval(predicates.shown_speedup(row))
    return f"{text} chained" if row.get("is_chained") else text


def gain(row: Row, name: str) -> str:
    """Returns the ratio in column `name` with its interval if it has one: `1.23× [1.21, 1.25]`."""
    return numbers.factor_interval(value_of(row, name))


def latency(row: Row) -> str:
    """Returns the latency with its interval, `357 µs [355, 359]`; `~` precedes a doubtful one."""
    return approximate(numbers.duration_interval(row["latency_paired_s"]), row, "latency")


def approximate(text: str, row: Row, *doubted: str) -> str:
    """Returns `text`, preceded by `~` if a flag of the row makes one of `doubted` doubtful.

    `doubted` are values of `derive.flags.Doubted`, such as `latency`. UNKNOWN stays as it is.
    """
    return f"~{text}" if text != UNKNOWN and predicates.flags(row, *doubted) else text


def first_call(row: Row) -> str:
    """Returns the time of the first call, `7.20 s`, and a label: `7.20 s (warm cache)`."""
    text, label = bare_first_call(row), CACHES[row["compile_cache"]].label
    return f"{text} ({label})" if label and text != UNKNOWN else text


def bare_first_call(row: Row) -> str:
    """Returns the time of the first call, with what was built ahead: `44 ms (built in 31 s)`."""
    text, built_s = numbers.duration(row["first_call_s"]), phrases.ahead_s(row)
    return text if built_s is None else f"{text} (built in {numbers.duration(built_s)})"


def host_of_cuda(row: Row) -> str:
    """Returns the host time of a call on CUDA; unknown on a CPU, where it equals the latency."""
    return numbers.duration(row["host_paired_s"]) if predicates.on_cuda(row) else UNKNOWN


def share(row: Row, name: str) -> str:
    """Returns the share in column `name` with its interval if it has one: `33 % [32, 34]`."""
    return numbers.share_interval(value_of(row, name))


def loss_scale(row: Row) -> str:
    """Returns GradScaler's factor, with a note on a skipped step: `65,536, overflow skipped`."""
    skipped = ", overflow skipped" if row["overflow_skipped"] else ""
    return UNKNOWN if row["loss_scale"] is None else f"{row['loss_scale']:,.10g}{skipped}"


def launches(row: Row) -> str:
    """Returns what the host submits to a GPU per call: `42 launches`, `1 graph launch`."""
    kinds = (("launch", row["launches"]), ("graph launch", row["graph_launches"]))
    named = (numbers.counted(n, kind, f"{kind}es") for kind, n in kinds if n)
    return " + ".join(named) or (UNKNOWN if row["launches"] is None else "0 launches")


def roofline(row: Row) -> str:
    """Returns the work's least possible time ÷ its measured time, and the limit: `62 % (compute)`.

    The limit is the device's arithmetic (`compute`) or its memory bandwidth (`memory`).
    """
    text = numbers.share(row["roofline_fraction"], 1)
    return text if text == UNKNOWN else f"{text} ({row['floor_bound']})"


def leaf_operators(row: Row) -> str:
    """Returns number and time of the operators that call no other operator: `38 (210 µs)`."""
    text, time = numbers.count(row["ops_leaf"]), numbers.duration(row["leaf_ops_s"])
    return text if time == UNKNOWN else f"{text} ({time})"


def traffic(row: Row) -> str:
    """Returns the bytes that compiled code moves, against eager's: `12.3 MiB (27.8 MiB less)`."""
    text, saved = numbers.size(row["bytes_accessed"]), row["bytes_saved"]
    if saved is None:
        return text
    return f"{text} ({numbers.size(abs(saved))} {'more' if saved < 0 else 'less'})"


def allocations(row: Row) -> str:
    """Returns number and total size of the allocations of a steady call: `12 (3.42 MiB)`."""
    number, size_bytes = row["allocations_per_call"], row["allocated_bytes_per_call"]
    text = numbers.count(number)
    return f"{text} ({numbers.size(size_bytes)})" if number and size_bytes is not None else text


def break_even(row: Row) -> str:
    """Returns after how many calls the mode pays: `12,400`, `at once` or `never`."""
    after = row["break_even_calls"]
    return "at once" if after == 0 else numbers.calls(after)


def process_spread(row: Row) -> str:
    """Returns how much a case's processes differ in speedup: `0.4 % (latency 2.1 %)`."""
    ratio, latency_too = row["speedup_process_spread"], row["latency_process_spread"]
    if latency_too is None:
        return UNKNOWN
    return f"{numbers.percent(ratio)} (latency {numbers.percent(latency_too)})"


def outcome(row: Row) -> str:
    """Returns the verdict, or why there is none: `faster`, `skipped`, `not in effect`."""
    if row["status"] != Status.OK:
        return str(row["status"])
    if predicates.not_in_effect(row):
        return "not in effect"
    return row["verdict"] or ("smoke" if predicates.is_smoke(row) else UNKNOWN)


def remarks(row: Row) -> str:
    """Returns remarks on the numbers: smoke budget, checks, flags of the speedup, repeats."""
    breaks_allowed = row["compile_mode"] != "none" and row["fullgraph"] is False
    in_its_name = "fullgraph" in (row["apart"] or "")
    lost = row["replicates_not_ok"] if row["replicates"] else 0  # without any, the status says it
    texts = (
        f"budget={row['budget']}" if predicates.is_smoke(row) else "",
        phrases.checked(row),
        phrases.accepted_knowingly(row),
        phrases.baseline_accepted(row),
        *predicates.flags(row, "speedup"),
        _other_process(row),
        _slow_rounds(row),
        phrases.power_limited(row),
        IN_PLACE if _reads_in_place(row) else "",
        NO_EFFECT if row.get("options_changed_code") is False else "",
        "fullgraph=false" if breaks_allowed and not in_its_name else "",
        _breaks_counted(row) if row["graph_breaks"] else "",
        f"newest of {row['measured_times']}" if row["measured_times"] > 1 else "",
        _REPLICATES.get(row["replicates"], f"{row['replicates']} replicates"),
        f"{lost} more not ok" if lost else "",
    )
    return ", ".join(filter(None, texts))


def _other_process(row: Row) -> str:
    if not contradicted(row):
        return ""
    return f"{numbers.middle(required(row['confirming_speedup']))} in another process"


# Two processes give a range, not a 95 % interval (bench.stats.estimates.combine).
_REPLICATES = {0: "", 1: "", 2: "2 replicates (range of two processes)"}


IN_PLACE = "inputs in place"

NO_EFFECT = "the options change nothing: equal code"


def _reads_in_place(row: Row) -> bool:
    """Whether a row was measured before captured calls copied their inputs."""
    copied = row["copies"] or row["launches"]
    return bool(row["graph"] and row["graph_launches"] and row["copies"] is not None and not copied)


def _slow_rounds(row: Row) -> str:
    left_out, rounds = row["slow_rounds"] or 0, row["rounds"] or 0
    if left_out < MANY_ROUNDS * (left_out + rounds) or not left_out:
        return ""
    return f"{rounds:.0f} of {rounds + left_out:.0f} rounds: the host was slow in the others"


def graph_breaks(row: Row) -> str:
    """Counts graph breaks and names the first: `2 graph breaks: print at net.py:12 and 1 more`.

    Functions that run in eager are added (`; in eager: Net.forward`). Empty if there is nothing.
    """
    sites = json.loads(row["graph_break_reasons"] or "[]")
    in_eager = json.loads(row["eager_functions"] or "[]")
    texts = [f"in eager: {', '.join(in_eager)}"] if in_eager else []
    if sites:
        at = f" at {sites[0]['place']}" if sites[0]["place"] else ""
        more = f" and {len(sites) - 1} more" if len(sites) > 1 else ""
        texts.insert(0, f"{_breaks_counted(row)}: {sites[0]['reason']}{at}{more}")
    return "; ".join(texts)


def _breaks_counted(row: Row) -> str:
    return numbers.counted(required(row["graph_breaks"]), "graph break", "graph breaks")
