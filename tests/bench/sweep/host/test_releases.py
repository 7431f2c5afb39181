"""A warning is printed outside of the tested releases of torch only."""

from __future__ import annotations

import tomllib

import pytest

from modescope.bench.sweep.host import releases
from tests.helpers.paths import ROOT


@pytest.mark.parametrize(
    "version",
    ["2.11.0", "2.11.0+cpu", "2.13.0+cu130", "2.13.0a0+gitdeadbee", "2.15.0", "2.15.9.dev20261122"],
)
def test_a_tested_torch_has_no_warning(version: str) -> None:
    assert releases.warning(version) is None


@pytest.mark.parametrize(
    "version", ["2.10.1", "1.13.1", "2.16.0", "2.16.0a0+git1", "2.100.0", "3.11.0", "3", "?"]
)
def test_an_untested_torch_has_a_warning_of_one_line(version: str) -> None:
    line = releases.warning(version)
    assert line.startswith(
        f"warning: modescope has not been tested with torch {version} (tested: 2.11 to 2.15)"
    )
    assert "make test" in line
    assert "\n" not in line


def test_a_torch_without_a_version_is_untested() -> None:
    assert releases.warning(None) is not None


def test_torch_may_be_installed_from_the_oldest_tested_release_on() -> None:
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
