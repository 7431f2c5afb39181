"""The tables of results, for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from modescope.bench.text.tables import UNKNOWN, Section, seconds
from modescope.bench.tools.peers.decisions import CHANGES, Decision
from modescope.bench.tools.peers.figures import Alternation
from modescope.bench.tools.peers.harness import Criterion, Harness

DECISIONS_NOTE = (
    "Each trial compares two copies of one step, equal or one of them longer by a planted wait. "
    "False alarm: equal copies are called different. Detected: the longer copy is called slower; "
    "wrong: it is called faster. Wall time: median duration of a comparison. A rule with a limit "
    "of 1 % detects a planted +1 % in about half of the trials at best, as the change equals the "
    "limit. A verdict requires the whole 95 % interval beyond 1 %, so it detects +1 % in about 1 "
    "of 40 trials at most. Every comparison builds a new pair and, on a CPU, draws a new memory "
    "layout. modescope also changes both sides' layout per block (on a GPU only of the host's "
    "heap), so its interval includes that effect. The other harnesses keep one layout per side, "
    "pyperf's way one per process: a difference from layout alone counts here as a false alarm."
)


def sections(
    harnesses: Sequence[Harness], readings: Sequence[Alternation], compared: Sequence[Decision]
) -> list[Section]:
    """The tables for which something was measured."""
    return [
        *([figures(harnesses, readings)] if readings else []),
        *([decisions(harnesses, compared)] if compared else []),
    ]


def figures(harnesses: Sequence[Harness], readings: Sequence[Alternation]) -> Section:
    """A row per harness: medians of the alternations, and the range of their ratios."""
    count = 1 + max(figure.alternation for figure in readings)
    note = (
        f"Time per call: medians of {count} alternations of theirs and ours in random order. The "
        "ratio is the median over alternations, followed by its range."
    )
    headers = ("harness", "theirs", "our clock", "ours", "theirs ÷ ours", "range")
    rows = []
    for harness in harnesses:
        mine = [each for each in readings if each.harness == harness.name]
        if mine:
            rows.append([harness.name, *_readings(mine)])
    return Section("Readings", note, headers, rows)


def _readings(mine: Sequence[Alternation]) -> list[str]:
    ratios = [each.ratio for each in mine if each.ratio is not None]
    theirs = _median(each.theirs_s for each in mine)
    ours = _median(each.ours_s for each in mine)
    if not ratios:
        reason = next((each.reason for each in mine if each.reason), UNKNOWN)
        return [reason if theirs == UNKNOWN else theirs, mine[0].clock, ours, UNKNOWN, UNKNOWN]
    spread = f"{min(ratios):.3f} to {max(ratios):.3f}"
    return [theirs, mine[0].clock, ours, f"{median(ratios):.3f}", spread]


def decisions(harnesses: Sequence[Harness], compared: Sequence[Decision]) -> Section:
    """A row per load and rule: its false alarms, detections and wrong decisions."""
    planted = [f"+{100 * change:g} % detected" for change in CHANGES if change]
    headers = ("load", "harness", "false alarms", *planted, "wall time", "calls different if")
    rows = []
    for count in dict.fromkeys(each.co_runners for each in compared):
        load = f"{count} co-runners" if count else "quiet"
        for harness, criterion in _judged(harnesses):
            same = (count, harness.name, criterion.name)
            mine = [each for each in compared if (each.co_runners, each.harness, each.rule) == same]
            rows.append([load, harness.judging(criterion), *_counts(mine), criterion.words])
    return Section("Decisions", DECISIONS_NOTE, headers, rows)


def _judged(harnesses: Sequence[Harness]) -> list[tuple[Harness, Criterion]]:
    return [(harness, criterion) for harness in harnesses for criterion in harness.criteria]


def _counts(mine: Sequence[Decision]) -> list[str]:
    decided = [each for each in mine if each.decision is not None]
    if not decided:
        reason = next((each.reason for each in mine if each.reason), UNKNOWN)
        return [reason, *[UNKNOWN] * len(CHANGES)]
    cells = [_count([each for each in decided if each.change == change]) for change in CHANGES]
    return [*cells, _median(each.wall_s for each in decided)]


def _count(alike: Sequence[Decision]) -> str:
    if not alike:
        return UNKNOWN
    hits = sum(each.alarm or each.detected for each in alike)
    wrong = sum(each.wrong for each in alike)
    return f"{hits} of {len(alike)}" + (f", {wrong} wrong" if wrong else "")


def descriptions(harnesses: Sequence[Harness]) -> Section:
    """A row per harness and rule, in words."""
    headers = (
        "harness", "its figure", "why it differs from ours", "calls two steps different if",
        "source of the rule",
    )  # fmt: skip
    rows = [
        (each.judging(how), each.reports, each.differs, how.words, how.source)
        for each, how in _judged(harnesses)
    ]
    return Section("The harnesses", "", headers, rows)


def _median(durations: Iterable[float | None]) -> str:
    known = [each for each in durations if each is not None]
    return seconds(median(known)) if known else UNKNOWN
