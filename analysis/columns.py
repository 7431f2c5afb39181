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
    wide for its place, the highest first; those of 0 never are. `key`: the derived column by which
    a page sorts it; None: by its text.
    """

    title: str
    cell: Callable[[Row], str]
    align: str = "<"  # < | >
    optional: bool = False
    spare: int = 0
    key: str | None = None


def _clock(name: str, spare: int = 0) -> Column:
    key = f"{name}_s"
    return Column(name, lambda row: numbers.duration(row[key]), ">", True, spare, key)


def _size(title: str, name: str, spare: int = 0) -> Column:
    return Column(title, lambda row: numbers.size(row[name]), ">", True, spare, name)


def _count(title: str, name: str, spare: int = 0) -> Column:
    return Column(title, lambda row: numbers.count(row[name]), ">", True, spare, name)


def _factor(title: str, name: str, spare: int = 0) -> Column:
    return Column(title, lambda row: numbers.factor(row[name]), ">", True, spare, name)


NAMING = (Column("mode", words.mode), Column("dtype", lambda row: row["dtype"]))
SPEEDUP = Column("speedup [95 %]", words.speedup, key="speedup")
SAME_GRAD = Column(
    "same grad", words.same_grad, ">", optional=True, spare=2, key="speedup_same_grad"
)
VERDICT = Column("verdict", lambda row: row["verdict"] or numbers.UNKNOWN)
FIRST_CALL = Column("first call", words.first_call, ">", spare=8, key="first_call_s")
PAYS_AFTER = Column("pays after", words.break_even, ">", key="break_even_calls")
ERROR = Column("error", lambda row: numbers.scientific(row["error"]), ">", spare=4, key="error")
KERNELS = _count("kernels", "kernels", spare=6)
FUSION = Column("fusion gain [95 %]", words.fusion_gain, optional=True, key="fusion_gain")
PEAK = _size("peak", "peak_bytes", spare=9)
# Of a training step; those that modes change least are the first that a narrow table goes without.
_SPARE_PARTS = {"forward": 1, "backward": 1, "optimizer": 2, "scaler": 3}
PARTS = tuple(_clock(name, spare) for name, spare in _SPARE_PARTS.items())
_HOST = Column("host", words.host_of_cuda, ">", optional=True, spare=7, key="host_s")

# What is said of a run that ended ok; any other has its reason in place of these.
MEASURED = (
    Column("latency", lambda row: numbers.duration(row["latency_s"]), ">"),
    SPEEDUP,
    SAME_GRAD,
    VERDICT,
    *PARTS,
    _clock("dispatch", spare=1),
    _clock("device", spare=3),
    _HOST,
    KERNELS,
    _factor("fusion", "fusion_gain", spare=5),
    PEAK,
    FIRST_CALL,
    PAYS_AFTER,
    ERROR,
    Column("remarks", words.remarks, optional=True),
)

# The same in a report, where there is room for an interval of the latency and for reasons ...
REPORTED = (
    SPEEDUP,
    SAME_GRAD,
    Column("latency [95 %]", words.latency, key="latency_s"),
    FIRST_CALL,
    PAYS_AFTER,
    PEAK,
    ERROR,
    Column("remarks", words.remarks, optional=True),
    Column("graph breaks", words.graph_breaks, optional=True),
)
# ... and, for those who ask for it, all the rest.
FURTHER = (
    Column("mde", lambda row: numbers.percent(row["mde"]), ">", key="mde"),
    Column("p95", lambda row: numbers.duration(row["latency_p95_s"]), ">", key="latency_p95_s"),
    _HOST,
    *(_clock(name) for name in ("device", "pipelined", "dispatch")),
    *PARTS,
    Column("of the step", lambda row: numbers.share(row["parts_ratio"], 1), ">", True,
           key="parts_ratio"),
    KERNELS,
    Column("launches", words.launches, ">", optional=True, key="launches"),
    Column("idle", lambda row: numbers.share(row["device_idle_fraction"], 1), ">", True,
           key="device_idle_fraction"),
    FUSION,
    _factor("alone", "fusion_speedup"),
    _factor("launch gain", "launch_gain"),
    Column("of the roofline", words.roofline, ">", optional=True, key="roofline_fraction"),
    _size("weights", "weights_bytes"),
    _size("gradients", "gradient_bytes"),
    _size("optimizer state", "optimizer_state_bytes"),
    _size("saved activations", "saved_activation_bytes"),
    _size("peak of a call", "step_peak_bytes"),
    _size("graph pool", "graph_pool_bytes"),
    _size("live in it", "graph_pool_live_bytes"),
    _size("setup peak", "setup_peak_bytes"),
    Column("error of", lambda row: row["error_place"] or numbers.UNKNOWN, optional=True),
    Column("loss scale", words.loss_scale, ">", optional=True, key="loss_scale"),
    Column("rounds", lambda row: numbers.calls(row["rounds"]), ">", key="rounds"),
    Column("between processes", words.process_spread, ">", True, key="speedup_process_spread"),
)  # fmt: skip

# What one call is made of, in a table of its own.
COUNTED = (
    _count("operators", "ops_dispatched"),
    Column("leaves", words.leaf_operators, ">", optional=True),
    Column("launch delay", lambda row: numbers.duration(row["launch_delay_s"]), ">", optional=True),
    _factor("with profiler", "profiler_overhead"),
    _count("generated", "generated_kernels"),
    _count("extern", "extern_calls"),
    Column("bytes moved", words.traffic, ">", optional=True),
    Column("from cache", words.from_cache, ">", optional=True),
    Column("allocations", words.allocations, ">", optional=True),
)


AGAINST = Column("against", words.baseline)
BUDGET = Column("budget", lambda row: row["budget"])
CACHE = Column("cache", lambda row: row["compile_cache"])


def told_by(rows: Sequence[Row]) -> tuple[Column, ...]:
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
