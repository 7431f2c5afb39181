"""Prints a study and which mode to use: `modescope table [results/main] [--csv] [...]`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from modescope.analysis import cli

if __name__ == "__main__":
    cli.check(cli.table(__doc__))

import pandas as pd

from modescope.analysis import nodes, where
from modescope.analysis.causes.finding import most_important
from modescope.analysis.changes import LEAST_PROCESSES
from modescope.analysis.chosen import chosen
from modescope.analysis.derive import bits
from modescope.analysis.derive.against import (
    BETWEEN_PROCESSES,
    COLUMNS,
    in_place_of_the_baseline,
)
from modescope.analysis.derive.select import (
    ADDED,
    ordered,
    over_common_baseline,
)
from modescope.analysis.folders import Folder
from modescope.analysis.format import numbers, phrases
from modescope.analysis.format.phrases import indented_paragraph, paragraph
from modescope.analysis.metrics import CONTRACT, DERIVED, exported, flat
from modescope.analysis.recommend import constraints, keeping
from modescope.analysis.recommend.advice import Advice, fold
from modescope.analysis.recommend.constraints import ANYTHING, Wishes
from modescope.analysis.recommend.decide import recommend
from modescope.analysis.recommend.types import Recommendation
from modescope.analysis.rows import predicates
from modescope.analysis.rows.values import as_rows, grouped
from modescope.analysis.terminal import table_lines
from modescope.bench.records.outcomes import Status
from modescope.bench.records.parquet import SCHEMA
from modescope.bench.records.paths import program

MOST_ROWS = 24  # in a summary; the command line prints all
MOST_CAUSES = 3  # beneath a table; analysis.why prints all
MOST_CODE = 30  # lines; a report has all


def text(rows: pd.DataFrame) -> str:
    """Returns derived rows as a table for a terminal."""
    return "\n".join(table_lines(rows))


def advice(rows: pd.DataFrame, wanted: Wishes = ANYTHING) -> str:
    """Returns which modes to use, with code: a line per workload and precision, the best first."""
    lines = []
    answers = recommend(rows, wanted)
    every = fold(answers)
    for work in every:
        lines += paragraph(f"use for {work.work}")
        texts = [
            text for precision in work.precisions for text in (precision.text, *precision.remarks)
        ]
        lines += [
            line for text in (*texts, work.certainty) if text for line in indented_paragraph(text)
        ]
    return "\n".join([*lines, *_kept_kernels(rows, answers), *_fewer_bits(rows), *_programs(every)])


def _kept_kernels(rows: pd.DataFrame, recommended: Sequence[Recommendation]) -> Iterator[str]:
    """Yields for each work and kernel of the user's own whether to keep it, and why."""
    found = keeping.answers(rows, recommended)
    of_works = grouped((phrases.work(answer.work), answer) for answer in found)
    for work, every in of_works.items():
        yield from paragraph(f"kernels for {work}")
        for answer in every:
            yield from indented_paragraph(f"{answer.work['dtype']}: {answer.text}")


def _fewer_bits(rows: pd.DataFrame) -> Iterator[str]:
    """Yields from which size on fewer bits pay, for each work over a size."""
    for work, sentences in grouped(bits.told(rows)).items():
        yield from paragraph(f"fewer bits for {work}")
        for sentence in sentences:
            yield from indented_paragraph(sentence)


def use(answers: Sequence[Recommendation]) -> str:
    """Returns which modes to use, like `advice` but without remarks and code."""
    lines = []
    for work in fold(answers):
        lines += paragraph(f"use for {work.work}")
        lines += [
            line for precision in work.precisions for line in indented_paragraph(precision.text)
        ]
    return "\n".join(lines)


def _programs(works: Iterable[Advice]) -> Iterator[str]:
    """Yields the code of each recommended mode once; code beyond MOST_CODE lines is counted."""
    every = grouped(
        (code, name)
        for work in works
        for precision in work.precisions
        for name, code in precision.programs.items()
    )
    left, more = MOST_CODE, 0
    for code, names in every.items():
        lines = code.splitlines()
        if len(lines) > left:
            more += 1
            continue
        left -= len(lines)
        yield ""
        yield f"code for {phrases.listed(list(dict.fromkeys(names)))}"
        yield from (f"    {line}".rstrip() for line in lines)
    if more:
        programs = numbers.counted(more, "more program is", "more programs are")
        yield from ("", f"{programs} in the report ({program('analysis.report')})")


def why(rows: pd.DataFrame, folder: Folder) -> str:
    """Returns the MOST_CAUSES main causes of speedups as text; empty if there are none."""
    every = as_rows(rows)
    several = len({phrases.work(row) for row in every}) > 1
    lines = []
    for row in most_important(every, MOST_CAUSES):
        work = f"{phrases.work(row)}: " if several else ""
        lines += paragraph(f"{work}{row['cause_text']}")
    return "\n".join([f"why ({program('analysis.why', folder)})", *lines]) if lines else ""


def node_warnings(processes: pd.DataFrame) -> str:
    """Returns the sentences of `analysis.nodes` as lines; empty if there are none."""
    return "\n".join(line for text in nodes.sentences(processes) for line in paragraph(text))


