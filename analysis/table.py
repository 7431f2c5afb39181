"""Prints a study and what to use: `python -m analysis.table [results/main] [--csv] [...]`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
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
    telling = rows.assign(
        _rank=rows["status"].map({"ok": 1, "skipped": 2}).fillna(0),
        _speedup=words.that_counts(rows, "speedup"),
    )
    telling = telling.sort_values(["_rank", "_speedup"], ascending=[True, False], kind="stable")
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
            f"{run['mode']} {run['dtype']}, {words.work(run)}, seed {run['seed']}, replicate "
            f"{run['replicate']}: {words.ended(run)}"
        )
    ]


def csv(rows: pd.DataFrame) -> str:
    """Every column of the derived table in full precision, those of the contract first.

    Samples (a value per round, block or call) are no columns of it. Unknown is an empty field; a
    list, as flags are, is a;b.
    """
    first = [*CONTRACT, *ADDED, *(metric.name for metric in METRICS)]
    names = dict.fromkeys([*first, *(str(name) for name in rows.columns)])
    table = ordered(rows)[[name for name in names if name in rows]]
    whole = [f.name for f in SCHEMA if f.name in table and str(f.type) == "int64"]
    whole += [metric.name for metric in METRICS if metric.unit in ("rounds", "bytes")]
    table = table.astype(dict.fromkeys(whole, "Int64"))  # 4, not 4.0 beside a null
    lists = [f.name for f in SCHEMA if f.name in table and str(f.type).startswith("list")]
    for name in lists:
        table[name] = [_joined(values) for values in table[name]]
    return table.to_csv(index=False)


def _joined(values: Iterable[object] | None) -> str | None:
    return None if values is None else ";".join(map(str, values))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = cli.parser("analysis.table", __doc__)
    parser.add_argument(
        "--csv", action="store_true", help="every column (results/README.md), full precision"
    )
    cli.add_where(parser)
    wishes.add_options(parser)

    def body() -> None:
        asked = parser.read(arguments)
        wanted = wishes.wishes(asked)
        if asked.csv and wanted != ANYTHING:
            raise UsageError(
                "--calls and --memory-limit change what is recommended, and --csv prints no such "
                "thing; leave one of them out"
            )
        rows, _ = cli.study(asked.study)
        selection = None if asked.where is None else cli.where(rows, asked.where)
        rows = rows if selection is None else selection.rows
        if asked.csv:
            sys.stdout.write(csv(rows))
        if selection is not None and rows.empty:
            print(selection.count, file=sys.stderr if asked.csv else sys.stdout)
        elif not asked.csv:
            print(f"{text(rows)}\n\n{advice(rows, wanted)}")

    return cli.exit_status(body)


if __name__ == "__main__":
    sys.exit(main())
