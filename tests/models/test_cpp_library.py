"""The loader of C++ with programs that register nothing."""

from __future__ import annotations

import ctypes
import os
import shutil
from pathlib import Path

import pytest

from modescope.models import cpp_library
from modescope.models.kernels import cpp

SOURCE = '#include "answer.h"\nextern "C" int modescope_answer() { return ANSWER; }\n'

pytestmark = pytest.mark.skipif(
    shutil.which((os.environ.get("CXX") or "g++").split()[0]) is None, reason="needs a C++ compiler"
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "built"))
    return tmp_path


def load(folder: Path, answer: int, *flags: str) -> None:
    header = folder / "answer.h"
    header.write_text(f"#define ANSWER {answer}\n")
    cpp_library.load("modescope_test", SOURCE, (header,), flags)


def answers(folder: Path) -> list[int]:
    libraries = (folder / "built").glob("*/modescope_test.so")
    return sorted(ctypes.CDLL(str(path)).modescope_answer() for path in libraries)


def test_a_library_is_built_once_for_each_text_header_and_flag(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(folder, 1)
    load(folder, 2)
    load(folder, 2, "-O1")
    assert answers(folder) == [1, 2, 2]
    monkeypatch.setenv("PATH", "")  # without a compiler
    load(folder, 2)
    assert answers(folder) == [1, 2, 2]
    assert not [*folder.glob("built/*/tmp*")]


def test_without_a_compiler_a_sentence_names_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler -m64")
    with pytest.raises(ValueError, match=r"\bno-such-compiler:") as caught:
        load(folder, 1)
    assert "\n" not in str(caught.value)


def test_what_cannot_be_built_says_the_first_error_in_a_line(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"modescope_test: .*error.*unbalanced") as caught:
        cpp_library.load("modescope_test", '#error "unbalanced"\n#error "more"\n')
    assert "\n" not in str(caught.value)
    assert "more" not in str(caught.value)
    assert answers(folder) == []


def test_a_compiler_without_openmp_is_refused() -> None:
    flags = ("-Wfatal-errors",)  # without the thousands of lines behind the first
    with pytest.raises(ValueError, match="-fopenmp"):
        cpp_library.load("modescope_test", cpp.SOURCE.read_text(), (cpp.HEADER,), flags)
