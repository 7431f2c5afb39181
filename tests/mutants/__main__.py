"""Plants faults in the harness, one at a time, and runs the tests that must fail: `make mutants`.

This tests the tests. Each fault is planted in its own copy of the repository, and the tests named
beside it must fail there; without a fault they pass.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.mutants.fault import Fault
from tests.mutants.faults import FAULTS
from tests.mutants.planting import copy_repository, plant, stale

AT_ONCE = 2
TIMEOUT_S = 120.0  # no named test hangs with its fault, so a timeout counts as survival
CONTROL_TIMEOUT_S = 600.0
TESTS_FAILED = 1  # pytest's exit status; others mean that the tests did not run


@dataclass(frozen=True)
class Answer:
    """How pytest ended."""

    status: int | None  # None: it did not end in time
    output: str

    @property
    def failed(self) -> str | None:
        """The first test that failed, without its parameters; None where none did."""
        found = re.search(r"^FAILED ([^\s\[]+)", self.output, re.MULTILINE)
        return found[1] if found and self.status == TESTS_FAILED else None


@dataclass(frozen=True)
class FaultOutcome:
    """The outcome of a fault."""

    killed: bool
    line: str


def run_tests(root: Path, tests: Iterable[str], timeout_s: float) -> Answer:
    """Runs `tests` in the copy at `root`, which is imported from before anything installed."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    path = os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path, "PYTEST_ADDOPTS": ""}
    try:
        ended = subprocess.run(
            command, cwd=root, env=environment, timeout=timeout_s, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Answer(None, "")
    return Answer(ended.returncode, ended.stdout)


def try_fault(fault: Fault, sources: Path) -> FaultOutcome:
    """Plants `fault` in a copy of `sources` and runs its tests."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="modescope-mutant-") as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(sources, copy)
        plant(fault, copy)
        answer = run_tests(copy, fault.tests, TIMEOUT_S)
    seconds = time.monotonic() - start
    line = f"{fault.what} ({fault.path}): {_told(answer)}, {seconds:.1f} s"
    return FaultOutcome(answer.failed is not None, line)


def _told(answer: Answer) -> str:
    if answer.failed:
        return f"killed by {answer.failed}"
    if answer.status is None:
        return f"TIMEOUT after {TIMEOUT_S:.0f} s"
    if answer.status == 0:
        return "SURVIVED"
    return f"NOT TESTED, pytest ended with status {answer.status}:\n{_last_lines(answer)}\n..."


def _last_lines(answer: Answer) -> str:
    return "\n".join(answer.output.splitlines()[-30:])


def control(faults: Sequence[Fault], sources: Path) -> str | None:
    """Why the faults cannot be tried: tests that fail without one, or that do not exist."""
    tests = dict.fromkeys(test for fault in faults for test in fault.tests)
    # A test of a file that is named as a whole would run twice.
    alone = [test for test in tests if "::" not in test or test.partition("::")[0] not in tests]
    answer = run_tests(sources, alone, CONTROL_TIMEOUT_S)
    if answer.status == 0:
        return None
    ended = "did not end" if answer.status is None else f"ended with status {answer.status}"
    return f"without a fault, pytest {ended}:\n{_last_lines(answer)}"


def chosen(arguments: Sequence[str] | None) -> Sequence[Fault]:
    """The faults that the command line selects."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--only", metavar="TEXT", default="", help="faults whose name contains it")
    only = parser.parse_args(arguments).only
    found = [fault for fault in FAULTS if only in fault.what]
    if not found:
        names = "\n  ".join(fault.what for fault in FAULTS)
        parser.error(f"no fault contains '{only}'; there are\n  {names}")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0 if every fault was killed."""
    faults = chosen(arguments)
    with tempfile.TemporaryDirectory(prefix="modescope-mutants-") as folder:
        sources = Path(folder)
        copy_repository(sources)
        wrong = [reason for fault in faults if (reason := stale(fault, sources))]
        if not wrong and (reason := control(faults, sources)):
            wrong = [reason]
        if wrong:
            print(*wrong, sep="\n", file=sys.stderr)
            return 1
        print("without a fault every test passes", flush=True)
        killed = 0
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for outcome in pool.map(partial(try_fault, sources=sources), faults):
                print(outcome.line, flush=True)
                killed += outcome.killed
    print(f"{killed} of {len(faults)} killed")
    return int(killed < len(faults))


if __name__ == "__main__":
    sys.exit(main())
