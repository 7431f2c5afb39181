"""Outside of the tested releases of torch a user is warned; within them nobody is."""

from __future__ import annotations

import tomllib
from dataclasses import replace

import pytest

from bench import publishing, releases
from tests.bench.test_publishing import AROUND
from tests.commands import ROOT


@pytest.mark.parametrize(
    "version",
    ["2.11.0", "2.11.0+cpu", "2.13.0+cu130", "2.13.0a0+gitdeadbee", "2.15.0", "2.15.9.dev20261122"],
)
def test_what_was_tested_needs_no_warning(version: str) -> None:
    assert releases.warning(version) is None


@pytest.mark.parametrize(
    "version", ["2.10.1", "1.13.1", "2.16.0", "2.16.0a0+git1", "2.100.0", "3.11.0", "3", "?"]
)
def test_what_was_not_tested_is_said_in_one_line(version: str) -> None:
    line = releases.warning(version)
    assert line.startswith(
        f"warning: modescope has not been tested with torch {version} (tested: 2.11 to 2.15)"
    )
    assert "make test" in line
    assert "\n" not in line


def test_a_torch_without_a_version_is_not_tested() -> None:
    assert releases.warning(None) is not None


def test_pages_of_the_tools_warn_below_the_version() -> None:
    lines = publishing.heading(replace(AROUND, torch_version="2.16.0"))
    assert "torch 2.16.0" in lines[0]
    assert lines[1] == releases.warning("2.16.0")


def test_what_may_be_installed_begins_where_the_tests_do_and_has_no_end() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (torch,) = [each for each in project["dependencies"] if each.startswith("torch")]
    assert torch == f"torch>={'.'.join(map(str, releases.OLDEST))}"


def test_the_pinned_torch_is_among_the_tested() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    (pin,) = [line.removeprefix("torch==") for line in lines if line.startswith("torch==")]
    assert releases.warning(pin) is None


def test_the_readme_names_the_tested_releases() -> None:
    oldest, newest = (".".join(map(str, each)) for each in (releases.OLDEST, releases.NEWEST))
    assert f"{oldest} to {newest} are tested" in (ROOT / "README.md").read_text(encoding="utf-8")
