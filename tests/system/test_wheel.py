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
import tarfile
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

# Ten lines. A class of the script that uses the user's packages, where the case's process also has
# to find them.
COMPARES = """
import torch
import bench.mine
import models.layers
import modescope

class Net(models.layers.Layer):
    def forward(self, x):
        return super().forward(x) * len(bench.mine.NAME)

print(modescope.compare(Net(), torch.rand(4, 8), modes=["eager", "no_grad"], budget="smoke"))
"""

LAYER = """
from torch import nn

class Layer(nn.Module):
    def forward(self, x):
        return x + 1
"""


@dataclass(frozen=True)
class Installed:
    """An environment with modescope, and a user's folder where its commands are typed."""

    programs: Path
    packages: Path
    folder: Path
    root: Path  # of our sources

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        program, *arguments = command
        variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.run(
            [self.programs / program, *arguments],
            cwd=self.folder,
            env=variables,
            capture_output=True,
            text=True,
        )


def called(*arguments: str | Path) -> str:
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def names(root: Path) -> set[str]:
    """Files that modescope needs, as they are called in a wheel."""
    files = (file for folder in FOLDERS for file in (root / folder).rglob("*"))
    ours = {f"modescope/{file.relative_to(root)}" for file in files if file.suffix in NEEDED}
    return {*ours, *(f"modescope/{file.name}" for file in (root / "modescope").glob("*.py"))}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy: setuptools leaves build folders, and packs files left by an earlier build."""
    folder = tmp_path_factory.mktemp("copy") / "checkout"
    unused = shutil.ignore_patterns("__pycache__")
    for name in ("modescope", *FOLDERS):
        shutil.copytree(ROOT / name, folder / name, ignore=unused)
    for name in FILES:
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture(scope="module")
def built(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of both; the wheel is made from the sdist, so that this has all it needs."""
    folder = tmp_path_factory.mktemp("dist")
    called("build", "--outdir", folder, checkout)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (file,) = built.glob("*.whl")
    return file


@pytest.fixture(scope="module", params=["wheel", pytest.param("editable", marks=pytest.mark.full)])
def installed(
    request: pytest.FixtureRequest,
    wheel: Path,
    checkout: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Installed:
    """Into an environment that has torch and all else, but no modescope.

    It finds the packages of the test's environment by links.
    """
    base = tmp_path_factory.mktemp(request.param)
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
    what = [wheel] if request.param == "wheel" else ["--no-build-isolation", "-e", checkout]
    python = environment / "bin" / "python"
    called("pip", "--python", python, "-q", "install", "--no-index", *what)
    for package, text in (
        ("models/net.py", MODEL),
        ("models/layers.py", LAYER),
        ("bench/mine.py", "NAME = 'theirs'\n"),
        ("script.py", SCRIPT),
        ("compares.py", COMPARES),
    ):
        (folder / package).parent.mkdir(parents=True, exist_ok=True)
        (folder / package).write_text(text)
    root = packages / "modescope" if request.param == "wheel" else checkout
    return Installed(environment / "bin", packages, folder, root)


def test_a_wheel_has_all_of_modescope_and_nothing_else(wheel: Path) -> None:
    packed = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in packed}
    assert tops == {"modescope", f"{'-'.join(wheel.name.split('-')[:2])}.dist-info"}
    assert names(ROOT) - set(packed) == set()
    assert "modescope/py.typed" in packed
    assert len(names(ROOT)) > 300


def test_the_metadata_are_complete(built: Path, wheel: Path) -> None:
    files = sorted(map(str, built.iterdir()))
    assert called("twine", "check", "--strict", *files).count("PASSED") == len(files) == 2
    with zipfile.ZipFile(wheel) as packed:
        (name,) = (name for name in packed.namelist() if name.endswith("/METADATA"))
        metadata = HeaderParser().parsestr(packed.read(name).decode())
    assert metadata["Version"] == modescope.__version__
    assert (metadata["License-Expression"], metadata["License-File"]) == ("MIT", "LICENSE")
    assert "Typing :: Typed" in metadata.get_all("Classifier")
    (torch,) = (each for each in metadata.get_all("Requires-Dist") if each.startswith("torch>"))
    assert "<" not in torch  # a newer one stays


def test_the_sdist_has_the_texts(built: Path) -> None:
    (file,) = built.glob("*.tar.gz")
    with tarfile.open(file) as packed:
        inside = {name.partition("/")[2] for name in packed.getnames()}
    assert {"LICENSE", "README.md", "CHANGELOG.md"} <= inside


def test_nothing_but_modescope_is_installed(installed: Installed) -> None:
    """Beside pip, and what maps the package of an editable installation."""
    ours = {path.name for path in installed.packages.iterdir()} - {
        "torch.pth",
        "pip",
        "__pycache__",
    }
    assert {name for name in ours if name.isidentifier() and name != "modescope"} == set()
    assert (installed.programs / "modescope").is_file()


def test_an_installed_modescope_measures_and_reports(installed: Installed) -> None:
    done = installed.run("modescope", "run", "mode=compile", "budget=smoke")
    assert done.returncode == 0, done.stderr
    assert f"next     modescope report {installed.folder / 'results' / 'main'}\n" in done.stdout
    (row,) = rows(installed.folder / "results")
    assert (row["status"], row["mode"]) == ("ok", "compile")
    assert row["command"] == "modescope run mode=compile budget=smoke"
    done = installed.run("modescope", "report")
    assert (done.returncode, done.stderr) == (0, "")
    assert (installed.folder / "results/main/report/index.html").is_file()
    done = installed.run("modescope", "table", "results/main")
    assert " compile" in done.stdout
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
    inside = installed.root / ("" if installed.root.name == "modescope" else "modescope")
    assert places["package"] == str(inside / "__init__.py")
    assert places["root"] == str(installed.root)
    assert "checkout" not in {Path(each).name for each in places["path"]}


def test_a_script_compares_modes_of_a_class_that_it_defines(installed: Installed) -> None:
    done = installed.run("python", "compares.py")
    assert done.returncode == 0, done.stderr
    (study,) = (installed.folder / "results").glob("Net-*")
    assert f"study: results/{study.name}" in done.stdout
    found = rows(installed.folder / "results", study.name)
    assert {(row["model"], row["status"]) for row in found} == {("Net", "ok")}
    assert {row["mode"] for row in found} == {"eager", "no_grad"}
    assert all(row["command"].startswith("modescope run model=custom") for row in found)


def test_a_mistake_is_one_line_that_names_the_command(installed: Installed) -> None:
    for words in (["run", "mode"], ["runn"], ["table", "--nonsense"]):
        done = installed.run("modescope", *words)
        assert (done.returncode, done.stdout) == (2, "")
        (line,) = done.stderr.splitlines()
        assert line.startswith("error: ")
        assert "python" not in line


def test_the_shell_completes_commands_and_settings(installed: Installed) -> None:
    script = installed.run("modescope", "run", "-sc", "install=bash").stdout
    assert script.rstrip().endswith("-F hydra_bash_completion modescope")
    script += '\nhydra_bash_completion; echo "${COMPREPLY[@]}"'
    path = f"{installed.programs}:{os.environ['PATH']}"
    for line, expected in (
        ("modescope rep", "report"),
        ("modescope run mode=inf", "mode=inference_mode"),
    ):
        place = str(len(line.split()) - 1)
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=installed.folder,
            env=os.environ | {"PATH": path, "COMP_LINE": line, "COMP_CWORD": place},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.split() == [expected]
