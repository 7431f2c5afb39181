"""What must hold of every row of a GPU: `python -m tests.gpu.invariants FOLDER`.

Each invariant is a function of a row that returns None if it holds, says nothing about the row
(`Unknown`), or says how it is broken. The folder is searched for studies.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd

from modescope.analysis.format.columns import measured
from modescope.analysis.rows.values import as_rows
from modescope.bench.modes import backends
from modescope.bench.records import rows
from modescope.bench.records.cases import Mode, Training
from modescope.bench.records.results import StoredRow
from tests.gpu.cards import peaks_of
from tests.gpu.pretending import pretends
from tests.gpu.running import EXIT_SKIPPED
from tests.helpers.derivations import table_of

EVENT_S = 1e-6  # twice the resolution of an event: device time may exceed latency by as much
KERNELS = 1.03  # of device time: the profile is a pass of its own, at another clock
PRINTED = 0.006  # three digits are printed
UNITS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
TIME = re.compile(r"([\d.,]+) (ns|µs|ms|s)\b")


class Unknown(Exception):
    """The row says nothing about an invariant."""


@dataclass(frozen=True)
class Broken:
    """A row and an invariant that it breaks."""

    study: str
    run_id: str
    case: str
    invariant: str
    how: str


def needed(row: StoredRow, *columns: str) -> list[Any]:
    """Returns these values of the row; raises Unknown if one is missing."""
    values = [row.get(column) for column in columns]
    if any(value is None for value in values):
        raise Unknown
    return values


def device_within_latency(row: StoredRow) -> str | None:
    """The device is busy with a call no longer than the caller waits for it, in the same rounds."""
    device_s, latency_s = needed(row, "device_rounds_s", "clocks_latency_rounds_s")
    pairs = list(zip(device_s, latency_s, strict=True))
    if not pairs:
        raise Unknown
    over_s = median(device - latency for device, latency in pairs)
    if over_s <= EVENT_S:
        return None
    return f"device time is {over_s * 1e6:.2f} µs above latency in the same rounds"


def kernels_within_device(row: StoredRow) -> str | None:
    """The kernels of a call take no longer than the device needs for it."""
    kernels_s, device_s = needed(row, "kernels_s", "device_s")
    if kernels_s <= KERNELS * device_s + EVENT_S:
        return None
    return f"kernels take {kernels_s * 1e6:.1f} µs of {device_s * 1e6:.1f} µs of device time"


def rates_below_peak(row: StoredRow) -> str | None:
    """No more operations or bytes per second than the card's data sheet says."""
    device_s, name = needed(row, "device_s", "device_name")
    peaks = peaks_of(name)
    if peaks is None:
        raise Unknown
    flops, least_bytes = row.get("flops"), row.get("least_bytes")
    peak = peaks.flops_per_s.get(row["dtype"])
    if flops is not None and peak is not None and flops / device_s > peak:
        return f"{flops / device_s / 1e12:.0f} TFLOP/s, and {name} has {peak / 1e12:.0f}"
    if least_bytes is None or least_bytes < 2 * peaks.cache_bytes:  # the cache may hold the rest
        return None
    if least_bytes / device_s > peaks.bytes_per_s:
        rate, most = least_bytes / device_s / 1e12, peaks.bytes_per_s / 1e12
        return f"{rate:.2f} TB/s, and {name} has {most:.2f}"
    return None


def mode_of(row: StoredRow) -> Mode:
    """The row's mode."""
    return Mode(row["mode"], row["grad"], row["autocast"], row["compile_mode"], row["graph"])


def expected_launches(row: StoredRow) -> tuple[int, int | None]:
    """The graph launches of a step, and its launches of kernels (None: any number).

    A captured training step is one graph, and one of forward and backward is two beside the
    optimizer. A pass over calls of different sizes replays a graph for each.
    """
    mode = mode_of(row)
    calls = len(next(iter(json.loads(row["calls"]).values()))) if row.get("calls") else 1
    if mode.graph:
        if row["phase"] == "train":
            training = Training(**json.loads(row["training"] or "{}"))
            return (1, 0) if training.captures_step(mode) else (2, None)
        return calls, 0
    if not backends.captures(mode):
        return 0, None
    return (2 if row["phase"] == "train" else calls), None


def one_launch_a_replay(row: StoredRow) -> str | None:
    """A graph is launched once for each replay, and what is not captured launches none."""
    graphs, launches = needed(row, "graph_launches", "launches")
    if row["in_effect"] is not True:
        raise Unknown  # the row says itself that its mode is none
    wanted, kernels = expected_launches(row)
    if graphs != wanted:
        return f"{graphs} graph launches in a step, and {wanted} expected"
    if kernels is not None and launches != kernels:
        return f"{launches} launches beside the graph, and {kernels} expected"
    return None


