"""Prints a study and what to use: `python -m analysis.table [results/main] [--csv] [...]`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from analysis import cli, terminal, words
from analysis.metrics import CONTRACT, METRICS
from analysis.recommendation import ANYTHING, Wishes, fold, recommend
from analysis.recommending import wishes
from analysis.replicates import ADDED
from analysis.rows import ordered
from bench.records import UsageError
from bench.store import SCHEMA

MOST_ROWS = 24  # of a summary; the whole study is for this module's command line


def text(rows: pd.DataFrame) -> str:
    """Derived rows as a table for a terminal."""
    return "\n".join(terminal.lines(rows)) if len(rows) else "no runs"


def advice(rows: pd.DataFrame, wanted: Wishes = ANYTHING) -> str:
    """Which mode to use, a sentence for each work, with what has to be known beside it."""
    answers = recommend(rows, wanted.calls, wanted.memory_limit_bytes)
    lines = []
    for one in fold(answers):
        lines += terminal.paragraph(one.text)
        lines += [line for note in one.remarks for line in terminal.beneath(note)]
    return "\n".join(lines)


def summary(rows: pd.DataFrame, limit: int = 40, folder: str | Path | None = None) -> str:
    """`text` of the most telling derived rows: at most MOST_ROWS rows and `limit` lines.

    Faults come first, then what is fastest, then what was skipped; the last line says how to see
    the rest (`folder`: the study's, by default results/<study>). One row is shown whole even
    where that takes more lines.
    """
    telling = rows.assign(_rank=rows["status"].map({"ok": 1, "skipped": 2}).fillna(0))
    telling = telling.sort_values(["_rank", "speedup"], ascending=[True, False], kind="stable")
    for count in range(min(len(rows), MOST_ROWS), 0, -1):
        lines = terminal.lines(telling.head(count))
        if count < len(rows):
            study = folder or f"results/{rows['study'].iloc[0]}"
            lines.append(f"{len(rows) - count} more: python -m analysis.table {study}")
        if len(lines) <= limit or count == 1:
            return "\n".join(lines)
    return "no runs"


def not_shown(runs: pd.DataFrame, rows: pd.DataFrame) -> list[str]:
    """A line for each of `runs` that went wrong and that another run of its case stands before.

    `runs` are stored rows and `rows` the derived ones made of them: replicates of one case become
    one row, and of several seeds the newest is shown.
    """
    wrong = runs[~runs["status"].isin(["ok", "skipped"]) & ~runs["run_id"].isin(rows["run_id"])]
    return [
        line
        for run in words.as_rows(wrong)
        for line in terminal.paragraph(
            f"{words.variant(run)}, {words.work(run)}, seed {run['seed']}, replicate "
            f"{run['replicate']}: {words.ended(run)}"
        )
    ]


def csv(rows: pd.DataFrame) -> str:
    """The contract's columns in full precision; unknown is an empty field, flags are a;b."""
    names = dict.fromkeys([*CONTRACT, *ADDED, *(metric.name for metric in METRICS)])
    table = ordered(rows)[[name for name in names if name in rows]]
    whole = [f.name for f in SCHEMA if f.name in table and str(f.type) == "int64"]
    whole += [metric.name for metric in METRICS if metric.unit in ("rounds", "bytes")]
    table = table.astype(dict.fromkeys(whole, "Int64"))  # 4, not 4.0 beside a null
    table["flags"] = [";".join(flags) for flags in table["flags"]]
    return table.to_csv(index=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = cli.parser("analysis.table", __doc__)
    parser.add_argument("--csv", action="store_true", help="all columns, full precision")
    cli.add_where(parser)
    wishes.add_options(parser)
    asked = parser.parse_args(arguments)

    def body() -> None:
        wanted = wishes.wishes(asked)
        if asked.csv and wanted != ANYTHING:
            raise UsageError(
                "--calls and --memory-limit change what is recommended, and --csv prints no such "
                "thing; leave one of them out"
            )
        rows, _ = cli.study(asked.study)
        rows = cli.where(rows, asked.where) if asked.where else rows
        sys.stdout.write(csv(rows) if asked.csv else f"{text(rows)}\n\n{advice(rows, wanted)}\n")

    return cli.exit_status(body)


if __name__ == "__main__":
    sys.exit(main())
