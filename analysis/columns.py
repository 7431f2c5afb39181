"""The columns of the readable tables, in the terminal and in the report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from analysis import numbers, words
from analysis.words import Row


@dataclass(frozen=True)
class Column:
    """A column of a readable table.

    `optional`: left out where no row has anything to say. `spare`: left out of a table that is too
    wide for its place, the highest first; those of 0 never are.
    """

    title: str
    cell: Callable[[Row], str]
    align: str = "<"  # < | >
    optional: bool = False
    spare: int = 0


def _clock(name: str, spare: int) -> Column:
    return Column(name, lambda row: numbers.duration(row[f"{name}_s"]), ">", True, spare)


def _size(title: str, name: str) -> Column:
    return Column(title, lambda row: numbers.size(row[name]), ">", optional=True)


def _count(title: str, name: str) -> Column:
    return Column(title, lambda row: numbers.count(row[name]), ">", optional=True)


_SIZES = (
    ("weights", "weights_bytes"),
    ("gradients", "gradient_bytes"),
    ("optimizer state", "optimizer_state_bytes"),
    ("saved activations", "saved_activation_bytes"),
    ("peak of a call", "step_peak_bytes"),
    ("peak in all", "peak_bytes"),
    ("graph pool", "graph_pool_bytes"),
    ("live in it", "graph_pool_live_bytes"),
    ("setup peak", "setup_peak_bytes"),
)


# Of a training step; those that modes change least are the first that a narrow table goes without.
_SPARE_PARTS = {"forward": 1, "backward": 1, "optimizer": 2, "scaler": 3}
PARTS = tuple(_clock(name, spare) for name, spare in _SPARE_PARTS.items())


def _host_of_cuda(row: Row) -> str:
    """On a CPU it is the latency once more."""
    return numbers.duration(row["host_s"]) if words.on_cuda(row) else numbers.UNKNOWN


SPEEDUP = Column("speedup [95 %]", words.speedup)
SAME_GRAD = Column(
    "same grad", lambda row: numbers.factor(row["speedup_same_grad"]), ">", optional=True, spare=2
)
VERDICT = Column("verdict", lambda row: row["verdict"] or numbers.UNKNOWN)
FIRST_CALL = Column("first call", words.first_call, ">", spare=8)
PAYS_AFTER = Column("pays after", words.break_even, ">")
ERROR = Column("error", lambda row: numbers.scientific(row["error"]), ">", spare=4)
KERNELS = Column("kernels", lambda row: numbers.count(row["kernels"]), ">", optional=True, spare=6)

# What is said of a run that ended ok; any other has its reason in place of these.
MEASURED = (
    Column("latency", lambda row: numbers.duration(row["latency_s"]), ">"),
    SPEEDUP,
    SAME_GRAD,
    VERDICT,
    *PARTS,
    _clock("dispatch", spare=1),
    _clock("device", spare=3),
    Column("host", _host_of_cuda, ">", optional=True, spare=7),
    KERNELS,
    Column("fusion", lambda row: numbers.factor(row["fusion_gain"]), ">", optional=True, spare=5),
    Column("peak", lambda row: numbers.size(row["peak_bytes"]), ">", optional=True, spare=9),
    FIRST_CALL,
    PAYS_AFTER,
    ERROR,
    Column("remarks", words.remarks, optional=True),
)

# Where there is room for more.
DETAILED = (
    Column("latency [95 %]", words.latency),
    SPEEDUP,
    VERDICT,
    SAME_GRAD,
    Column("mde", lambda row: numbers.percent(row["mde"]), ">"),
    Column("p95", lambda row: numbers.duration(row["latency_p95_s"]), ">"),
    *(_clock(name, spare=0) for name in ("host", "device", "pipelined", "dispatch")),
    *PARTS,
    Column("of the step", lambda row: numbers.share(row["parts_ratio"], 1), ">", optional=True),
    KERNELS,
    Column("launches", words.launches, ">", optional=True),
    Column("idle", lambda row: numbers.share(row["device_idle_fraction"], 1), ">", optional=True),
    Column("fusion gain", words.fusion_gain, optional=True),
    Column("alone", lambda row: numbers.factor(row["fusion_speedup"]), ">", optional=True),
    Column("launch gain", lambda row: numbers.factor(row["launch_gain"]), ">", optional=True),
    Column("of the roofline", words.roofline, ">", optional=True),
    *(_size(title, name) for title, name in _SIZES),
    FIRST_CALL,
    PAYS_AFTER,
    ERROR,
    Column("error of", lambda row: row["error_place"] or numbers.UNKNOWN, optional=True),
    Column("loss scale", words.loss_scale, ">", optional=True),
    Column("rounds", lambda row: numbers.calls(row["rounds"]), ">"),
    Column("between processes", words.process_spread, ">", optional=True),
    Column("remarks", words.all_remarks, optional=True),
)


# What one call is made of, in a table of its own.
COUNTED = (
    _count("operators", "ops_dispatched"),
    Column("leaves", words.leaf_operators, ">", optional=True),
    Column("launch delay", lambda row: numbers.duration(row["launch_delay_s"]), ">", optional=True),
    Column("with profiler", lambda row: numbers.factor(row["profiler_overhead"]), ">", True),
    _count("generated", "generated_kernels"),
    _count("extern", "extern_calls"),
    Column("bytes moved", words.traffic, ">", optional=True),
    Column("from cache", words.from_cache, ">", optional=True),
    Column("allocations", words.allocations, ">", optional=True),
)


AGAINST = Column("against", words.baseline)
BUDGET = Column("budget", lambda row: row["budget"])
CACHE = Column("cache", lambda row: row["compile_cache"])


def apart(rows: Sequence[Row]) -> tuple[Column, ...]:
    """The columns that set rows of one name apart: budget and cache, where they differ in them.

    A smoke budget is a remark and not a column.
    """
    measured = [row for row in rows if not words.is_smoke(row)]
    asked = ((BUDGET, measured), (CACHE, rows))
    return tuple(column for column, among in asked if len({column.cell(row) for row in among}) > 1)


def wanted(columns: Iterable[Column], rows: Iterable[Row]) -> list[Column]:
    """`columns` without the optional ones that would say nothing in every row that ended ok."""
    ok = [row for row in rows if row["status"] == "ok"]
    silent = ("", numbers.UNKNOWN)
    return [c for c in columns if not c.optional or any(c.cell(row) not in silent for row in ok)]
