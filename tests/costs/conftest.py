from __future__ import annotations

from collections.abc import Callable

import pytest

Show = Callable[[str], None]

LINES = pytest.StashKey[list[str]]()


@pytest.fixture
def show(request: pytest.FixtureRequest) -> Show:
    """Prints a line at the end of the session, where it was asked to measure."""
    lines = request.config.stash.setdefault(LINES, [])
    return lines.append


@pytest.fixture(scope="session")
def measuring(request: pytest.FixtureRequest) -> bool:
    """Whether it was asked to measure; else every body runs once, on little."""
    return bool(request.config.getoption("benchmark_enable"))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    lines = config.stash.get(LINES, [])
    if lines and config.getoption("benchmark_enable"):
        terminalreporter.section("what modescope itself costs")
        for line in lines:
            terminalreporter.line(line)
