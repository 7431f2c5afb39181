"""The columns of the tables in the terminal and in the report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from modescope.analysis.estimates import number_of
from modescope.analysis.format import cells, numbers, phrases
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import value_of
from modescope.bench.records.outcomes import Checked, Status


@dataclass(frozen=True)
class Column:
    """A column of a table, whose cells `cell` makes.

    `optional`: omitted if it is empty or unknown in every row. `spare`: if a table is too wide, the
    columns with the highest value are omitted first; columns with 0 never are. `key`: the derived
    column by which a page sorts, or None to sort by the text.
    """

    title: str
    cell: Callable[[Row], str]
    align: str = "<"  # < | >
    optional: bool = False
    spare: int = 0
    key: str | None = None

    @property
    def is_text(self) -> bool:
        """Whether the column's cells are words, which may be wrapped and filtered by."""
        return self.key is None and self.align == "<"


@dataclass(frozen=True)
class Table:
    """A table of text with its title."""

    title: str
    titles: tuple[str, ...]
    named: int  # number of leading columns that hold names, left-aligned; the others hold numbers
    rows: tuple[tuple[str, ...], ...]


def _number(text: Callable[[float | None], str], title: str, name: str, spare: int = 0) -> Column:
    return Column(title, lambda row: text(number_of(row, name)), ">", True, spare, name)


def _text(title: str, name: str) -> Column:
    return Column(title, lambda row: value_of(row, name) or numbers.UNKNOWN, optional=True)


def _clock(name: str, spare: int = 0) -> Column:
    return _number(numbers.duration, name, f"{name}_paired_s", spare)


def _approximate(column: Column, *figures: str) -> Column:
    return replace(column, cell=lambda row: cells.approximate(column.cell(row), row, *figures))


_size = partial(_number, numbers.size)
_count = partial(_number, numbers.count)
_factor = partial(_number, numbers.factor)
_share = partial(_number, partial(numbers.share, whole=1))


MODE = Column("mode", phrases.mode)
DTYPE = Column("dtype", lambda row: row["dtype"])
NAMING = (MODE, DTYPE)
SPEEDUP = Column("speedup [95 %]", cells.speedup, key="speedup")
CHAINED = Column("chained [95 %]", partial(cells.gain, name="chained_speedup"), optional=True,
                 key="chained_speedup")  # fmt: skip
SAME_GRAD = _factor("same grad", "speedup_same_grad", spare=2)
VERDICT = Column("verdict", lambda row: row["verdict"] or numbers.UNKNOWN)
FIRST_CALL = Column("first call", cells.first_call, ">", spare=8, key="first_call_s")
_BARE_FIRST_CALL = replace(FIRST_CALL, cell=cells.bare_first_call, spare=0)
PAYS_AFTER = Column("pays after", cells.break_even, ">", key="break_even_calls")
ERROR = Column("error", lambda row: numbers.scientific(row["error"]), ">", spare=4, key="error")
KERNELS = _approximate(_count("kernels", "kernels", spare=6), "profile")
FUSION = Column("fusion gain [95 %]", partial(cells.gain, name="fusion_gain"), optional=True,
                key="fusion_gain")  # fmt: skip
PEAK = _size("peak", "peak_bytes", spare=2)
# Parts of a training step. A narrow table omits first what differs least between modes.
_SPARE_PARTS = {"forward": 1, "backward": 1, "optimizer": 2, "scaler": 3}
PARTS = tuple(_clock(name, spare) for name, spare in _SPARE_PARTS.items())
_DISPATCH = _approximate(_clock("dispatch", spare=1), "latency", "split")
_DEVICE = _approximate(_clock("device", spare=3), "device")
THREADS_GAIN = _approximate(
    Column("threads gain [95 %]", partial(cells.gain, name="threads_gain"), optional=True,
           key="threads_gain"),
    "latency",
)  # fmt: skip
REMARKS = Column("remarks", cells.remarks, optional=True)
_HOST = Column("host", cells.host_of_cuda, ">", optional=True, spare=7, key="host_paired_s")

# For runs that ended ok. Other rows show their reason in place of these columns.
MEASURED = (
    _approximate(_clock("latency"), "latency"),
    SPEEDUP,
    CHAINED,
    SAME_GRAD,
    VERDICT,
    THREADS_GAIN,
    *PARTS,
    _DISPATCH,
    _DEVICE,
    _HOST,
    KERNELS,
    _approximate(_factor("fusion", "fusion_gain", spare=5), "split"),
    PEAK,
    FIRST_CALL,
    PAYS_AFTER,
    ERROR,
    REMARKS,
)

