"""`modescope watch script.py`: the program runs as ever, and its record is written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from modescope.bench.records.watched import Watched, from_json
from tests.helpers.paths import ROOT

PROGRAM = """
import os
assert "torch" not in sys.modules and "numpy" not in sys.modules
os.environ["OMP_NUM_THREADS"] = "1"
import torch
compiled = torch.compile(lambda x: x * 2, backend="eager", dynamic=False)
for rows in range(2, 13):
    compiled(torch.ones(rows))
print(__name__, sys.argv[1:], torch.get_num_threads())
"""


def watch(folder: Path, text: str, *words: str) -> tuple[subprocess.CompletedProcess[str], Watched]:
    (folder / "program.py").write_text(f"import sys\n{text}", encoding="utf-8")
    command = [sys.executable, "-m", "modescope", "watch", "program.py", *words]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    (path,) = (folder / "results" / "main" / "watch").iterdir()
    return ended, from_json(path.read_text(encoding="utf-8"))


def test_program_ends_by_exit(tmp_path: Path) -> None:
    ended, seen = watch(tmp_path, PROGRAM + "sys.exit(3)\n", "--lr", "0.1")
    assert ended.returncode == 3, ended.stderr
    assert ended.stdout == "__main__ ['--lr', '0.1'] 1\n"
    assert "ran in eager in 3 of 11 calls, from call 9 on" in ended.stderr
    assert seen.asks[0].limit_hits == 1
    assert seen.compiling_s + seen.compiled_s + (seen.eager_s or 0) + seen.rest_s == pytest.approx(
        seen.wall_s
    )
    assert json.loads(seen.to_json())["program"] == "program.py"


def test_program_that_raises(tmp_path: Path) -> None:
    ended, seen = watch(tmp_path, "import torch\nraise KeyError('lost')\n")
    assert ended.returncode == 1
    assert "KeyError: 'lost'" in ended.stderr
    assert seen.error is not None
    assert seen.compilations == ()


def test_missing_program(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "modescope", "watch", "absent.py"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert str(ROOT) not in ended.stderr


def test_missing_module(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "modescope", "watch", "-m", "absent_package.part"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)


def test_arguments_are_those_of_the_program(tmp_path: Path) -> None:
    ended, _ = watch(tmp_path, "print(sys.argv)\n", "--", "--study", "x", "-m", "--")
    assert ended.stdout == "['program.py', '--', '--study', 'x', '-m', '--']\n"
