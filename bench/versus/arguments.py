"""Takes the words of a versus apart: two sides, options of the comparison, settings of cases."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from modescope.analysis.compare import command as comparing
from modescope.bench.command_line import is_override
from modescope.bench.records.errors import UsageError
from modescope.bench.records.paths import program
from modescope.bench.versus.schedule import SIDES

PROGRAM = program("bench.versus")

HELP = ("-h", "--help")

MULTIRUN = ("-m", "--multirun")

_SIDE = re.compile(rf"({'|'.join(SIDES)})=(.*)", flags=re.DOTALL)
_STUDY = re.compile(r"\+*study=(.*)")
_USUAL_STUDY = "main"


@dataclass(frozen=True)
class Arguments:
    """A command line of versus."""

    states: dict[str, str]  # by side, as typed
    options: tuple[str, ...]  # of analysis.compare
    settings: tuple[str, ...]  # of run.py, without the study
    study: str  # the results of a side go to <study>-<side>


def parse(words: Sequence[str]) -> Arguments:
    """The command line taken apart; UsageError for a side that is missing, or given twice."""
    place = words.index("--") if "--" in words else len(words)
    ours, settings = words[:place], words[place + 1 :]
    free = comparing.surplus(ours)  # no options of the comparison
    sides = [match for word in free if (match := _SIDE.fullmatch(word))]
    named = [match[0] for match in sides]
    options = tuple(word for word in ours if word not in named)
    _check_places([word for word in free if word not in named], settings)
    states = {
        side: _only(side, [match[2] for match in sides if match[1] == side]) for side in SIDES
    }
    studies = [match[1] for word in settings if (match := _STUDY.fullmatch(word))]
    if len(studies) > 1:
        raise UsageError(f"study= is given {len(studies)} times; give it once")
    return Arguments(
        states,
        options,
        tuple(word for word in settings if not _STUDY.fullmatch(word)),
        studies[0] if studies else _USUAL_STUDY,
    )


def _check_places(surplus: Sequence[str], settings: Sequence[str]) -> None:
    """UsageError for a setting before `--`, or a side after it.

    `surplus`: words before `--` that are no side and belong to no option. One with `==` is a part
    of an expression that the shell split, which the comparison explains.
    """
    for word in surplus:
        is_setting = is_override(word) and "==" not in word
        if is_setting or word in MULTIRUN:
            raise UsageError(
                f"{word} stands before --, where the two sides and options of the comparison are; "
                f"settings follow it: {PROGRAM} old=... new=... -- {word}"
            )
    for word in settings:
        if _SIDE.fullmatch(word):
            raise UsageError(
                f"{word} stands after --, where settings of the cases are; put it before"
            )


def _only(side: str, given: Sequence[str]) -> str:
    if len(given) > 1:
        raise UsageError(f"{side}= is given {len(given)} times; give each side once")
    if not given or not given[0]:
        raise UsageError(
            f"{side}= {'names nothing' if given else 'is missing'}; name two interpreters, "
            f"revisions or folders: {PROGRAM} old=git:main new=git:HEAD -- -m mode=eager,compile"
        )
    return given[0]
