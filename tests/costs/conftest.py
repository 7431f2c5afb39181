from __future__ import annotations

from collections.abc import Callable

import pytest

LINES = pytest.StashKey[list[str]]()


@pytest.fixture
def show(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Prints a line at the end of the session of `make bench`."""
    return request.config.stash.setdefault(LINES, []).append


@pytest.fixture(scope="session")
def measuring(request: pytest.FixtureRequest) -> bool:
    """Whether `make bench` runs; else every body runs once, on small data."""
    return bool(request.config.getoption("benchmark_enable"))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    if lines := config.stash.get(LINES, []):
        terminalreporter.section("what modescope itself costs")
        terminalreporter.write_line("\n".join(lines))