# The same for a report, which has room for the interval of the latency and for graph breaks, and
# names the compiler cache elsewhere.
REPORTED = (
    SPEEDUP,
    CHAINED,
    SAME_GRAD,
    THREADS_GAIN,
    Column("latency [95 %]", cells.latency, key="latency_paired_s"),
    _BARE_FIRST_CALL,
    PAYS_AFTER,
    PEAK,
    ERROR,
    REMARKS,
    Column("graph breaks", cells.graph_breaks, optional=True),
)
_HOW_CHECKED: dict[Checked | None, str] = {
    Checked.EXACT: "exact",
    Checked.WITHOUT_RANDOMNESS: "without randomness",
    Checked.NOT: "no",
}
# All the rest, which a report shows on request.
FURTHER = (
    Column("mde", lambda row: numbers.percent(row["mde"]), ">", key="mde"),
    Column("p95", lambda row: numbers.duration(row["latency_p95_s"]), ">", key="latency_p95_s"),
    _share("slowest pace", "pace_slowest"),
    _number(numbers.duration, "at full pace", "latency_at_full_pace_s"),
    _HOST,
    _DEVICE,
    _clock("pipelined"),
    _DISPATCH,
    *PARTS,
    _share("of the step", "parts_ratio"),
    KERNELS,
    Column("launches", cells.launches, ">", optional=True, key="launches"),
    _share("idle", "device_idle_fraction"),
    FUSION,
    _factor("alone", "fusion_speedup"),
    _factor("launch gain", "launch_gain"),
    Column("of the roofline", cells.roofline, ">", optional=True, key="roofline_fraction"),
    _size("weights", "weights_bytes"),
    _size("gradients", "gradient_bytes"),
    _size("optimizer state", "optimizer_state_bytes"),
    _size("saved activations", "saved_activation_bytes"),
    _size("call peak", "step_peak_bytes"),
    _size("graph pool", "graph_pool_bytes"),
    _size("live in it", "graph_pool_live_bytes"),
    _size("setup peak", "setup_peak_bytes"),
    _text("error of", "error_place"),
    _number(numbers.scientific, "error limit", "error_limit"),
    _number(numbers.scientific, "scale error", "scale_error"),
    _number(numbers.cosine, "cosine", "output_cosine"),
    _share("top-1", "top1_agreement"),
    _share("fewer bits", "quantized_share"),
    _text("made by", "quantizer"),
    _text("unchecked", "unchecked_outputs"),
    Column("checked", lambda row: _HOW_CHECKED.get(row["checked"], numbers.UNKNOWN),
           optional=True),
    _text("checked on", "checked_inputs"),
    _text("checked against", "checked_against"),
    _text("about the check", "checked_note"),
    Column("loss scale", cells.loss_scale, ">", optional=True, key="loss_scale"),
    Column("rounds", lambda row: numbers.calls(row["rounds"]), ">", key="rounds"),
    Column("between processes", cells.process_spread, ">", True, key="speedup_process_spread"),
)  # fmt: skip

# What one call consists of; a separate table.
COUNTED = (
    _count("operators", "ops_dispatched"),
    Column("leaves", cells.leaf_operators, ">", optional=True),
    Column("launch delay", lambda row: numbers.duration(row["launch_delay_s"]), ">", optional=True),
    _factor("with profiler", "profiler_overhead"),
    _count("generated", "generated_kernels"),
    _count("extern", "extern_calls"),
    Column("bytes moved", cells.traffic, ">", optional=True),
    Column("allocations", cells.allocations, ">", optional=True),
)


AGAINST = Column("against", phrases.baseline)
BUDGET = Column("budget", lambda row: row["budget"])
CACHE = Column("cache", lambda row: row["compile_cache"])


def distinguishing(rows: Sequence[Row]) -> tuple[Column, ...]:
    """Returns the columns BUDGET and CACHE, each only if its values differ between `rows`.

    For BUDGET, rows with a smoke budget do not count.
    """
    measured = [row for row in rows if not predicates.is_smoke(row)]
    groups = ((BUDGET, measured), (CACHE, rows))
    return tuple(column for column, group in groups if len({*map(column.cell, group)}) > 1)


def naming(rows: Sequence[Row]) -> tuple[Column, ...]:
    """Returns the columns that tell rows of the same work apart."""
    return (*NAMING, *distinguishing(rows))


def of_passes(columns: Iterable[Column], rows: Iterable[Row]) -> list[Column]:
    """Returns `columns`, titled as times of a pass if the calls of all `rows` vary in size."""
    titles = _OF_A_PASS if all(row["calls"] for row in rows) else {}
    return [replace(column, title=titles.get(column.title, column.title)) for column in columns]


_OF_A_PASS = {
    "latency": "time of a pass",
    "latency [95 %]": "time of a pass [95 %]",
    "first call": "first pass",
    "at full pace": "a pass at full pace",
    "pays after": "pays after (calls)",
}


def measured(rows: Sequence[Row]) -> list[Column]:
    """Returns the columns of MEASURED, without optional ones that `rows` leave empty or unknown.

    If rows differ in compiler cache, the cache has a column of its own. The first call then has no
    note about the cache, and its column is never dropped. Nor is that of the error beside rows with
    fewer bits.
    """
    first_call = _BARE_FIRST_CALL if CACHE in distinguishing(rows) else FIRST_CALL
    error = replace(ERROR, spare=0) if any(row["quantize"] for row in rows) else ERROR
    shown = {FIRST_CALL: first_call, ERROR: error}
    return of_passes([shown.get(column, column) for column in wanted(MEASURED, rows)], rows)


def wanted(columns: Iterable[Column], rows: Iterable[Row]) -> list[Column]:
    """Returns `columns` without optional ones that are empty or unknown in every row that is ok."""
    ok = [row for row in rows if row["status"] == Status.OK]
    silent = ("", numbers.UNKNOWN)
    return [c for c in columns if not c.optional or any(c.cell(row) not in silent for row in ok)]


def table_of(
    title: str, rows: Sequence[Row], naming: Sequence[Column], columns: Sequence[Column]
) -> Table:
    """Returns a Table with a line per row.

    It has all columns of `naming`, and those of `columns` that `wanted` keeps.
    """
    kept = (*naming, *wanted(columns, rows))
    lines = tuple(tuple(column.cell(row) for column in kept) for row in rows)
    return Table(title, tuple(column.title for column in kept), len(naming), lines)
