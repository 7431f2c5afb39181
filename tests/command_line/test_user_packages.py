"""A user's own packages named models, bench, analysis and conf work, and replace none of ours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.commands import TINY, rows
from tests.helpers.paths import ROOT

pytestmark = pytest.mark.full

SAYS_WHERE = "def build():\n    raise ValueError(__file__)\n"

NAMES = ("bench", "models", "analysis", "conf", "tests")


def run(
    folder: Path, results: Path, *arguments: str, path: Path | None = None, checkout: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """`python run.py` in `folder`, with `path` on PYTHONPATH."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if path:
        variables["PYTHONPATH"] = str(path)
    command = [sys.executable, str(checkout / "run.py"), f"results_dir={results}"]
    return subprocess.run(
        [*command, *arguments], cwd=folder, env=variables, capture_output=True, text=True
    )


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A folder of the user's with `models/net.py`."""
    (tmp_path / "theirs" / "models").mkdir(parents=True)
    (tmp_path / "theirs" / "models" / "net.py").write_text(SAYS_WHERE)
    return tmp_path / "theirs"


@pytest.mark.parametrize(
    ("place", "is_namespace"),
    [
        ("on the path", True),
        ("current folder", False),
        ("checkout", True),
    ],
)
def test_a_users_package_named_models_is_found(
    theirs: Path, tmp_path: Path, place: str, is_namespace: bool
) -> None:
    if not is_namespace:
        (theirs / "models" / "__init__.py").touch()
    folder = {"on the path": tmp_path, "current folder": theirs, "checkout": ROOT}[place]
    done = run(
        folder,
        tmp_path / "results",
        "model=custom",
        "model.target=models.net:build",
        path=None if place == "current folder" else theirs,
    )
    assert done.returncode == 2
    assert str(theirs / "models" / "net.py") in done.stderr


def test_a_users_package_is_found_through_a_linked_checkout(theirs: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(ROOT)
    asked = ("model=custom", "model.target=models.net:build")
    done = run(tmp_path, tmp_path / "results", *asked, path=theirs, checkout=link)
    assert str(theirs / "models" / "net.py") in done.stderr


def test_a_users_packages_do_not_replace_ours(tmp_path: Path) -> None:
    for name in NAMES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"raise SystemExit('planted {name}')")
    (tmp_path / "run.py").write_text("raise SystemExit('planted run')")
    done = run(tmp_path, tmp_path / "results", *TINY, "-m", "mode=no_grad", path=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert [row["status"] for row in rows(tmp_path / "results")] == ["ok"]


def test_importing_modescope_defines_no_other_top_level_module(tmp_path: Path) -> None:
    """The package is imported by its path alone, as when it is installed."""
    (tmp_path / "modescope").symlink_to(ROOT / "modescope")
    code = (
        "import sys, modescope.bench.records.cases, modescope.analysis.table\n"
        "names = {'bench', 'models', 'analysis', 'conf', 'run'} & set(sys.modules)\n"
        "sys.exit(bool(names))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
