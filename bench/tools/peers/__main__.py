"""Compares the readings of other harnesses on the same callable, and how often each is right.

Two tables: readings, alternating on one callable in one process, and decisions on pairs of steps
that are equal or differ by a planted 1 % or 2 %, with the same time budget for every harness and
its users' usual decision rule.
"""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Iterator, Sequence
from typing import TypeVar

import torch
from tqdm import tqdm

from modescope.bench.records.cores import usable_cores
from modescope.bench.text import tables as pages
from modescope.bench.tools import publish
from modescope.bench.tools.cli import INTERRUPTED, command
from modescope.bench.tools.peers import tables
from modescope.bench.tools.peers.arguments import PROGRAM, PeersOptions, parse
from modescope.bench.tools.peers.decisions import CHANGES, Decision, comparisons
from modescope.bench.tools.peers.figures import Alternation, alternations
from modescope.bench.tools.publish import RunContext
from modescope.bench.tools.testbed.sides import Recipe, ready, side

TITLE = "modescope and other harnesses"

Item = TypeVar("Item")


@command
def main(words: Sequence[str]) -> int:
    """Exit status: 0 done, 2 wrong arguments, 130 by Ctrl-C; partial results are saved."""
    options = parse(words, __doc__)
    context = publish.run_context(options.device, options.threads, PROGRAM, words)
    figures: list[Alternation] = []
    compared: list[Decision] = []
    print("\n".join(_heading(options, context)))
    status = 0
    try:
        _measure(options, figures, compared)
    except KeyboardInterrupt:
        print(f"stopped after {len(figures)} readings and {len(compared)} comparisons: all saved")
        status = INTERRUPTED
    if figures or compared:
        _show(options, context, figures, compared)
    return status


def _heading(options: PeersOptions, context: RunContext) -> list[str]:
    return publish.heading(context, str(options.chosen))


def _measure(options: PeersOptions, figures: list[Alternation], compared: list[Decision]) -> None:
    """Fills the two lists, so that an interruption leaves partial results."""
    shuffle = random.Random(options.seed)
    torch.manual_seed(options.seed)
    device = ready(options.device)
    recipe = Recipe(options.workload, options.device, options.threads)
    gc.collect()
    gc.freeze()  # excludes imported objects from the collection before each reading (0.2 s)
    harnesses = options.harnesses
    if options.alternations:
        same = side(recipe, device)
        readings = alternations(harnesses, same, options.alternations, shuffle, options.reading_s)
        for figure in _with_bar(readings, "readings", options.alternations * len(harnesses)):
            figures.append(figure)
    if options.trials:
        loads = (0, usable_cores()) if options.busy else (0,)
        each = sum(len(harness.criteria) for harness in harnesses)
        total = options.trials * len(CHANGES) * len(loads) * each
        every = comparisons(
            harnesses, recipe, device, options.trials, options.budget_s, loads, shuffle
        )
        for comparison in _with_bar(every, "decisions", total):
            compared.append(comparison)


def _with_bar(items: Iterator[Item], what: str, total: int) -> Iterator[Item]:
    """`items` with a progress bar on a terminal."""
    return iter(tqdm(items, what, total, disable=None, leave=False))


def _show(
    options: PeersOptions,
    context: RunContext,
    figures: Sequence[Alternation],
    compared: Sequence[Decision],
) -> None:
    """Writes the files, then prints: nothing is lost if the terminal closes."""
    measured = tables.sections(options.harnesses, figures, compared)
    described = tables.descriptions(options.harnesses)
    text = pages.page(TITLE, _heading(options, context), [*measured, described])
    kinds = {Alternation: figures, Decision: compared}
    page, rows = publish.publish(options.folder, context, text, kinds, options.chosen)
    for each in measured:
        print(f"\n{pages.for_terminal(each)}")
    print(f"\npage  {page}\nrows  {rows}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
