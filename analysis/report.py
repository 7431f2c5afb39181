"""Writes a study's report: `python -m analysis.report [results/main] [--calls N] [...]`."""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from analysis import cli, pictures, sections
from analysis.recommendation import ANYTHING, Wishes, fold, recommend
from analysis.recommending import wishes


def write(study: Path, wanted: Wishes = ANYTHING) -> Path:
    """Writes `<study>/report/`: index.html (self-contained), report.md and its figures.

    `wanted` decides what it recommends.

    Returns the path of index.html. Raises UsageError where there is no study or no run in it.
    """
    rows, left_out = cli.study(study)
    folder = study / "report"
    folder.mkdir(exist_ok=True)
    for kind in pictures.KINDS:
        for old in folder.glob(f"{kind}-*.svg"):  # a section may be gone since
            old.unlink()
    answers = recommend(rows, wanted.calls, wanted.memory_limit_bytes)
    context = sections.context(rows, study.resolve().name) | {
        "recommendations": answers,
        "advice": fold(answers),
        "left_out": left_out,
    }
    for picture in sections.every_picture(context):
        (folder / picture.file).write_text(picture.svg, encoding="utf-8")
    for page, engine in _engines().items():
        text = engine.get_template(f"{page}.j2").render(context)
        (folder / page).write_text(text, encoding="utf-8")
    return folder / "index.html"


def _engines() -> dict[str, jinja2.Environment]:
    """Page -> its template engine, which escapes everything that is printed."""
    common: dict[str, Any] = {
        "loader": jinja2.PackageLoader("analysis"),
        "undefined": jinja2.StrictUndefined,
        "trim_blocks": True,
        "lstrip_blocks": True,
        "keep_trailing_newline": True,
    }
    page = jinja2.Environment(autoescape=True, **common)
    markdown = jinja2.Environment(autoescape=False, finalize=_markdown, **common)
    markdown.filters["code"] = lambda text: Markup(" ".join(str(text).split()))
    markdown.filters["made"] = Markup  # by a macro, whose values are escaped already
    return {"index.html": page, "report.md": markdown}


def _markdown(value: Any) -> Any:
    """Text that Markdown shows as it is; an indented code block (`code`) needs nothing."""
    if isinstance(value, Markup):
        return value
    line = " ".join(str(value).split())
    return re.sub(r"([|`*\\])", r"\\\1", html.escape(line, quote=False))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; prints the report's path and returns the exit status."""
    parser = cli.parser("analysis.report", __doc__)
    wishes.add_options(parser)
    asked = parser.parse_args(arguments)
    return cli.exit_status(lambda: print(write(asked.study, wishes.wishes(asked))))


if __name__ == "__main__":
    sys.exit(main())
