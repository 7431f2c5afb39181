"""The command lines of `analysis.compare` and `analysis.trend`. Imports no pandas."""

from __future__ import annotations

import argparse
from pathlib import Path

from modescope.analysis import cli, where
from modescope.analysis.compare import exact
from modescope.analysis.folders import located

REFUSED = {
    "host": ("host", "cpu_name", "cpu_model", "cpu_cores", "cpu_quota_cores"),
    "device": ("device_name",),
    "driver_version": ("driver_version",),
    "power_limit": ("power_limit_w",),
    "harness": ("schema_version", "source_id"),
    "budget": ("budget", "budget_settings"),
    "variables": ("variables",),
    "versus_side": ("versus_side",),
}
"""Names that --allow takes, and their columns: results that differ in one are not comparable."""

UNREADABLE = "unreadable_files"
"""The name that --allow takes to leave out unreadable files, which are refused otherwise."""

ALLOWED = (*REFUSED, UNREADABLE)

PASSED, FAILED, NOT_COMPARED, UNDECIDED = 0, 1, 2, 3
"""Exit statuses of a comparison."""

EXACT, SPEEDUP, LATENCY = "exact", "speedup", "latency"

GATES = (EXACT, SPEEDUP, LATENCY, *exact.ON_REQUEST)
"""What --gate takes."""

FILES = {
    "markdown": ("markdown", "Markdown, short enough for a comment on GitHub"),
    "json": ("document", "every row, as docs/compare.schema.json describes"),
    "junit": ("junit", "JUnit XML, a test case per row; undecided rows are skipped"),
}
"""The options that take a file: the function of `exporters` that makes its text, and its
description."""


def compare(doc: str | None) -> cli.Parser:
    """Returns the parser of `analysis.compare`."""
    parser = cli.Parser("analysis.compare", doc)
    for name, place in (("old", "earlier"), ("new", "later")):
        parser.add_argument(
            name, metavar=name.upper(), type=located, help=f"folder or address of the {place} study"
        )
    parser.add_argument(
        "--gate", metavar="NAMES", action="extend", type=cli.names(GATES),
        help=f"what fails, of {', '.join(GATES)} (default: exact; with speedup,latency if "
        "versus measured both sides in turns)",
    )  # fmt: skip
    for name, default, what in (
        ("--margin", "1%", "time against eager"),
        ("--latency-margin", "2%", "latency"),
    ):
        parser.add_argument(
            name, metavar="P", type=cli.percentage, default=default,
            help=f"change of {what} that nobody minds (default: {default}%)",
        )  # fmt: skip
    parser.add_argument("--strict", action="store_true", help="status 3 if timings are undecided")
    parser.add_argument(
        "--bisect", action="store_true", help="for git bisect run: status 125 in place of 2 and 3"
    )
    _add_allow(parser)
    where.add_option(parser)
    for name, (_, what) in FILES.items():
        parser.add_argument(f"--{name}", metavar="FILE", type=Path, help=f"write {what}")
    parser.add_argument(
        "--github", action="store_true", help="annotations, and the summary of the step"
    )
    return parser


def trend(doc: str | None) -> cli.Parser:
    """Returns the parser of `analysis.trend`."""
    parser = cli.Parser("analysis.trend", doc)
    parser.add_argument("sets", metavar="SET", nargs="*", type=located, help="folder of a study")
    parser.add_argument(
        "--margin", metavar="P", type=cli.percentage, default="1%",
        help="step that nobody minds (default: 1%%)",
    )  # fmt: skip
    _add_allow(parser)
    where.add_option(parser)
    return parser


def _add_allow(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--allow", metavar="NAMES", action="extend", type=cli.names(ALLOWED), default=[],
        help=f"compare although these differ: {', '.join(ALLOWED)}",
    )  # fmt: skip
