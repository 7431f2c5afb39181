"""A browser's tab, as tests use it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

DESKTOPS, PHONE = (1300, 1400), 390  # widths in CSS pixels


@dataclass(frozen=True)
class Tab:
    """A tab of a browser that earlier tests may have used."""

    driver: Chrome

    def reset(self) -> None:
        """Undoes what tests change: light scheme, screen, desktop width, scripts, empty console."""
        self.look(scheme="light")
        self.resize(DESKTOPS[0])
        self.scripts(allowed=True)
        self.driver.get("about:blank")
        self.console()

    def open(self, page: Path) -> None:
        """Loads a file and waits until it is shown; Selenium's `get` may return before that."""
        self.driver.get(page.resolve().as_uri())
        is_there = "return document.URL === arguments[0] && document.readyState === 'complete'"
        WebDriverWait(self.driver, 30).until(lambda _: self.js(is_there, page.resolve().as_uri()))

    def resize(self, width: int) -> None:
        """Sets the width in CSS pixels; narrow widths emulate a phone."""
        size = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width <= PHONE}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def look(self, media: str = "screen", scheme: str = "light") -> None:
        """Sets the medium (screen or print) and the preferred colour scheme."""
        wanted = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"media": media, "features": wanted}
        )

    def scripts(self, allowed: bool) -> None:
        """Enables or disables scripts in pages that are loaded from now on."""
        self.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not allowed})

    def js(self, code: str, *arguments: Any) -> Any:
        """The value that `code` returns in the page."""
        return self.driver.execute_script(code, *arguments)

    def all(self, selector: str) -> list[WebElement]:
        """The elements that match a CSS selector."""
        return self.driver.find_elements("css selector", selector)

    def one(self, selector: str) -> WebElement:
        """The only element that matches a CSS selector; fails if there is not exactly one."""
        (found,) = self.all(selector)
        return found

    def shown(self, selector: str) -> list[WebElement]:
        """The visible elements that match a CSS selector."""
        found: list[WebElement] = self.js(
            "return [...document.querySelectorAll(arguments[0])]"
            ".filter((one) => one.checkVisibility() && one.getClientRects().length)",
            selector,
        )  # at once: asking each element takes a minute of a large page
        return found

    def console(self) -> list[str]:
        """The console's warnings and errors since the last call."""
        told = self.driver.get_log("browser")
        return [entry["message"] for entry in told if entry["level"] in ("WARNING", "SEVERE")]
