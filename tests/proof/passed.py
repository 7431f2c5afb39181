"""A plugin of pytest that continues an interrupted run: `-p tests.proof.passed --passed=FILE`.

Each test's outcome is a line of the file as soon as it is known. Tests that passed before are not
run again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


def read(file: Path) -> set[str]:
    """The tests whose last outcome is passed."""
    if not file.is_file():
        return set()
    outcomes = (json.loads(line) for line in file.read_text(encoding="utf-8").splitlines())
    last = {each["test"]: each["outcome"] for each in outcomes}
    return {test for test, outcome in last.items() if outcome == "passed"}


class Continued:
    """Deselects what has passed, and notes outcomes."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.before = read(file)

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Leaves the tests that have not passed yet."""
        again = [item for item in items if item.nodeid in self.before]
        if again:
            config.hook.pytest_deselected(items=again)
            items[:] = [item for item in items if item.nodeid not in self.before]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notes a test that failed in any phase, was skipped, or passed."""
        if report.when == "call" or report.outcome != "passed":
            line = json.dumps({"test": report.nodeid, "outcome": report.outcome})
            with self.file.open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")

    def pytest_sessionfinish(self, session: Any, exitstatus: int) -> None:
        """Nothing left to run is success."""
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self.before:
            session.exitstatus = pytest.ExitCode.OK


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds --passed."""
    parser.addoption("--passed", type=Path, required=True, help="file of the outcomes")


def pytest_configure(config: pytest.Config) -> None:
    """Registers the plugin with its file."""
    config.pluginmanager.register(Continued(config.getoption("--passed")))
