"""Writes what follows from the declared columns: `python -m analysis.dictionary`.

These are the data dictionary (results/README.md) and the type of a row (analysis/rows/type.py).
"""

from __future__ import annotations

import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from inspect import cleandoc
from itertools import groupby
from typing import Any

from modescope.analysis import cli

if __name__ == "__main__":
    cli.check(cli.Parser("analysis.dictionary", __doc__))

from markupsafe import Markup

from modescope.analysis.causes.finding import CAUSES
from modescope.analysis.derive import against, select
from modescope.analysis.derive.select import ADDED
from modescope.analysis.load import SHOWN
from modescope.analysis.metrics import ESTIMATE, METRICS
from modescope.bench.records.parquet import CORE
from modescope.bench.records.paths import ROOT
from modescope.bench.records.results import SCHEMA_VERSION, Record, columns_of
from modescope.bench.records.summary_columns import ESTIMATES, SUMMARY_DOCS, VALUES
from modescope.bench.text import markdown_engine, prose

PATH = ROOT / "results" / "README.md"
TYPE_PATH = ROOT / "analysis" / "rows" / "type.py"

_ARROWS = {"lower": " ↓", "higher": " ↑", "neither": ""}


def text() -> str:
    """Returns the data dictionary as Markdown, made of the docs of record fields and METRICS."""
    metrics = {metric.name: metric for metric in METRICS}

    def mark(name: str) -> str:
        interval = " ±" if metrics[name].interval else ""
        return f"{interval}{_ARROWS[metrics[name].better]}{_in_file(name)}"

    causes = {cause.code: (cause.rule.__doc__ or "").partition("\n")[0] for cause in CAUSES}
    template = markdown_engine("modescope.analysis").get_template("dictionary.md.j2")
    return template.render(
        version=SCHEMA_VERSION,
        stored=list(_groups()),
        summary=_list(SUMMARY_DOCS),
        rows=_list(ADDED),
        derived=_list({name: metric.doc for name, metric in metrics.items()}, mark),
        against=_list(against.COLUMNS),
        causes=_list(causes, lambda name: ""),
    )


def row_type() -> str:
    """Returns the source of the type of a row: all columns that `derive` returns, and more."""
    stored = {column.name: column.hint for column in columns_of(Record)}
    counts = [name for name in SUMMARY_DOCS if name in SHOWN and name not in stored]
    types = {
        **{name: _held(stored[name]) for name in SHOWN if name in stored},
        **dict.fromkeys(counts, "float | None"),
        **select.HOLDS,
        **{metric.name: metric.holds for metric in METRICS if metric.doc},
    }
    template = markdown_engine("modescope.analysis").get_template("row_type.py.j2")
    numbers = {
        **{columns[0]: ESTIMATE for columns in ESTIMATES.values()},
        **dict.fromkeys(VALUES.values(), "float | None"),
    }
    beside = {name: kind for name, kind in numbers.items() if name not in types}
    return template.render(always=types, summary=beside, sometimes=against.HOLDS)


def _held(hint: Any) -> str:
    """Returns the type of a stored column's values, once pandas has read them."""
    kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
    if type(None) not in typing.get_args(hint):
        return "list[str]" if typing.get_origin(hint) else hint.__name__
    if typing.get_origin(kinds[0]) is tuple:
        return f"Sequence[{typing.get_args(kinds[0])[0].__name__}] | None"
    return f"{'float' if kinds[0] is int else kinds[0].__name__} | None"


def _groups() -> Iterator[tuple[Markup, Markup]]:
    for group, columns in groupby(columns_of(Record), lambda column: column.group):
        docs = {column.name: column.doc for column in columns}
        yield Markup(cleandoc(group.__doc__ or "")), _list(docs)


def _in_file(name: str) -> str:
    return " ●" if name in CORE else ""


def _list(docs: Mapping[str, str], mark: Callable[[str], str] = _in_file) -> Markup:
    return Markup(
        "".join(f"- `{name}`{mark(name)}: {prose(doc)}\n" for name, doc in docs.items() if doc)
    )


def main() -> int:
    """Writes both files and prints their paths."""
    for path, content in ((PATH, text()), (TYPE_PATH, row_type())):
        path.write_text(content, encoding="utf-8")
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
