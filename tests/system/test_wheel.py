"""A wheel installs only `modescope`, which measures from any folder.

Building it downloads setuptools.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.helpers.commands import TINY, rows
from tests.helpers.paths import ROOT

FOLDERS = ("bench", "models", "analysis", "conf")
NEEDED = (".py", ".yaml", ".j2", ".css", ".js")

COMMAND = """
import sys
from modescope.analysis.after_run import show
from modescope.bench.sweep.main import main
sys.exit(main(show))
"""

# A model of the user's, which records the imports of the case's process.
MODEL = """
import json, pathlib, sys
import modescope
from modescope.bench.records import paths

def build():
    places = {"package": modescope.__file__, "root": str(paths.ROOT), "path": sys.path}
    pathlib.Path("places.json").write_text(json.dumps(places))
    raise ValueError("noted")
"""


def pip(*arguments: str | Path) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True)


def names(root: Path) -> set[str]:
    """Files that modescope needs, as they are called in a wheel."""
    files = (file for folder in FOLDERS for file in (root / folder).rglob("*"))
    return {f"modescope/{file.relative_to(root)}" for file in files if file.suffix in NEEDED}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy: setuptools leaves build folders, and packs files left by an earlier build."""
    folder = tmp_path_factory.mktemp("copy") / "checkout"
    unused = shutil.ignore_patterns("__pycache__")
    for name in ("modescope", *FOLDERS):
        shutil.copytree(ROOT / name, folder / name, ignore=unused)
    for name in ("setup.py", "pyproject.toml", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-deps", "--wheel-dir", folder, checkout)
    (file,) = folder.glob("*.whl")
    return file


def test_a_wheel_has_all_of_modescope_and_nothing_else(wheel: Path) -> None:
    packed = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in packed}
    assert tops == {"modescope", f"{'-'.join(wheel.name.split('-')[:2])}.dist-info"}
    assert names(ROOT) - set(packed) == set()
    assert len(names(ROOT)) > 300


@pytest.mark.parametrize("kind", ["wheel", "editable"])
def test_an_installed_wheel_measures(
    kind: str, wheel: Path, checkout: Path, tmp_path: Path
) -> None:
    environment, folder = tmp_path / "environment", tmp_path / "theirs"
    venv.create(environment, symlinks=True)
    python = environment / "bin" / "python"
    what = [wheel] if kind == "wheel" else ["--editable", checkout]
    pip("--python", python, "install", "--no-deps", *what)
    where = {"base": str(environment), "platbase": str(environment)}
    packages = Path(sysconfig.get_path("purelib", vars=where))
    (packages / "torch.pth").write_text(sysconfig.get_path("purelib"))  # and all else
    (folder / "models").mkdir(parents=True)
    (folder / "models" / "net.py").write_text(MODEL)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.run(
            [python, "-c", COMMAND, *arguments],
            cwd=folder,
            env=variables,
            capture_output=True,
            text=True,
        )

    done = run("mode=no_grad", *TINY)
    assert (done.returncode, done.stderr) == (0, "")
    assert [row["status"] for row in rows(folder / "results")] == ["ok"]
    assert " no_grad  fp32 " in done.stdout

    refused = run("mode=no_grad", "model=custom", "model.target=models.net:build")
    assert (refused.returncode, "noted" in refused.stderr) == (2, True)
    places = json.loads((folder / "places.json").read_text())
    root = packages / "modescope" if kind == "wheel" else checkout
    package = root if kind == "wheel" else checkout / "modescope"
    assert places["package"] == str(package / "__init__.py")
    assert places["root"] == str(root)
    assert str(checkout) not in places["path"]
