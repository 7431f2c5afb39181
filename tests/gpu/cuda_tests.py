"""Runs one file of tests/cuda: `python -m tests.gpu.cuda_tests FILE FOLDER`.

Outcomes are written as they come. Started again, it leaves out tests that have one, so that a file
that ran out of time goes on. An error of CUDA ends all later tests of its process: they fail too.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.running import EXIT_SKIPPED

KEPT = ("passed", "skipped")
"""Outcomes of tests that are not repeated."""


class Outcomes:
    """A plugin of pytest that writes the outcome of each test, and leaves out earlier ones."""

    def __init__(self, file: Path) -> None:
        self.file = file
        lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
        self.of_test = {each["test"]: each["outcome"] for each in map(json.loads, lines)}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Leaves out tests that passed or were skipped before."""
        items[:] = [item for item in items if self.of_test.get(item.nodeid) not in KEPT]

    def pytest_runtest_logreport(self, report: Any) -> None:
        """A test has the outcome of its call, or of a set-up or tear-down that did not pass."""
        if report.when != "call" and report.outcome == "passed":
            return
        self.of_test[report.nodeid] = report.outcome
        line = {"test": report.nodeid, "outcome": report.outcome, "seconds": report.duration}
        with self.file.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(line)}\n")

    def counts(self) -> Counter[str]:
        """How many tests had each outcome, in all calls together."""
        return Counter(self.of_test.values())


def main(path: str, folder: Path) -> int:
    """Returns 0 if all tests passed, 77 if all were skipped, 1 if one failed, else pytest's."""
    outcomes = Outcomes(folder / "tests" / f"{Path(path).stem}.jsonl")
    outcomes.file.parent.mkdir(parents=True, exist_ok=True)
    words = ["-q", "-rfE", "--tb=short", "-p", "no:cacheprovider", "-m", "cuda and not full", path]
    status = int(pytest.main(words, plugins=[outcomes]))
    counts = outcomes.counts()
    failed = [test for test, outcome in outcomes.of_test.items() if outcome == "failed"]
    print(", ".join(f"{n} {what}" for what, n in sorted(counts.items())) or "no test", end="")
    print(f": {', '.join(failed)}" if failed else "")
    if status == pytest.ExitCode.NO_TESTS_COLLECTED:
        status = 0
    if status == 0 and set(counts) == {"skipped"}:
        return EXIT_SKIPPED
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
