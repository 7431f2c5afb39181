"""`modescope watch script.py ...`: runs a program unchanged, and says what torch compiled in it."""

from __future__ import annotations

import argparse
import re
import runpy
import shlex
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from modescope.bench.watching.watch import STOPS

EXIT_USAGE = 2

INTERPRETER = re.compile(r"python[\d.]*")


def main(words: Sequence[str] | None = None) -> int:
    """Runs the program; returns its exit status, or 2 if there is no such program."""
    parser = argparse.ArgumentParser(prog="modescope watch", description=__doc__)
    parser.add_argument("--study", default="main", help="the record goes to results/STUDY/watch/")
    parser.add_argument("--stop-on", choices=STOPS, help="raise where torch compiles again")
    parser.add_argument("-m", dest="is_module", action="store_true", help="run a module, as python")
    parser.add_argument(
        "program",
        nargs=argparse.REMAINDER,
        help="a script, or with -m the name of a module, and its arguments",
    )
    asked = parser.parse_args(words)
    if not asked.program:
        print("error: no program: modescope watch script.py ...", file=sys.stderr)
        return EXIT_USAGE
    program, *arguments = asked.program
    folder = Path.cwd() if asked.is_module else Path(program).resolve().parent
    sys.path.insert(0, str(folder))
    if not (_is_module(program) if asked.is_module else Path(program).is_file()):
        why = f"no such {'module' if asked.is_module else 'file'}"
        if INTERPRETER.fullmatch(program):
            why = f"leave it out: {shlex.join(['modescope', 'watch', *arguments])}"
        print(f"error: {program}: {why}", file=sys.stderr)
        return EXIT_USAGE
    from modescope.bench.api.watching import watch

    sys.argv = [program, *arguments]
    with watch(asked.study, stop_on=asked.stop_on, program=program):
        if asked.is_module:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(program, run_name="__main__")
    return 0


def _is_module(name: str) -> bool:
    """Whether there is a module, or the package of one: those within are found when it runs."""
    package = name.partition(".")[0]
    return bool(package) and find_spec(package) is not None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
