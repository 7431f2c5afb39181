"""Packages for a GPU machine without a network: `python -m tests.proof.wheels FOLDER`.

Downloads wheels of everything that the steps import, except torch, and lets pip check that they
fit together. On that machine `environment` makes an environment of them beside the torch that is
there. It imports the standard library alone, because there is nothing else yet.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path

from modescope.bench.records.errors import UsageError
from tests.helpers.paths import ROOT

PYTHON = "3.12"
"""The Python of common images with a CUDA build of torch."""

PLATFORMS = (
    *(f"manylinux_2_{glibc}_x86_64" for glibc in range(5, 40)),  # pip takes each as it is
    *(f"manylinux{year}_x86_64" for year in (1, 2010, 2014)),
)

WITHOUT_WHEEL = ("antlr4-python3-runtime==4.9.3",)
"""Pure Python that its registry has as a source archive alone; omegaconf 2.3 needs that version."""

LARGE_BYTES = 8 * 2**20
"""Larger wheels lie in a folder of their own: images often have those packages already."""

TESTS = ("pytest", "pytest-benchmark")
"""What the steps need of the extra `dev`."""


def requirements() -> list[str]:
    """What the steps import, by pyproject.toml, without torch, which the machine has."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    of_tests = [each for each in extras["dev"] if name_of(each) in TESTS]
    wanted = [*project["dependencies"], *extras["cuda"], *of_tests]
    return [each for each in wanted if name_of(each) != "torch"]


def name_of(requirement: str) -> str:
    """The package's name in its normal form."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement.strip(), maxsplit=1)[0]).lower()


def large(folder: Path) -> Path:
    """The folder of large wheels, beside that of the others."""
    return folder.with_name(f"{folder.name}-large")


def fetch(folder: Path) -> None:
    """Downloads the tested versions of everything; raises CalledProcessError where pip fails."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        pins = Path(scratch) / "constraints.txt"
        lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        pins.write_text("\n".join(each for each in lines if not each.startswith("torch==")))
        for source in WITHOUT_WHEEL:
            _pip("wheel", "-q", "--no-deps", "-w", str(folder), source)
        words = ("download", "-q", "-d", str(folder), "-c", str(pins), *_for_that_machine())
        _pip(*words, *_found_in(folder), *requirements())
    large(folder).mkdir(exist_ok=True)
    for wheel in folder.glob("*.whl"):
        if wheel.stat().st_size > LARGE_BYTES:
            wheel.replace(large(folder) / wheel.name)


def check(folder: Path) -> None:
    """Resolves every requirement from the folder alone; raises CalledProcessError.

    By a download: `pip install --dry-run` compares what a package requires with its own Python.
    """
    with tempfile.TemporaryDirectory() as copies:
        words = ("download", "-q", "-d", copies, "--no-index")
        _pip(*words, *_for_that_machine(), *_found_in(folder), *requirements())


def _for_that_machine() -> Iterator[str]:
    yield from ("--only-binary=:all:", "--implementation", "cp", "--python-version", PYTHON)
    for platform in PLATFORMS:
        yield from ("--platform", platform)


def _found_in(folder: Path) -> Iterator[str]:
    for each in (folder, large(folder)):
        if each.is_dir():
            yield from ("--find-links", str(each))


def _pip(*words: str, python: str = sys.executable) -> None:
    command = [python, "-m", "pip", "--disable-pip-version-check", *words]
    subprocess.run(command, check=True)


def environment(folder: Path, at: Path) -> Path:
    """The Python of an environment at `at`: packages of this Python, and what they lack.

    Only wheels whose requirement this Python does not meet are installed. Raises UsageError where
    they are not enough.
    """
    wheels = [each.name for found in (folder, large(folder)) for each in found.glob("*.whl")]
    if not any(folder.glob("*.whl")):
        raise UsageError(f"--wheels {folder}: holds no wheels; make gpu-wheels downloads them")
    python, ready = at / "bin" / "python", at / "ready"
    made_of = "\n".join([sys.executable, sys.version, *sorted(wheels), *requirements()])
    if ready.is_file() and ready.read_text(encoding="utf-8") == made_of:
        return python
    shutil.rmtree(at, ignore_errors=True)
    # Without pip: that of this Python is found, and ensurepip is missing on some systems.
    venv.create(at, symlinks=True)
    (at / _packages_below(at) / "shared.pth").write_text("\n".join(_packages_here()) + "\n")
    try:
        _pip("install", "-q", "--no-index", *_found_in(folder), *requirements(), python=str(python))
    except subprocess.CalledProcessError as error:
        raise UsageError(
            f"--wheels {folder}: pip could not install what is missing here (above); these wheels "
            f"are for Python {PYTHON} on x86-64, and this is Python {sys.version.split()[0]}"
        ) from error
    ready.write_text(made_of, encoding="utf-8")
    return python


def _packages_below(at: Path) -> Path:
    scheme = {"base": str(at), "platbase": str(at)}
    return Path(sysconfig.get_path("purelib", "venv", scheme))


def _packages_here() -> list[str]:
    """Where this Python finds its packages: also those that another environment shares with it."""
    found = [each for each in sys.path if Path(each).name in ("site-packages", "dist-packages")]
    return list(dict.fromkeys(found))


def main(words: Sequence[str] | None = None) -> int:
    """Exit status: 0 all is there and fits together, 1 it is not."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof.wheels", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / ".wheels")
    folder = parser.parse_args(words).folder.resolve()
    try:
        fetch(folder)
        check(folder)
    except subprocess.CalledProcessError as error:
        print(f"error: pip failed with status {error.returncode} (above)", file=sys.stderr)
        return 1
    for each in (folder, large(folder)):
        sizes = [wheel.stat().st_size for wheel in each.glob("*.whl")]
        print(f"{each}: {len(sizes)} wheels, {sum(sizes) / 2**20:.1f} MiB")
    print(f"every requirement is met for Python {PYTHON}, beside torch")
    return 0


if __name__ == "__main__":
    sys.exit(main())
