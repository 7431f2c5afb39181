"""Writes the data dictionary: `python -m analysis.dictionary` (results/README.md)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from inspect import cleandoc, get_annotations

from markupsafe import Markup

from modescope.analysis.causes.finding import CAUSES
from modescope.analysis.derive import against
from modescope.analysis.derive.registry import METRICS
from modescope.analysis.derive.select import ADDED
from modescope.bench.records.parquet import CORE, SUMMARY_DOCS
from modescope.bench.records.paths import ROOT
from modescope.bench.records.results import PARTS, SCHEMA_VERSION
from modescope.bench.text import markdown_engine, prose

PATH = ROOT / "results" / "README.md"

_ARROWS = {"lower": " ↓", "higher": " ↑", "neither": ""}


def text() -> str:
    """Returns the data dictionary as Markdown, made of the docs of record fields and METRICS."""
    metrics = {metric.name: metric for metric in METRICS}

    def mark(name: str) -> str:
        interval = " ±" if metrics[name].interval else ""
        return f"{interval}{_ARROWS[metrics[name].better]}{_in_file(name)}"

    causes = {one.code: (one.rule.__doc__ or "").partition("\n")[0] for one in CAUSES}
    template = markdown_engine("modescope.analysis").get_template("dictionary.md.j2")
    return template.render(
        version=SCHEMA_VERSION,
        stored=[group for part in PARTS for group in _groups(part)],
        summary=_list(SUMMARY_DOCS),
        rows=_list(ADDED),
        derived=_list({name: metric.doc for name, metric in metrics.items()}, mark),
        against=_list(against.COLUMNS),
        causes=_list(causes, lambda name: ""),
    )


def _groups(part: type) -> Iterator[tuple[Markup, Markup]]:
    for group in reversed(part.__mro__):
        names = get_annotations(group)
        if docs := {f.name: f.metadata["doc"] for f in fields(part) if f.name in names}:
            yield Markup(cleandoc(group.__doc__ or "")), _list(docs)


def _in_file(name: str) -> str:
    return " ●" if name in CORE else ""


def _list(docs: Mapping[str, str], mark: Callable[[str], str] = _in_file) -> Markup:
    return Markup(
        "".join(f"- `{name}`{mark(name)}: {prose(doc)}\n" for name, doc in docs.items() if doc)
    )


def main() -> int:
    """Writes the file and prints its path."""
    PATH.write_text(text(), encoding="utf-8")
    print(PATH)
    return 0


if __name__ == "__main__":
    sys.exit(main())
