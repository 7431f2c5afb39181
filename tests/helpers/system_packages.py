"""System packages that tests need: found, or installed where allowed."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

INSTALL_LIMIT_S = 600
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@dataclass(frozen=True)
class Chromium:
    """A browser and the program that drives it, of the same version."""

    browser: str
    driver: str


def chromium() -> Chromium | str:
    """Chromium, installed if necessary; or the reason for none."""
    found = _look()
    if found is None and (failure := install("chromium", "chromium-driver")):
        return f"needs chromium and chromedriver, and {failure}"
    return found or _look() or "chromium was installed and still is not there"


def _look() -> Chromium | None:
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    driver = shutil.which("chromedriver")
    return Chromium(browser, driver) if browser and driver else None


def install(*packages: str) -> str | None:
    """Why the packages cannot be installed; None once they are."""
    apt = shutil.which("apt-get")
    if apt is None:
        return "there is no apt-get to install them with"
    if os.geteuid() != 0:
        return f"only root may install them: apt-get install {' '.join(packages)}"
    if not any(Path("/var/lib/apt/lists").glob("*_Packages*")) and (failure := _run(apt, "update")):
        return failure
    return _run(apt, "install", "--yes", "--no-install-recommends", *packages)


def _run(*command: str) -> str | None:
    """The last line of the error; None without one."""
    quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            command, env=quiet, capture_output=True, text=True, timeout=INSTALL_LIMIT_S
        )
    except subprocess.TimeoutExpired:
        return f"{' '.join(command)} took more than {INSTALL_LIMIT_S} s"
    lines = (done.stderr or done.stdout).strip().splitlines()
    return (
        f"{' '.join(command)}: {lines[-1] if lines else done.returncode}"
        if done.returncode
        else None
    )
