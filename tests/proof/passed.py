"""A plugin of pytest that continues an interrupted run: `-p tests.proof.passed --passed=FILE`.

Each test's outcome is a line of the file as soon as it is known. Tests that passed before are not
run again on the same machine.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.proof.passed_tests import MACHINE, last, note


class Continued:
    """Deselects what has passed, and notes outcomes."""

    def __init__(self, file: Path) -> None:
        self.file = file
        known = last(file, os.environ.get(MACHINE, ""))
        self.before = {test for test, outcome in known.items() if outcome == "passed"}

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
            note(self.file, report.nodeid, report.outcome)

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
