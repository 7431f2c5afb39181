"""`python -m bench.versus` with real processes: folders, revisions, interpreters, signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.commands import QUICKLY, Row, Started, rows, stored
from tests.helpers.paths import ROOT
from tests.helpers.processes import alive, marker, soon
from tests.helpers.repositories import repository

pytestmark = pytest.mark.slow

NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return {forward}

def build():
    return Net(), (torch.randn(2, 4),)
"""
OLD = NET.format(forward="self.linear(x)")
NEW = NET.format(forward="self.linear(x).relu().sin()")

START = "from modescope.bench.versus.command import main; sys.exit(main(sys.argv[1:]))"

THEIRS = ("model=custom", "model.target=net:build", *QUICKLY)


def versus(folder: Path, *words: str, **variables: str) -> Started:
    """The command in `folder`, by this checkout, in a process group of its own."""
    sign = marker()
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); {START}"
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", code, *words],
        cwd=folder,
        env={**os.environ, "MODESCOPE_TEST": sign, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    return Started(process, sign)


def of_sides(folder: Path) -> tuple[list[Row], list[Row]]:
    return rows(folder / "results", "main-old"), rows(folder / "results", "main-new")


def test_two_folders_with_different_models(tmp_path: Path) -> None:
    for name, content in (("a", OLD), ("b", NEW), (".", "raise SystemExit('the current folder')")):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "net.py").write_text(content)
    words = ("old=dir:a", "new=dir:b", "--", "-m", "mode=eager,no_grad", "replicates=2", *THEIRS)
    answer = versus(tmp_path, *words).end()
    assert (answer.status, answer.err) == (0, "")
    old, new = of_sides(tmp_path)
    assert [row["status"] for row in old + new] == ["ok"] * 8
    assert len({row["case_id"] for row in old}) == len({row["case_id"] for row in old + new}) == 2
    assert not {row["model_source_id"] for row in old} & {row["model_source_id"] for row in new}
    assert len({row["source_id"] for row in old + new}) == 1
    taken = [sorted((row["case_id"], row["versus_block"]) for row in side) for side in (old, new)]
    assert taken[0] == taken[1]
    ordered = sorted(old + new, key=lambda row: str(row["started_at"]))
    assert [row["position"] for row in ordered] == list(range(8))
    assert "what differs\n    versus_state dir:a → dir:b\n    model_source_id " in answer.out


def test_two_revisions_and_nothing_of_the_working_tree(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", [OLD, NEW])
    (repo.folder / "net.py").write_text("raise SystemExit('the working tree')")
    words = ("old=git:HEAD~1", "new=git:HEAD", "--", "mode=eager", *THEIRS)
    answer = versus(repo.folder, *words).end()
    assert (answer.status, answer.err) == (0, "")
    assert "changes that are not committed are not measured" in answer.out
    (old,), (new,) = of_sides(repo.folder)
    assert (old["status"], new["status"]) == ("ok", "ok")
    assert old["versus_state"] == f"git:HEAD~1 ({repo.commits[0][:12]})"
    assert old["model_source_id"] != new["model_source_id"]
    assert repo.worktrees() == [str(repo.folder)]


def test_another_interpreter_needs_no_modescope(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    ours = sysconfig.get_path("purelib")
    (shared,) = (tmp_path / "venv").glob("lib/*/site-packages")
    (shared / "shared.pth").write_text(ours)
    lacks = subprocess.run([python, "-c", "import modescope"], cwd=tmp_path, capture_output=True)
    assert lacks.returncode == 1
    words = (f"old={python}", f"new={sys.executable}", "--", "model=pointwise", "mode=eager")
    answer = versus(tmp_path, *words, "shape=small", *QUICKLY).end()
    assert (answer.status, answer.err) == (0, "")
    (old,), (new,) = of_sides(tmp_path)
    assert (old["status"], new["status"]) == ("ok", "ok")
    assert old["source_id"] == new["source_id"]
    assert "the same state on both sides" not in answer.out  # other packages may differ


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "old=dir:a: model.target=net:build is imported from"),
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
    assert "Traceback" not in answer.err
    assert of_sides(tmp_path) == ([], [])


def ctrl_c(process: subprocess.Popen[str]) -> None:
    """What a terminal does: it sends the signal to everything in the foreground."""
    os.killpg(process.pid, signal.SIGINT)


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()


@pytest.mark.parametrize(("end", "status"), [(ctrl_c, 130), (kill, -signal.SIGKILL)])
def test_a_versus_that_is_ended_leaves_no_process_and_continues(
    tmp_path: Path, end: Callable[[subprocess.Popen[str]], None], status: int
) -> None:
    repo = repository(tmp_path / "repo", [OLD, NEW])
    (tmp_path / "tmp").mkdir()
    settings = ("-m", "mode=eager,no_grad", "replicates=20", *THEIRS)
    words = ("old=git:HEAD~1", "new=git:HEAD", "--", *settings)
    first = versus(repo.folder, *words, TMPDIR=str(tmp_path / "tmp"))
    results = repo.folder / "results"
    assert soon(lambda: stored(results, "main-new") >= 2, within_s=60)
    time.sleep(0.05)
    end(first.process)
    answer = first.end()
    assert answer.status == status
    assert "Traceback" not in answer.err
    assert soon(lambda: not alive(first.sign), within_s=10)
    kept = sum(stored(results, f"main-{side}") for side in ("old", "new"))

    shorter = [word.replace("replicates=20", "replicates=2") for word in words]
    answer = versus(repo.folder, *shorter, TMPDIR=str(tmp_path / "tmp")).end()
    assert (answer.status, answer.err) == (0, "")
    assert "reusing" in answer.out
    old, new = of_sides(repo.folder)
    assert len(old) + len(new) >= max(kept, 8)
    assert repo.worktrees() == [str(repo.folder)]
    assert list((tmp_path / "tmp").glob("modescope-*")) == []
