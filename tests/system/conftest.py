from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from selenium.webdriver import Chrome, ChromeOptions, ChromeService

from tests.helpers import slurm as slurms
from tests.helpers import system_packages
from tests.helpers.browser_tab import Tab
from tests.helpers.slurm import Slurm


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests on a Slurm are those that use its fixture."""
    for item in items:
        if "slurm" in getattr(item, "fixturenames", ()):
            item.add_marker("cluster")


@pytest.fixture(scope="session")
def browser() -> Iterator[Chrome]:
    """One Chromium for all tests, without a window."""
    if reason := system_packages.missing(
        ("chromium", "chromedriver"), "chromium", "chromium-driver"
    ):
        pytest.skip(reason)
    options = ChromeOptions()
    options.binary_location = shutil.which("chromium")
    options.add_argument("--headless=new")
    options.add_argument("--disable-dev-shm-usage")  # /dev/shm is small in containers
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")  # root cannot use the sandbox
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options=options, service=ChromeService(shutil.which("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture
def tab(browser: Chrome) -> Iterator[Tab]:
    """A tab as on a desktop; its console must be empty at the end."""
    opened = Tab(browser)
    opened.reset()
    yield opened
    assert opened.console() == []


@pytest.fixture(scope="session")
def _slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    if reason := slurms.missing():
        pytest.skip(reason)
    made = slurms.made(tmp_path_factory.mktemp("slurm"))
    try:
        made.start()
        yield made
    finally:
        made.end()


@pytest.fixture
def slurm(_slurm: Slurm, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slurm]:
    """Two idle nodes, n1 with two GPUs; one Slurm for all tests."""
    for name, value in _slurm.variables.items():
        monkeypatch.setenv(name, value)
    yield _slurm
    _slurm.clear()
