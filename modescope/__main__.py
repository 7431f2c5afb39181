"""The command line: `modescope run mode=compile`, `modescope table`, and so on.

In a checkout `python run.py` and `python -m analysis.table` are the same programs. Results are in
the current folder, under results/.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from pkgutil import resolve_name

import modescope

HELP = ("--help", "-h", "help")
VERSION = "--version"

EXIT_USAGE = 2

LEAST_LIKENESS = 0.65
"""How like a command a word must be to be suggested: 0.6 would answer `list` with `claims`."""


@dataclass(frozen=True)
class Command:
    """A command of `modescope`. Its function gets the arguments and returns the exit status."""

    function: str  # module:function, imported when it is called
    summary: str  # for --help


COMMANDS = {
    "run": Command(
        "modescope.bench.run:main", "measure a case, or with -m a sweep (run -m experiment=modes)"
    ),
    "table": Command("modescope.analysis.table:main", "print a study and which mode to use"),
    "report": Command("modescope.analysis.report.__main__:main", "write a study's report"),
    "why": Command("modescope.analysis.why:main", "say why each mode is faster or not"),
    "diff": Command("modescope.analysis.compare.__main__:main", "compare two studies"),
    "versus": Command(
        "modescope.bench.versus.__main__:main", "measure two states in turns, and compare them"
    ),
    "trend": Command("modescope.analysis.trend:main", "find steps over several studies"),
    "compact": Command(
        "modescope.analysis.compact:main", "join the files of many runs, to read them fast"
    ),
    "restat": Command(
        "modescope.analysis.restat:main", "compute the summaries of a study's rows anew"
    ),
    "options": Command(
        "modescope.bench.options:main", "try options of torch.compile one at a time on a model"
    ),
    "stale": Command(
        "modescope.bench.stale:main", "change one thing after a compiler's cache was filled"
    ),
    "watch": Command(
        "modescope.bench.watch:main", "run a program, and say what torch compiled in it"
    ),
    "claims": Command("modescope.bench.claims:main", "test statements about PyTorch here"),
    "selfcheck": Command("modescope.bench.selfcheck:main", "check how accurate modescope is here"),
    "instructions": Command(
        "modescope.bench.instructions:main", "count a call's instructions (needs valgrind)"
    ),
}


MOVED = {
    "compare": "modescope diff compares studies; modes are compared with modescope run "
    "experiment=modes, or modescope.compare in Python",
}
"""Maps a word that is no command to what is typed instead."""


def main(words: Sequence[str] | None = None) -> int:
    """Runs the command that the first word names; returns the exit status."""
    name, *rest = (sys.argv[1:] if words is None else words) or HELP[:1]
    _leave_checkout()
    if name in HELP and rest[:1] and rest[0] in COMMANDS:
        name, rest = rest[0], list(HELP[:1])
    if name in HELP:
        print(usage())
        return 0
    if name == VERSION:
        print(f"modescope {modescope.__version__}")
        return 0
    if name not in COMMANDS:
        print(f"error: {name}: {_told(name, rest)}", file=sys.stderr)
        return EXIT_USAGE
    rest = list(HELP[:1]) if rest == ["help"] else rest
    status: int = resolve_name(COMMANDS[name].function)(rest)
    return status


def _told(name: str, rest: Sequence[str]) -> str:
    """Returns what to type instead of `name`, which is no command, and `rest`."""
    key, _, value = name.lstrip("-").partition("=")
    settings = resolve_name("modescope.bench.command_line:VALUES")
    if name == "-m":
        return f"comes after a command: {shlex.join(['modescope', 'run', name, *rest])}"
    key = key.replace("-", "_")
    if (name.startswith("-") or value) and key.partition(".")[0] in settings:
        following = rest[0] if rest and not re.search("^-|=", rest[0]) else "VALUE"
        typed = f"{key}={value or following}"
        return f"settings come after a command: modescope run {shlex.quote(typed)}"
    meant = get_close_matches(name, COMMANDS, n=1, cutoff=LEAST_LIKENESS)
    hint = f", did you mean {meant[0]}?" if meant else ";"
    return MOVED.get(name, f"no such command{hint} modescope --help lists them")


def usage() -> str:
    """Returns the text of --help."""
    width = max(map(len, COMMANDS))
    listed = [f"  {name:{width}}  {command.summary}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            "usage: modescope COMMAND ...",
            "",
            *listed,
            "",
            "modescope COMMAND --help lists its options; modescope --version prints the version.",
        ]
    )


def _leave_checkout() -> None:
    """Takes a checkout off the import path, where `python -m modescope` in that folder puts it.

    The checkout would hide the user's own packages called models, bench, analysis or conf.
    """
    if sys.path[0] == str(Path(modescope.__file__).resolve().parents[1]):
        del sys.path[0]


if __name__ == "__main__":
    sys.exit(main())
