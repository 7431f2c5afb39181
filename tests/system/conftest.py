from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from selenium.webdriver import Chrome, ChromeOptions, ChromeService

from tests.helpers.browser_tab import Tab
from tests.helpers.system_packages import chromium


@pytest.fixture(scope="session")
def browser() -> Iterator[Chrome]:
    """One Chromium for all tests, without a window."""
    found = chromium()
    if isinstance(found, str):
        pytest.skip(found)
    options = ChromeOptions()
    options.binary_location = found.browser
    options.add_argument("--headless=new")
    options.add_argument("--disable-dev-shm-usage")  # /dev/shm is small in containers
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")  # root cannot use the sandbox
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options=options, service=ChromeService(found.driver))
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
