"""Packages for a machine without a network, installed beside those that are there."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.gpu import wheels

TEXT = "Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"


def make_wheel(folder: Path, name: str, version: str = "1.0") -> Path:
    """A wheel of one module, which tells its version."""
    folder.mkdir(exist_ok=True)
    path, info = folder / f"{name}-{version}-py3-none-any.whl", f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(f"{name}.py", f"version = {version!r}\n")
        file.writestr(f"{info}/METADATA", TEXT.format(name=name, version=version))
        tag = "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        file.writestr(f"{info}/WHEEL", tag)
        file.writestr(f"{info}/RECORD", "")
    return path


def answer(python: Path, code: str) -> str:
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_what_is_missing_is_installed_beside_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheels, "requirements", lambda optional=True: ["made-up", "tqdm>=9000"])
    one, two = tmp_path / "one", tmp_path / "two"
    make_wheel(one, "made_up")
    at = tmp_path / "env"
    python = wheels.environment([one], at)
    assert answer(python, "import made_up, numpy; print(made_up.version)") == "1.0"
    make_wheel(two, "tqdm", "9001")  # there is one, and it is too old
    make_wheel(two, "numpy", "0.1")  # nobody asks for another than there is
    wheels.environment([one, two], at)
    code = "import tqdm, numpy; print(tqdm.version, numpy.__version__ == '0.1')"
    assert answer(python, code) == "9001 False"


def test_an_empty_folder_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(wheels.Missing):
        wheels.environment([tmp_path], tmp_path / "env")


@pytest.mark.parametrize(
    ("requirement", "have", "met"),
    [
        ("pandas>=3,<4", {"pandas": "3.1"}, True),
        ("pandas>=3,<4", {"pandas": "2.3"}, False),
        ("Hydra_core>=1.3", {"hydra-core": "1.3.8"}, True),
        ("numpy>=2", {}, False),
    ],
)
def test_a_requirement_asks_for_a_version(
    requirement: str, have: dict[str, str], met: bool
) -> None:
    assert wheels.is_met(requirement, have) is met


def test_torch_is_never_installed() -> None:
    names = {wheels.name_of(each) for each in wheels.requirements()}
    assert {"pyarrow", "hydra-core", "pytest", "nvidia-ml-py"} <= names
    assert "torch" not in names
    assert wheels.absent() == []
    assert wheels.absent(["made-up>=1"]) == ["made-up>=1"]
