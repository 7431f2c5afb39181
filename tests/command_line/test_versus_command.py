"""`python -m bench.versus` with real processes: folders, interpreters, mistakes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.commands import QUICKLY
from tests.helpers.versus import NEW, OLD, THEIRS, of_sides, versus

pytestmark = pytest.mark.full


def test_two_folders_with_different_models(tmp_path: Path) -> None:
    for name, content in (("a", OLD), ("b", NEW), (".", "raise SystemExit('the current folder')")):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "net.py").write_text(content)
    words = ("old=dir:a", "new=dir:b", "--", "-m", "mode=eager,no_grad", "replicates=2", *THEIRS)
    answer = versus(tmp_path, *words).end()
    assert (answer.status, len(answer.err.splitlines())) == (0, 8)  # a line for each case
    old, new = of_sides(tmp_path)
    assert [row["status"] for row in old + new] == ["ok"] * 8
    assert len({row["case_id"] for row in old}) == len({row["case_id"] for row in old + new}) == 2
    assert not {row["model_source_id"] for row in old} & {row["model_source_id"] for row in new}
    assert len({row["source_id"] for row in old + new}) == 1
    taken = [sorted((row["case_id"], row["versus_block"]) for row in side) for side in (old, new)]
    assert taken[0] == taken[1]
    ordered = sorted(old + new, key=lambda row: str(row["started_at"]))
    assert [row["position"] for row in ordered] == list(range(8))
    assert len({row["versus_block"] for row in old}) == 2
    assert "what differs\n    versus_state dir:a → dir:b\n    model_source_id " in answer.out


def test_another_interpreter_needs_no_modescope(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    ours = "\n".join(each for each in sys.path if each.endswith("site-packages"))
    (shared,) = (tmp_path / "venv").glob("lib/*/site-packages")
    (shared / "shared.pth").write_text(ours)
    lacks = subprocess.run([python, "-c", "import modescope"], cwd=tmp_path, capture_output=True)
    assert lacks.returncode == 1
    words = (f"old={python}", f"new={sys.executable}", "--", "model=pointwise", "mode=eager")
    answer = versus(tmp_path, *words, "shape=small", *QUICKLY).end()
    assert (answer.status, len(answer.err.splitlines())) == (0, 2)
    (old,), (new,) = of_sides(tmp_path)
    assert (old["status"], new["status"]) == ("ok", "ok")
    assert old["source_id"] == new["source_id"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "old=dir:a: net:build imports nothing from there"),
        ("def build():\n    raise ValueError('no such width')", "old=dir:a: net:build refuses"),
    ],
)
def test_a_side_that_cannot_be_built_ends_with_status_2(
    tmp_path: Path, content: str | None, message: str
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "net.py").write_text(NEW)
    (tmp_path / "net.py").write_text(NEW)
    if content is None:
        (tmp_path / "a" / "net.py").unlink()
    else:
        (tmp_path / "a" / "net.py").write_text(content)
    words = ("old=dir:a", "new=dir:b", "--", "mode=eager", *THEIRS)
    answer = versus(tmp_path, *words).end()
    assert answer.status == 2
    assert answer.err.startswith(f"error: {message}")
    assert answer.err.count("\n") == 1
    assert of_sides(tmp_path) == ([], [])
