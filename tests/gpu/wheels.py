"""Packages for a machine without a network: `python -m tests.gpu.wheels FOLDER` downloads them.

There, `environment` installs what its Python lacks from such folders, beside the torch that is
there. Imports the standard library alone, because there is nothing else yet.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import re
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
import venv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.helpers.paths import ROOT

PLATFORMS = (
    *(f"manylinux_2_{glibc}_x86_64" for glibc in range(5, 40)),  # pip takes each as it is
    *(f"manylinux{year}_x86_64" for year in (1, 2010, 2014)),
)
WITHOUT_WHEEL = ("antlr4-python3-runtime==4.9.3",)
"""Pure Python that its registry has as a source archive alone; omegaconf 2.3 needs that version."""

LARGE_BYTES = 8 * 2**20
"""Larger wheels lie in a folder of their own, as machines with torch often have them."""

TESTS = ("pytest", "pytest-benchmark")
"""What the steps need of the extra `dev`."""

AT = ROOT / ".venv-gpu"


class Missing(Exception):
    """Packages are missing, and no folder of wheels has them."""


def requirements(optional: bool = True) -> list[str]:
    """What the steps import, by pyproject.toml, without torch, which the machine has.

    `optional`: also what says why a GPU was slowed down, without which that is unknown.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    of_tests = [each for each in extras["dev"] if name_of(each) in TESTS]
    wanted = [*project["dependencies"], *of_tests, *(extras["cuda"] if optional else ())]
    return [each for each in wanted if name_of(each) != "torch"]


def name_of(requirement: str) -> str:
    """The package's name in its normal form."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement.strip(), maxsplit=1)[0]).lower()


def absent(wanted: Sequence[str] | None = None, *before: Path) -> list[str]:
    """The requirements that this Python, with the folders `before` in front, does not meet."""
    chosen = requirements(optional=False) if wanted is None else wanted
    have = versions(*before)
    return [each for each in chosen if not is_met(each, have)]


def versions(*before: Path) -> dict[str, str]:
    """Package -> its version, as imports would find it."""
    found: dict[str, str] = {}
    for each in importlib.metadata.distributions(path=[*map(str, before), *sys.path]):
        found.setdefault(name_of(each.metadata["Name"]), each.version)
    return found


def is_met(requirement: str, have: Mapping[str, str]) -> bool:
    """Whether one of the packages is what a requirement asks for; its extras are not looked at."""
    from pip._vendor.packaging.requirements import Requirement  # packaging may be missing

    version = have.get(name_of(requirement))
    return version is not None and Requirement(requirement).specifier.contains(version, True)


def large(folder: Path) -> Path:
    """The folder of large wheels, beside that of the others."""
    return folder.with_name(f"{folder.name}-large")


def fetch(folder: Path, python: str) -> None:
    """Downloads the tested versions of everything; raises CalledProcessError where pip fails."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        pins = Path(scratch) / "constraints.txt"
        lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        pins.write_text("\n".join(each for each in lines if not each.startswith("torch==")))
        for source in WITHOUT_WHEEL:
            _pip("wheel", "-q", "--no-deps", "-w", str(folder), source)
        words = ("download", "-q", "-d", str(folder), "-c", str(pins), *_for(python))
        _pip(*words, "--find-links", str(folder), *requirements())
    large(folder).mkdir(exist_ok=True)
    for wheel in folder.glob("*.whl"):
        if wheel.stat().st_size > LARGE_BYTES:
            wheel.replace(large(folder) / wheel.name)


def _for(python: str) -> Iterator[str]:
    yield from ("--only-binary=:all:", "--implementation", "cp", "--python-version", python)
    for platform in PLATFORMS:
        yield from ("--platform", platform)


def _pip(*words: str, python: str = sys.executable) -> None:
    subprocess.run([python, "-m", "pip", "--disable-pip-version-check", *words], check=True)


def environment(folders: Sequence[Path], at: Path = AT) -> Path:
    """Returns the Python of an environment at `at`, which finds this Python's packages as well.

    What this Python lacks is installed from the folders, as far as they have it: called again with
    further folders, it installs the rest. Raises Missing if a folder holds no wheels, or if pip
    fails.
    """
    found: list[Path] = []
    for folder in folders:
        in_it = sorted(folder.glob("*.whl"))
        if not in_it:
            raise Missing(f"{folder} holds no wheels; python -m tests.gpu.wheels downloads them")
        found += in_it
    python, maker = at / "bin" / "python", at / "maker"
    purelib = Path(sysconfig.get_path("purelib", "venv", {"base": at, "platbase": at}))
    made_by = f"{sys.executable} {sys.version}"
    if not maker.is_file() or maker.read_text() != made_by:
        venv.create(at, symlinks=True, clear=True)  # without pip: that of this Python is found
        here = [each for each in sys.path if Path(each).name in ("site-packages", "dist-packages")]
        (purelib / "shared.pth").write_text("\n".join(dict.fromkeys(here)) + "\n")
        maker.write_text(made_by)
    unmet = {name_of(each) for each in absent(requirements(), purelib)}
    known = {*versions(purelib)} - unmet
    wheels = [str(each) for each in found if name_of(each.name.split("-")[0]) not in known]
    if wheels:
        words = ("install", "-q", "--no-index", "--no-deps", *wheels)
        try:
            _pip(*words, python=str(python))
        except subprocess.CalledProcessError as error:
            raise Missing("pip could not install these wheels (above)") from error
    return python


def main(words: Sequence[str] | None = None) -> int:
    """Returns 0 if all was downloaded, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.wheels", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / ".wheels")
    parser.add_argument("--python", default="3.12", help="version of that machine's Python")
    options = parser.parse_args(words)
    folder = options.folder.resolve()
    try:
        fetch(folder, options.python)
    except subprocess.CalledProcessError as error:
        print(f"error: pip failed with status {error.returncode} (above)", file=sys.stderr)
        return 1
    for each in (folder, large(folder)):
        sizes = [wheel.stat().st_size for wheel in each.glob("*.whl")]
        print(f"{each}: {len(sizes)} wheels, {sum(sizes) / 2**20:.1f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
