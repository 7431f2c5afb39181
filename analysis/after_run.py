"""The summary that run.py prints after measuring. pandas is imported only when it is made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from modescope.bench.records.paths import program


def unconfirmed(study: Path, run_ids: Sequence[str]) -> list[str]:
    """Those of `run_ids` that a second process has to confirm before one is recommended."""
    from modescope.analysis.derive import registry
    from modescope.analysis.recommend import decide

    return decide.unconfirmed(decide.recommend(registry.derived(study)), run_ids)


def show(study: Path, run_ids: Sequence[str], is_sweep: bool) -> int:
    """Prints the rows of these runs and the next command; returns the exit status.

    No other runs of the study are printed. Several runs of a case (seeds, replicates) are one row;
    those of them that went wrong are listed below the table.
    """
    from modescope.analysis import table
    from modescope.analysis.derive import registry, select
    from modescope.analysis.load import read
    from modescope.bench.records.rows import ROWS

    runs = read(study).table
    mine = runs[runs["run_id"].isin(run_ids)]
    latest = select.latest(runs, among=run_ids)
    derived = registry.derive(latest)
    print("\n".join([table.summary(derived, study), *table.not_shown(mine, derived)]))
    for text in (table.node_warnings(latest), table.why(derived, study)):
        if text:
            print(text)
    if is_sweep:
        from modescope.analysis.report import report

        print(f"report   {report.write(study)}")
    print(f"results  {study / ROWS}")
    print(f"next     {program('analysis.table' if is_sweep else 'analysis.report', study)}")
    unread = set(run_ids) - set(mine["run_id"])
    return 0 if set(mine["status"]) <= {"ok", "skipped"} and not unread else 1
