"""Finds steps in speedups over several studies: `python -m analysis.trend SET SET SET SET ...`.

The sets are studies in the order of their code. For each row the series of its times against eager
is split in two where the two levels differ most. Nothing fails: the exit status is 0 or, if nothing
can be compared, 2.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from modescope.analysis import cli, where
from modescope.analysis.changes import split, welch
from modescope.analysis.compare.command import margin_of
from modescope.analysis.compare.formats import words
from modescope.analysis.compare.rules import differences, sides
from modescope.analysis.figures.theme import on_paper, svg
from modescope.analysis.format import numbers
from modescope.analysis.format.paragraphs import beneath, paragraph
from modescope.analysis.load import located
from modescope.analysis.trend import figure, series
from modescope.analysis.trend.series import Step, Trend
from modescope.bench.records.errors import UsageError
from modescope.bench.records.paths import program


class _Parser(cli.Parser):
    """Reads the options of several studies."""

    def read(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        known, surplus = self.parse_known_args(arguments)
        self.check_surplus(known, surplus, known.sets)
        if len(known.sets) < split.SHORTEST:
            raise UsageError(
                f"expected {split.SHORTEST} studies or more, got {len(known.sets)}: a step needs "
                f"{split.LEAST} before and {split.LEAST} after it; compare two with "
                f"`{program('analysis.compare')} OLD NEW`"
            )
        return known


def _parser() -> _Parser:
    parser = _Parser(
        prog=program("analysis.trend"),
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("sets", metavar="SET", nargs="*", type=located, help="folder of a study")
    parser.add_argument(
        "--margin", metavar="P", default="1%",
        help="step that nobody minds (default: 1%%)",
    )  # fmt: skip
    parser.add_argument(
        "--allow", metavar="NAME", action="append", default=[],
        help=f"compare although this differs: {', '.join(differences.ALLOWED)}",
    )  # fmt: skip
    where.add_option(parser)
    parser.add_argument(
        "--svg", metavar="FILE", type=Path, help="write a figure of the series with a step"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""

    def body() -> None:
        options = _parser().read(arguments)
        allowed = differences.names_of(options.allow)
        folders = {f"SET {place}": folder for place, folder in enumerate(options.sets, start=1)}
        read = sides.read_all(folders, options.where, allowed)
        margin = margin_of("--margin", options.margin)
        found = series.trend(read, welch.log_margin(margin), allowed)
        print(text(found, [folder.name for folder in options.sets], margin))
        if options.svg is not None:
            _write(found, [folder.name for folder in options.sets], options.svg)

    return cli.exit_status(body)


def text(found: Trend, names: Sequence[str], margin: float) -> str:
    """The sentence, and a line per row with a step; `names`: those of the sets."""
    real = _by_size([step for step in found.steps if step.is_real])
    lines = paragraph(_sentence(found, real, len(names), margin))
    for step in real:
        lines += paragraph(
            f"{words.change(step.change)} since {names[step.since]}: {step.series.pair.name}, "
            f"{step.series.pair.work}"
        )
    for place in sorted({step.since for step in real}):
        differing = found.differences[place - 1]
        texts = [f"{one.column} {one.old} → {one.new}" for one in differing] or [words.SAME]
        lines += [f"what differs between {names[place - 1]} and {names[place]}"]
        lines += [line for each in texts for line in beneath(each)]
    return "\n".join(lines)


def _sentence(found: Trend, real: Sequence[Step], sets: int, margin: float) -> str:
    rows = numbers.counted(len(found.steps), "row", "rows")
    short = (
        f"; {numbers.counted(found.short, 'row was', 'rows were')} timed in fewer than "
        f"{split.SHORTEST} sets"
        if found.short
        else ""
    )
    if not real:
        beyond = numbers.percent(margin)
        return f"No step beyond {beyond} found in {rows} over {sets} sets{short}."
    kinds = Counter("slower" if step.change.value > 0 else "faster" for step in real)
    counts = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
    return f"Steps in {len(real)} of {rows} over {sets} sets: {counts}{short}."


def _by_size(steps: Sequence[Step]) -> list[Step]:
    return sorted(steps, key=lambda step: -abs(step.change.value))


def _write(found: Trend, names: Sequence[str], path: Path) -> None:
    """The series with steps; without any, those that come nearest to one."""
    ordered = sorted(found.steps, key=lambda step: (not step.is_real, -abs(step.change.value)))
    drawn = figure.draw(ordered[: figure.MOST], names)
    try:
        path.write_text(on_paper(svg(drawn, "trend")), encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"--svg {path} cannot be written ({error.strerror or error}); name a file in a folder "
            "of yours"
        ) from None
