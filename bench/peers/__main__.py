"""What do other harnesses say of the same callable, and how often is each of them right?

Two tables: figures, from alternating readings of one callable in one process, and decisions on
pairs of steps that are equal or differ by a planted 1 % or 2 %, every harness at the same time
budget and by the rule of its users.
"""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Iterator, Sequence
from typing import TypeVar

import torch
from tqdm import tqdm

from bench import pages, publishing
from bench.arguments import INTERRUPTED, command
from bench.cores import usable_cores
from bench.peers import tables
from bench.peers.arguments import PROGRAM, Asked, parse
from bench.peers.decisions import CHANGES, Comparison, comparisons
from bench.peers.figures import Figure, alternations
from bench.publishing import Surroundings
from bench.testbed.sides import Recipe, ready, side

TITLE = "modescope beside other harnesses"

Item = TypeVar("Item")


@command
def main(words: Sequence[str]) -> int:
    """Exit status: 0 done, 2 wrong arguments, 130 stopped by Ctrl-C; what is done is kept."""
    asked = parse(words, __doc__)
    around = publishing.surroundings(asked.device, asked.threads, PROGRAM, words)
    figures: list[Figure] = []
    compared: list[Comparison] = []
    print("\n".join(_heading(asked, around)))
    status = 0
    try:
        _measure(asked, figures, compared)
    except KeyboardInterrupt:
        print(f"stopped after {len(figures)} readings and {len(compared)} comparisons: all kept")
        status = INTERRUPTED
    if figures or compared:
        _show(asked, around, figures, compared)
    return status


def _heading(asked: Asked, around: Surroundings) -> list[str]:
    return publishing.heading(around, str(asked.chosen))


def _measure(asked: Asked, figures: list[Figure], compared: list[Comparison]) -> None:
    """Fills the two lists, so that an interruption leaves what is done."""
    shuffle = random.Random(asked.seed)
    torch.manual_seed(asked.seed)
    device = ready(asked.device)
    recipe = Recipe(asked.workload, asked.device, asked.threads)
    gc.collect()
    gc.freeze()  # what was imported: each reading collects garbage first, which took 0.2 s
    harnesses = asked.harnesses
    if asked.alternations:
        same = side(recipe, device)
        readings = alternations(harnesses, same, asked.alternations, shuffle, asked.reading_s)
        for figure in _watched(readings, "figures", asked.alternations * len(harnesses)):
            figures.append(figure)
    if asked.trials:
        loads = (0, usable_cores()) if asked.busy else (0,)
        each = sum(len(harness.criteria) for harness in harnesses)
        total = asked.trials * len(CHANGES) * len(loads) * each
        every = comparisons(harnesses, recipe, device, asked.trials, asked.budget_s, loads, shuffle)
        for comparison in _watched(every, "decisions", total):
            compared.append(comparison)


def _watched(items: Iterator[Item], what: str, total: int) -> Iterator[Item]:
    """A bar while they come; none where nobody looks."""
    return iter(tqdm(items, what, total, disable=None, leave=False))


def _show(
    asked: Asked, around: Surroundings, figures: Sequence[Figure], compared: Sequence[Comparison]
) -> None:
    """Writes first: a terminal that goes away takes nothing with it."""
    measured = tables.sections(asked.harnesses, figures, compared)
    described = tables.descriptions(asked.harnesses)
    text = pages.page(TITLE, _heading(asked, around), [*measured, described])
    kinds = {Figure: figures, Comparison: compared}
    page, rows = publishing.publish(asked.folder, around, text, kinds, asked.chosen)
    for each in measured:
        print(f"\n{pages.told(each)}")
    print(f"\npage  {page}\nrows  {rows}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