def answer(
    rows: pd.DataFrame, folder: Folder, wanted: Wishes = ANYTHING, warnings: str = ""
) -> str:
    """Returns all that is printed of derived rows: table, warnings, causes, and modes to use."""
    above = "\n".join(filter(None, (text(rows), warnings, why(rows, folder))))
    return f"{above}\n\n{advice(rows, wanted)}"


def against_mode(rows: pd.DataFrame, wanted: str) -> str:
    """Returns `rows` of `derive.against` as a table of speedups over `wanted`, with notes."""
    shown = in_place_of_the_baseline(rows)
    left_out = rows[rows["against_mode"].isna()]
    notes = [] if shown.empty else list(table_lines(shown))
    if shown["against_processes"].notna().any():
        notes += paragraph(_how_compared(shown, wanted))
    if len(left_out):
        works = dict.fromkeys(map(phrases.work, as_rows(left_out)))
        count = numbers.counted(len(left_out), "row that has", "rows that have")
        notes += paragraph(
            f"not shown: {count} no {wanted} of the same work and baseline to be compared with "
            f"({'; '.join(works)})"
        )
    return "\n".join(notes)


def _how_compared(shown: pd.DataFrame, wanted: str) -> str:
    text = (
        f"speedups are against {wanted}, which was measured in processes of its own: each is the "
        "row's speedup over the baseline ÷ that of the other row"
    )
    if shown["against_is_chained"].eq(True).any():
        text += ", where of a row in tf32 beside others the chained speedup counts"
    if not (shown["against_processes"] < LEAST_PROCESSES).any():
        return text
    return (
        f"{text}. Intervals of rows with fewer than {LEAST_PROCESSES} replicates are widened by "
        f"{numbers.percent(BETWEEN_PROCESSES)}, as speedups of the same code can differ so much "
        "between processes; replicates=5 measures how much they differ here"
    )


def summary(rows: pd.DataFrame, folder: Folder) -> str:
    """Returns a table of the MOST_ROWS most important derived rows.

    Failures come first, then the fastest rows, then skipped ones. If rows are left out, the last
    line is the command that prints all; it names `folder`, the study's folder.
    """
    important = rows.assign(
        _rank=rows["status"].map({Status.OK: 1, Status.SKIPPED: 2}).fillna(0),
        _speedup=over_common_baseline(rows),
    )
    important = important.sort_values(["_rank", "_speedup"], ascending=[True, False], kind="stable")
    shown = text(important.head(MOST_ROWS))
    if len(rows) <= MOST_ROWS:
        return shown
    return f"{shown}\n{len(rows) - MOST_ROWS} more: {program('analysis.table', folder)}"


def not_shown(runs: pd.DataFrame, rows: pd.DataFrame) -> list[str]:
    """Returns a line for each of `runs` that went wrong but is not in the table.

    `runs` are stored rows, and `rows` are the derived rows of the table. A derived row combines the
    replicates of a case, and only the newest of several seeds is shown.
    """
    wrong = runs[
        ~runs["status"].isin([Status.OK, Status.SKIPPED]) & ~runs["run_id"].isin(rows["run_id"])
    ]
    return [
        line
        for run in as_rows(wrong)
        for line in paragraph(
            f"{run['mode']} {run['dtype']}, {phrases.work(run)}, seed {run['seed']}, replicate "
            f"{run['replicate']}: {predicates.status_and_reason(run)}"
        )
    ]


def csv(rows: pd.DataFrame) -> str:
    """Returns every column of the derived table in full precision, first the columns in CONTRACT.

    Samples (a value per round, block or call) are not included. An unknown value is an empty field;
    lists, such as flags, are joined with `;`.
    """
    numbers_only = flat(ordered(rows))
    compared = chain.from_iterable(map(exported, COLUMNS))
    names = dict.fromkeys([*CONTRACT, *ADDED, *DERIVED, *compared, *map(str, numbers_only.columns)])
    table = numbers_only[[name for name in names if name in numbers_only]]
    whole = [f.name for f in SCHEMA if f.name in table and str(f.type) == "int64"]
    whole += [name for name in ("bytes_saved", "against_processes") if name in table]
    table = table.astype(dict.fromkeys(whole, "Int64"))  # 4, not 4.0 beside a null
    lists = [f.name for f in SCHEMA if f.name in table and str(f.type).startswith("list")]
    for name in (*lists, "flags_touch"):
        table[name] = [None if held is None else ";".join(map(str, held)) for held in table[name]]
    return table.to_csv(index=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    parser = cli.table(__doc__)

    def body() -> None:
        options = parser.parse_args(arguments)
        wanted = constraints.wishes(options)
        found = chosen(options.study, options.where, options.against)
        rows = found.rows
        if options.csv:
            sys.stdout.write(csv(rows))
        if rows.empty:
            none = where.count(rows, found.total, options.where)
            print(none, file=sys.stderr if options.csv else sys.stdout)
        elif options.against is not None and not options.csv:
            print(against_mode(rows, options.against))
        elif not options.csv:
            print(answer(rows, options.study, wanted, node_warnings(found.processes)))

    return cli.exit_status(body)


if __name__ == "__main__":
    sys.exit(main())
