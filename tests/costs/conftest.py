from __future__ import annotations

import pytest

from tests.helpers.commands import Show

LINES = pytest.StashKey[list[str]]()


@pytest.fixture
def show(request: pytest.FixtureRequest) -> Show:
    """Prints a line at the end of the session of `make bench`."""
    lines = request.config.stash.setdefault(LINES, [])
    return lines.append


@pytest.fixture(scope="session")
def measuring(request: pytest.FixtureRequest) -> bool:
    """Whether `make bench` runs; else every body runs once, on small data."""
    return bool(request.config.getoption("benchmark_enable"))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    lines = config.stash.get(LINES, [])
    if lines and config.getoption("benchmark_enable"):
        terminalreporter.section("what modescope itself costs")
        for line in lines:
            terminalreporter.line(line)
