"""`modescope watch script.py ...`: runs a program unchanged, and says what torch compiled in it."""

from __future__ import annotations

import argparse
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from modescope.bench.watching.watch import STOPS

EXIT_USAGE = 2


def main(words: Sequence[str] | None = None) -> int:
    """Runs the program; returns its exit status, or 2 if there is no such program."""
    parser = argparse.ArgumentParser(prog="modescope watch", description=__doc__)
    parser.add_argument("--study", default="main", help="the record goes to results/STUDY/watch/")
    parser.add_argument("--stop-on", choices=STOPS, help="raise where torch compiles again")
    parser.add_argument("-m", dest="is_module", action="store_true", help="run a module, as python")
    parser.add_argument("program", help="a script, or with -m the name of a module")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="of the program")
    asked = parser.parse_args(words)
    if not asked.is_module and not Path(asked.program).is_file():
        print(f"error: {asked.program}: no such file", file=sys.stderr)
        return EXIT_USAGE
    from modescope.bench.api.watching import watch

    with watch(asked.study, stop_on=asked.stop_on, program=asked.program):
        _run(asked.program, asked.arguments, asked.is_module)
    return 0


def _run(program: str, arguments: list[str], is_module: bool) -> None:
    """Runs a program as Python would: with its arguments, and its folder on the import path."""
    sys.argv = [program, *arguments]
    if is_module:
        sys.path.insert(0, str(Path.cwd()))
        runpy.run_module(program, run_name="__main__", alter_sys=True)
        return
    sys.path.insert(0, str(Path(program).resolve().parent))
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
