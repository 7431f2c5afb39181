"""What was found, in words: tables for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from bench.pages import UNKNOWN, Section, seconds
from bench.peers.decisions import CHANGES, Comparison
from bench.peers.figures import Figure
from bench.peers.harness import Criterion, Harness

DECISIONS_NOTE = (
    "Two copies of one step, equal or one of them longer by a planted wait. Seen: the longer one "
    "called slower; wrong: called faster. Wall: median of all that a comparison took. A limit of "
    "1 % sees a planted +1 % in about half of the trials at best: the truth lies on the limit. "
    "A verdict, which wants its whole 95 % interval beyond 1 %, sees it in about 1 of 40 at most. "
    "Every comparison gets a pair built anew and, on a CPU, placed in memory anew. modescope moves "
    "both sides again for each block (on a GPU the host's heap alone), so luck of placement is "
    "noise that its interval holds. The others keep one placement per side throughout, pyperf's "
    "way one per process: a difference that comes from placement alone is real to them for as "
    "long as it lasts, and counts here as equal, called different."
)


def sections(
    harnesses: Sequence[Harness], readings: Sequence[Figure], compared: Sequence[Comparison]
) -> list[Section]:
    """Those for which something was measured."""
    return [
        *([figures(harnesses, readings)] if readings else []),
        *([decisions(harnesses, compared)] if compared else []),
    ]


def figures(harnesses: Sequence[Harness], readings: Sequence[Figure]) -> Section:
    """A row per harness: medians of the alternations, and the range of their ratios."""
    count = 1 + max(figure.alternation for figure in readings)
    note = (
        f"Time per call: medians of {count} alternations of theirs and ours in random order; the "
        "ratio is the median of the ratios within them, then their range."
    )
    headers = ("harness", "theirs", "our clock", "ours", "theirs ÷ ours", "range")
    rows = []
    for harness in harnesses:
        mine = [each for each in readings if each.harness == harness.name]
        if mine:
            rows.append([harness.name, *_readings(mine)])
    return Section("What each says", note, headers, rows)


def _readings(mine: Sequence[Figure]) -> list[str]:
    ratios = [each.ratio for each in mine if each.ratio is not None]
    theirs = _median(each.theirs_s for each in mine)
    ours = _median(each.ours_s for each in mine)
    if not ratios:
        reason = next((each.reason for each in mine if each.reason), UNKNOWN)
        return [reason if theirs == UNKNOWN else theirs, mine[0].clock, ours, UNKNOWN, UNKNOWN]
    spread = f"{min(ratios):.3f} to {max(ratios):.3f}"
    return [theirs, mine[0].clock, ours, f"{median(ratios):.3f}", spread]


def decisions(harnesses: Sequence[Harness], compared: Sequence[Comparison]) -> Section:
    """A row per load and rule: how often it was wrong, how often it saw what was planted."""
    planted = [f"+{100 * change:g} % seen" for change in CHANGES if change]
    headers = ("load", "harness", "equal, called different", *planted, "wall", "different if")
    rows = []
    for count in dict.fromkeys(each.co_runners for each in compared):
        load = f"{count} co-runners" if count else "quiet"
        for harness, criterion in _judged(harnesses):
            same = (count, harness.name, criterion.name)
            mine = [each for each in compared if (each.co_runners, each.harness, each.rule) == same]
            rows.append([load, harness.judging(criterion), *_counts(mine), criterion.words])
    return Section("What each decides", DECISIONS_NOTE, headers, rows)


def _judged(harnesses: Sequence[Harness]) -> list[tuple[Harness, Criterion]]:
    return [(harness, criterion) for harness in harnesses for criterion in harness.criteria]


def _counts(mine: Sequence[Comparison]) -> list[str]:
    decided = [each for each in mine if each.decision is not None]
    if not decided:
        reason = next((each.reason for each in mine if each.reason), UNKNOWN)
        return [reason, *[UNKNOWN] * len(CHANGES)]
    cells = [_count([each for each in decided if each.change == change]) for change in CHANGES]
    return [*cells, _median(each.wall_s for each in decided)]


def _count(alike: Sequence[Comparison]) -> str:
    if not alike:
        return UNKNOWN
    hits = sum(each.alarm or each.seen for each in alike)
    wrong = sum(each.wrong for each in alike)
    return f"{hits} of {len(alike)}" + (f", {wrong} wrong" if wrong else "")


def descriptions(harnesses: Sequence[Harness]) -> Section:
    """A row per harness and rule, in words."""
    headers = (
        "harness", "its figure", "why it differs from ours", "calls two steps different if",
        "source of this rule",
    )  # fmt: skip
    rows = [
        (each.judging(how), each.reports, each.differs, how.words, how.source)
        for each, how in _judged(harnesses)
    ]
    return Section("The harnesses", "", headers, rows)


def _median(durations: Iterable[float | None]) -> str:
    known = [each for each in durations if each is not None]
    return seconds(median(known)) if known else UNKNOWN
