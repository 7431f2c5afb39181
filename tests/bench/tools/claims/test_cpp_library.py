"""The operator from C++: when it is compiled, and what is said when it cannot be."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from modescope.bench.tools.claims import cpp_library


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Path]:
    """What would be loaded; libraries go to a folder of their own."""
    paths: list[Path] = []
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    monkeypatch.setattr(torch.ops, "load_library", paths.append)
    return paths


def test_each_compiler_has_one_library(loaded: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        Path(command[-1]).touch()
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    for cxx in ("g++", "g++", "ccache clang++"):
        monkeypatch.setenv("CXX", cxx)
        cpp_library.load()
    assert [command[:2] for command in commands] == [["g++", "-shared"], ["ccache", "clang++"]]
    assert loaded[0] == loaded[1] != loaded[2]


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
