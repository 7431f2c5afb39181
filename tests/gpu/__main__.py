"""Shows on a GPU what has to be shown there: `python -m tests.gpu`, or make gpu.

Steps run in order of weight, each within a time limit and all within a budget. Started again, it
goes on where it stopped. Everything is written to one folder, with a page, proof.md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from tests.gpu import pretending, proof, wheels
from tests.gpu.log import Busy, Log, Machine, locked
from tests.gpu.steps import RESERVE_S, STEPS, Step, named
from tests.helpers.paths import REFERENCE, ROOT

BUDGET_S = 660.0
MACHINE_LIMIT_S = 120.0
PRETENDED_FOLDER = ROOT / "results" / "pretended-gpu"
PRETENDED_RESERVE_S = 40.0  # a CPU that others use takes longer for the page


class Mistake(Exception):
    """What is asked for cannot be done. The message is one line."""


class Parser(argparse.ArgumentParser):
    """Reports wrong arguments in one line."""

    def error(self, message: str) -> NoReturn:
        """Raises Mistake."""
        raise Mistake(message)


def parser() -> Parser:
    """The options."""
    made = Parser(prog="python -m tests.gpu", description=__doc__, allow_abbrev=False)
    add = made.add_argument
    add("--budget-s", type=_seconds, default=BUDGET_S, help="seconds for all calls together")
    add("--call-s", type=_seconds, help="seconds for this call; without it, as the budget")
    add("--folder", type=Path, help="where to; results/reference/<gpu> if not given")
    add("--out", type=Path, help="a folder that also gets it as one archive, after each step")
    add("--wheels", help="folders of wheels, separated by ':', to install what is missing")
    add("--prepare", action="store_true", help="install from --wheels, and run nothing")
    add("--only", help="names of steps, separated by commas")
    add("--again", action="store_true", help="run steps again that did not pass")
    add("--pretend", action="store_true", help="a pretended GPU, in small: shows that steps run")
    add("--dry-run", action="store_true", help="print what each step takes by kept rows")
    return made


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text} is no number of seconds")
    return value


def main(words: Sequence[str] | None = None) -> int:
    """Returns 0 if all steps that ran passed, 1 if one did not, 2 for a mistake, 130 if stopped."""
    given = list(sys.argv[1:] if words is None else words)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return _run(parser().parse_args(given), given)
    except Mistake as mistake:
        print(f"error: {mistake}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped")
        return 130


def _run(options: argparse.Namespace, given: Sequence[str]) -> int:
    if options.wheels:
        _enter_environment(options.wheels, given)
    if missing := wheels.absent():
        raise Mistake(f"missing here: {', '.join(missing)}; --wheels FOLDER installs them")
    if options.prepare:
        print("every package is there")
        return 0
    if options.dry_run:
        from tests.gpu import expected

        expected.main(options.budget_s, options.call_s or expected.CALL_S)
        return 0
    steps = _steps(options)
    machine = read_machine(options.pretend)
    folder = (options.folder or default_folder(machine)).resolve()
    for each in filter(None, (folder, options.out)):  # before anything has run
        try:
            each.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Mistake(f"{each}: {error.strerror}") from None
    try:
        with locked(folder):
            return _drive(options, steps, machine, folder)
    except Busy:
        raise Mistake(f"{folder}: another run uses it") from None


def _enter_environment(paths: str, given: Sequence[str]) -> None:
    """Starts this command anew in an environment with the packages; returns if it runs there."""
    if Path(sys.prefix).resolve() == wheels.AT.resolve():
        return
    try:
        python = wheels.environment([Path(each) for each in paths.split(":") if each])
    except wheels.Missing as missing:
        raise Mistake(f"--wheels {paths}: {missing}") from None
    os.execv(python, [str(python), "-m", "tests.gpu", *given])


def _steps(options: argparse.Namespace) -> Sequence[Step]:
    from tests.gpu import expected  # which needs pyarrow

    try:
        chosen = named(tuple(options.only.split(","))) if options.only else STEPS
    except KeyError as unknown:
        names = ", ".join(step.name for step in STEPS)
        raise Mistake(f"--only {unknown.args[0]}: no such step; there are {names}") from None
    return expected.with_expected(chosen, expected.kept_seconds())


def read_machine(pretended: bool) -> Machine:
    """Asks torch, in another process, which GPU there is. Raises Mistake if there is none."""
    around = os.environ | (pretending.variables() if pretended else {})
    command = [sys.executable, "-m", "tests.gpu.machine"]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=around, capture_output=True, text=True, timeout=MACHINE_LIMIT_S
        )
    except subprocess.TimeoutExpired:
        raise Mistake(f"torch finds no GPU within {MACHINE_LIMIT_S:g} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["torch could not be asked for a GPU"]
        raise Mistake(f"{lines[-1].removeprefix('error: ')}; --pretend runs the steps without one")
    return Machine(**json.loads(done.stdout.splitlines()[-1]))


def default_folder(machine: Machine) -> Path:
    """The folder of a GPU: results/reference/nvidia-h200."""
    if machine.pretended:
        return PRETENDED_FOLDER
    return REFERENCE / re.sub(r"[^a-z0-9]+", "-", machine.gpu.lower()).strip("-")


def _drive(
    options: argparse.Namespace, steps: Sequence[Step], machine: Machine, folder: Path
) -> int:
    from tests.gpu.driving import BAD, Drive, Setting

    log = Log(folder)
    if log.machine is None:
        log.begin(machine)
    elif log.machine != machine:
        raise Mistake(f"{folder} holds steps of another machine: {log.machine}; name --folder")
    if options.again:
        log.lines = [
            replace(line, verdict="stopped") if line.verdict in BAD else line for line in log.lines
        ]
    if machine.pretended:
        print(pretending.NOTE)
    call_s = min(options.call_s or options.budget_s, options.budget_s)
    reserve_s = PRETENDED_RESERVE_S if machine.pretended else RESERVE_S
    setting = Setting(folder, options.budget_s, call_s, machine.pretended, options.out, reserve_s)
    status = Drive(steps, setting, log).run()
    print(f"{proof.summary(steps, log)}\npage {folder / proof.PAGE}")
    return status


if __name__ == "__main__":
    sys.exit(main())
