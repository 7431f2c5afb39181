"""Measures one study of the table: `python -m tests.gpu.study NAME FOLDER`.

Without the report and the confirming processes of `run.py`. Cases that have a row are not measured
again.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from modescope.bench.command_line import collect
from modescope.bench.records import rows
from modescope.bench.sweep import sweep
from modescope.bench.sweep.prepare import start_torch
from tests.gpu import studies
from tests.gpu.pretending import pretends
from tests.gpu.studies import SMOKE, Study

QUICK = ("budget=quick", "timeout_s=100", "trace_max_mb=1", "traces_max_mb=4")


def settings(each: studies.Sweep, study: str, folder: Path, pretended: bool) -> list[str]:
    """The words for `run.py` that measure a sweep."""
    chosen = each.smoke() if pretended else each
    budget = SMOKE if pretended else QUICK
    place = (f"results_dir={folder}", f"study={study}", "device=cuda", "order=given")
    return ["-m", *place, *budget, *chosen.words()]


def measure(words: Sequence[str], run_ids: list[str]) -> None:
    """Measures the cases of a command line; appends each run id. Raises UsageError."""
    requests = collect(words)
    start_torch(requests)
    submission = sweep.submit(requests)
    assert submission
    for run_id in submission.finished:
        run_ids.append(run_id)


def said(found: Sequence[dict[str, Any]]) -> str:
    """A line about the rows: how many had which status, the first reason, what was measured."""
    counts = Counter(row["status"] for row in found)
    text = ", ".join(f"{n} {status}" for status, n in counts.most_common()) or "no row"
    reasons = [
        f"{row['model']} {row['mode']} {row['dtype']}: {row['reason']}"
        for row in found
        if row["status"] not in ("ok", "skipped")
    ]
    ineffective = sum(row["in_effect"] is False for row in found)
    text += f", {ineffective} not in effect" if ineffective else ""
    measured = [
        f"{row['model']} {row['mode']} {row['dtype']} {row['latency_s'] * 1e6:.0f} µs"
        + (f" {row['speedup']:.2f}×" if row["speedup"] else "")
        for row in found
        if row["status"] == "ok"
    ]
    return "; ".join([text, *reasons[:1], *measured])


def main(study: Study, folder: Path) -> int:
    """Returns 0 if every case is ok or skipped, else 1; 130 after Ctrl-C."""
    run_ids: list[str] = []
    is_stopped = False
    try:
        for each in study.sweeps:
            measure(settings(each, study.name, folder, pretends()), run_ids)
    except KeyboardInterrupt:
        is_stopped = True
    read = rows.read(folder / study.name / rows.ROWS)
    found = [row for row in read.table.to_pylist() if row["run_id"] in run_ids] if read else []
    print(f"\n{said(found)}{', then its time was over' if is_stopped else ''}")
    if is_stopped:
        return 130
    fine = {row["status"] for row in found} <= {"ok", "skipped"}
    return 0 if found and fine and len(found) == len(set(run_ids)) else 1


if __name__ == "__main__":
    sys.exit(main(studies.named(sys.argv[1]), Path(sys.argv[2])))
