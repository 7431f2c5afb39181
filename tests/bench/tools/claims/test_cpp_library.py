"""The operator from C++: when it is compiled, and what is said when it cannot be."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from modescope.bench.tools.claims import cpp_library

pytestmark = pytest.mark.full


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Path]:
    """What would be loaded; libraries go to a folder of their own."""
    paths: list[Path] = []
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    monkeypatch.setattr(torch.ops, "load_library", paths.append)
    return paths


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Commands of a compiler that always succeeds."""
    commands: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        Path(command[-1]).touch()
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    return commands


def test_it_is_compiled_once(loaded: list[Path], compiled: list[list[str]]) -> None:
    cpp_library.load()
    cpp_library.load()
    assert len(compiled) == 1
    assert loaded[0] == loaded[1]
    assert [path.name for path in loaded[0].parent.iterdir()] == [loaded[0].name]


@pytest.mark.parametrize(
    ("what", "changed"), [("SOURCE", "int x;"), ("__version__", "9.9"), ("CXX", "clang++")]
)
def test_another_source_torch_or_compiler_has_a_library_of_its_own(
    what: str,
    changed: str,
    loaded: list[Path],
    compiled: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cpp_library.load()
    if what == "CXX":
        monkeypatch.setenv(what, changed)
    else:
        monkeypatch.setattr(cpp_library if what == "SOURCE" else torch, what, changed)
    cpp_library.load()
    assert len(compiled) == 2
    assert loaded[0] != loaded[1]


@pytest.mark.parametrize(("CXX", "words"), [("", ["g++"]), ("ccache g++", ["ccache", "g++"])])
def test_the_compiler_is_the_command_that_was_looked_for(
    CXX: str,
    words: list[str],
    loaded: list[Path],
    compiled: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CXX", CXX)
    cpp_library.load()
    assert compiled[0][: len(words) + 1] == [*words, "-shared"]


def test_what_the_compiler_says_is_passed_on(
    loaded: list[Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compiler = tmp_path / "broken"
    compiler.write_text("#!/bin/sh\necho 'scale.cpp: error: no such header' >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    with pytest.raises(RuntimeError, match=r"does not compile .* no such header"):
        cpp_library.load()
    assert not loaded
