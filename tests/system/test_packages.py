"""Installing packages that tests need: allowed or not, with a reason."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers import slurm, system_packages

Bin = Callable[[str, str], None]


@pytest.fixture
def put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bin:
    """Puts a program on a PATH that has nothing else."""
    monkeypatch.setenv("PATH", str(tmp_path))

    def put_(name: str, script: str) -> None:
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    return put_


def test_packages_that_exist_are_not_installed_again(put: Bin, tmp_path: Path) -> None:
    put("google-chrome", "exit 1")
    put("chromedriver", "exit 1")
    put("apt-get", "exit 1")
    expected = system_packages.Chromium(f"{tmp_path}/google-chrome", f"{tmp_path}/chromedriver")
    assert system_packages.chromium() == expected


def test_a_missing_apt_get_is_the_reason(put: Bin) -> None:
    assert "there is no apt-get" in str(system_packages.chromium())


def test_only_root_installs(put: Bin, monkeypatch: pytest.MonkeyPatch) -> None:
    put("apt-get", "exit 1")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "only root may install them: apt-get install chromium" in str(system_packages.chromium())


def test_the_last_line_of_apt_get_is_the_reason(put: Bin, monkeypatch: pytest.MonkeyPatch) -> None:
    put("apt-get", "echo one >&2; echo 'E: Unable to locate package' >&2; exit 100")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert str(system_packages.chromium()).endswith("E: Unable to locate package")


def test_an_installed_browser_is_used(
    put: Bin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    place = "for name in chromium chromedriver; do /bin/cp $0 ${0%/*}/$name; done"
    put("apt-get", place)
    found = system_packages.chromium()
    assert found == system_packages.Chromium(f"{tmp_path}/chromium", f"{tmp_path}/chromedriver")


def test_only_root_starts_a_slurm(put: Bin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert str(slurm.missing()).startswith("only root can start the daemons of Slurm")


def test_a_slurm_that_cannot_be_installed_is_the_reason(
    put: Bin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "needs Slurm and munge, and there is no apt-get" in str(slurm.missing())
    put("apt-get", "exit 0")
    assert slurm.missing() == "Slurm was installed and still is not there"


def test_a_slurm_that_is_there_is_not_installed_again(
    put: Bin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    put("apt-get", "exit 1")
    for name in slurm.PROGRAMS:
        put(name, "exit 1")
    assert slurm.missing() is None
