"""sdist and wheel: only `modescope` is installed, beside a torch that is there, and works anywhere.

Building them downloads setuptools; installing them downloads nothing.
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
from dataclasses import dataclass
from email.parser import HeaderParser
from importlib.util import find_spec
from pathlib import Path

import pytest

import modescope
from tests.helpers.commands import QUICKLY, TINY, rows
from tests.helpers.paths import ROOT

pytestmark = pytest.mark.skipif(
    not (find_spec("build") and find_spec("twine")), reason="needs the extra system"
)

FOLDERS = ("bench", "models", "analysis", "conf")
FILES = ("setup.py", "pyproject.toml", "LICENSE", "README.md", "CHANGELOG.md", "MANIFEST.in")
NEEDED = (".py", ".yaml", ".j2", ".css", ".js")

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

SCRIPT = """
import torch
import models.net, bench.mine
import modescope

x = torch.rand(256)
result = modescope.measure(lambda: x + x, lambda: x.sin().cos(), seconds=0.1)
print(result.verdict, bench.mine.NAME, models.net.__file__, torch.__file__)
"""


@dataclass(frozen=True)
class Installed:
    """An environment with modescope, and a user's folder where its commands are typed."""

    programs: Path
    packages: Path
    folder: Path

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        program, *arguments = command
        variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.run(
            [self.programs / program, *arguments], cwd=self.folder, env=variables,
            capture_output=True, text=True,
        )  # fmt: skip


def called(*arguments: str | Path) -> str:
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def needed(root: Path) -> set[str]:
    """Files that modescope needs, as they are called in a wheel."""
    files = (file for folder in FOLDERS for file in (root / folder).rglob("*"))
    ours = {f"modescope/{file.relative_to(root)}" for file in files if file.suffix in NEEDED}
    return {*ours, *(f"modescope/{file.name}" for file in (root / "modescope").glob("*.py"))}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of both; the wheel is made from the sdist, so that this has all it needs.

    From a copy: setuptools leaves build folders, and packs files left by an earlier build.
    """
    checkout, folder = tmp_path_factory.mktemp("copy") / "checkout", tmp_path_factory.mktemp("dist")
    for name in ("modescope", *FOLDERS):
        shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, checkout)
    called("build", "--outdir", folder, checkout)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (file,) = built.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Into an environment that has torch and all else, but no modescope.

    It finds the packages of the test's environment by links.
    """
    base = tmp_path_factory.mktemp("wheel")
    environment, shared, folder = base / "environment", base / "shared", base / "theirs"
    venv.create(environment, symlinks=True)
    where = {"base": str(environment), "platbase": str(environment)}
    packages = Path(sysconfig.get_path("purelib", vars=where))
    shared.mkdir()
    for path in map(Path, filter(None, sys.path)):
        for each in path.iterdir() if path.name == "site-packages" else ():
            link = shared / each.name
            if not ("modescope" in each.name or each.suffix == ".pth" or link.is_symlink()):
                link.symlink_to(each)
    (packages / "torch.pth").write_text(str(shared))
    python = environment / "bin" / "python"
    called("pip", "--python", python, "-q", "install", "--no-index", wheel)
    theirs = {"models/net.py": MODEL, "bench/mine.py": "NAME = 'theirs'\n", "script.py": SCRIPT}
    for name, text in theirs.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return Installed(environment / "bin", packages, folder)


def test_a_wheel_has_all_of_modescope_and_nothing_else(built: Path, wheel: Path) -> None:
    packed = zipfile.ZipFile(wheel)
    name = "-".join(wheel.name.split("-")[:2])
    files = set(packed.namelist())
    assert {file.partition("/")[0] for file in files} == {"modescope", f"{name}.dist-info"}
    assert needed(ROOT) - files == set()
    assert len(needed(ROOT)) > 200
    assert {"modescope/py.typed", f"{name}.dist-info/licenses/LICENSE"} <= files
    metadata = HeaderParser().parsestr(packed.read(f"{name}.dist-info/METADATA").decode())
    assert metadata["Version"] == modescope.__version__
    (torch,) = (each for each in metadata.get_all("Requires-Dist") if each.startswith("torch>"))
    assert "<" not in torch  # a newer one stays
    dists = sorted(map(str, built.iterdir()))
    assert called("twine", "check", "--strict", *dists).count("PASSED") == len(dists) == 2


def test_an_installed_modescope_measures_and_reports(installed: Installed) -> None:
    ours = {path.name for path in installed.packages.iterdir() if path.name.isidentifier()}
    assert ours - {"modescope", "pip", "__pycache__"} == set()
    done = installed.run("modescope", "run", "mode=compile", "budget=smoke")
    assert done.returncode == 0, done.stderr
    assert "next     modescope run experiment=modes\n" in done.stdout
    (row,) = rows(installed.folder / "results")
    assert (row["status"], row["mode"]) == ("ok", "compile")
    assert row["command"] == "modescope run mode=compile budget=smoke"
    done = installed.run("modescope", "report")
    assert (done.returncode, done.stderr) == (0, "")
    assert (installed.folder / "results/main/report/index.html").is_file()
    swept = installed.run("modescope", "run", "-m", "mode=eager,no_grad", "study=two", *TINY)
    assert swept.returncode == 0, swept.stderr
    assert [row["status"] for row in rows(installed.folder / "results", "two")] == ["ok"] * 2


def test_a_users_packages_called_as_ours_are_not_hidden(installed: Installed) -> None:
    done = installed.run("python", "script.py")
    assert (done.returncode, done.stderr) == (0, "")
    verdict, name, place, torch = done.stdout.split()
    assert (verdict, name) == ("slower", "theirs")
    assert place == str(installed.folder / "models" / "net.py")
    assert Path(torch).resolve() == Path(find_spec("torch").origin).resolve()

    asked = ["model=custom", "model.target=models.net:build", *QUICKLY]
    refused = installed.run("modescope", "run", "mode=no_grad", *asked)
    assert (refused.returncode, "noted" in refused.stderr) == (2, True)
    places = json.loads((installed.folder / "places.json").read_text())
    root = installed.packages / "modescope"
    assert (places["package"], places["root"]) == (str(root / "__init__.py"), str(root))
    assert "checkout" not in {Path(each).name for each in places["path"]}