def spoken(row: StoredRow) -> str:
    """The case, in a few words."""
    sizes = json.loads(row["shape"] or "{}")
    size = " ".join(f"{name}={value}" for name, value in sizes.items())
    return f"{row['model']} {size} {row['phase']} {row['mode']} {row['dtype']}"


def printed_s(text: str) -> float | None:
    """The seconds that a cell of a table shows; None if it shows none."""
    found = TIME.search(text)
    return float(found[1].replace(",", "")) * UNITS[found[2]] if found else None


CLOCKS = {"latency": ("latency_s", "latency_rounds_s"), "device": ("device_s", "device_rounds_s")}
"""Title of a printed column -> what was measured, and its rounds."""


def printed_as_measured(row: StoredRow) -> str | None:
    """The table prints what the clocks read: the row's own median, within its own rounds."""
    checked = 0
    for title, (column, rounds) in CLOCKS.items():
        shown_s, read_s = printed_s(row.get(f"printed_{title}") or ""), row.get(column)
        if shown_s is None or read_s is None:
            continue
        checked += 1
        if abs(shown_s - read_s) > PRINTED * read_s:
            return f"{title} is printed as {shown_s * 1e6:.1f} µs, measured {read_s * 1e6:.1f} µs"
        within = row.get(rounds)
        if within and not min(within) * (1 - PRINTED) <= shown_s <= max(within) * (1 + PRINTED):
            return f"{title} is printed as {shown_s * 1e6:.1f} µs, beyond all of its rounds"
    if not checked:
        raise Unknown
    return None


INVARIANTS: dict[str, Callable[[StoredRow], str | None]] = {
    "device within latency": device_within_latency,
    "kernels within device": kernels_within_device,
    "rates below the card's peak": rates_below_peak,
    "one graph launch per replay": one_launch_a_replay,
    "printed as measured": printed_as_measured,
}


def studies_in(folder: Path) -> list[Path]:
    """The folders with rows, in `folder` or one below."""
    return sorted(each.parent for each in folder.rglob(rows.ROWS) if any(each.glob("*.parquet")))


def printed_cells(study: Path) -> dict[str, dict[str, str]]:
    """Run id -> the texts of its printed columns, for rows of one process."""
    table: pd.DataFrame = table_of(study)
    every = as_rows(table)
    columns = [column for column in measured(every) if column.title.strip() in CLOCKS]
    return {
        row["run_id"]: {f"printed_{each.title.strip()}": each.cell(row) for each in columns}
        for row in every
        if row["status"] == "ok" and row["replicates"] == 1
    }


def read(study: Path) -> list[StoredRow]:
    """The rows of a study that ended ok on CUDA, each with what a table prints of it."""
    found = rows.read(study / rows.ROWS)
    stored = found.table.to_pylist() if found else []
    ok = [row for row in stored if row["status"] == "ok" and row["device"].startswith("cuda")]
    cells = printed_cells(study) if ok else {}
    return [{**row, **cells.get(row["run_id"], {})} for row in ok]


def judge(study: str, of_study: Iterable[StoredRow]) -> tuple[list[Broken], Counter[str]]:
    """Returns what is broken, and how many rows said something about each invariant."""
    broken: list[Broken] = []
    looked: Counter[str] = Counter()
    for row in of_study:
        for name, holds in INVARIANTS.items():
            try:
                how = holds(row)
            except Unknown:
                continue
            looked[name] += 1
            if how is not None:
                broken.append(Broken(study, row["run_id"], spoken(row), name, how))
    return broken, looked


def lines(broken: Sequence[Broken], looked: Counter[str]) -> Iterator[str]:
    """Yields a line for each broken invariant of a row, then one for each invariant."""
    for each in broken:
        yield f"{each.invariant}: {each.study} {each.case} ({each.run_id}): {each.how}"
    for name in INVARIANTS:
        bad = sum(each.invariant == name for each in broken)
        yield f"{name}: {looked[name] - bad} of {looked[name]} rows"


def main(folder: Path) -> int:
    """Returns 0 if no row breaks an invariant, 1 if one does, 77 if there is none to look at."""
    broken: list[Broken] = []
    looked: Counter[str] = Counter()
    for study in studies_in(folder):
        name = study.relative_to(folder).as_posix()
        more, seen = judge(name, read(study))
        broken, looked = broken + more, looked + seen
    print("\n".join(lines(broken, looked)))
    text = "".join(f"{json.dumps(asdict(each))}\n" for each in broken)
    (folder / "broken-invariants.jsonl").write_text(text, encoding="utf-8")
    if not looked:
        print("no row of a GPU to look at")
        return EXIT_SKIPPED
    worst = Counter(each.invariant for each in broken)
    said = ", ".join(f"{n} × {name}" for name, n in worst.items())
    # clocks of a CPU and emulated graphs need not keep them
    uncounted = " (not counted on a pretended GPU)" if broken and pretends() else ""
    print(f"{sum(looked.values())} looks at rows: {said or 'nothing is broken'}{uncounted}")
    return 1 if broken and not uncounted else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
