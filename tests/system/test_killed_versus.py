"""A versus that is killed, and the same command afterwards."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.helpers.commands import finish, stored
from tests.helpers.processes import soon
from tests.helpers.versus import NEW, OLD, THEIRS, of_sides, repository, versus

pytestmark = pytest.mark.full


def test_a_killed_versus_leaves_no_process_and_continues(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    repo = repository(tmp_path / "repo", [OLD, NEW])
    (repo.folder / "net.py").write_text("raise SystemExit('the working tree')")
    temporary = tmp_path_factory.mktemp("t")  # a socket's path is short
    settings = ("-m", "mode=eager,no_grad", "replicates=20", *THEIRS)
    words = ("old=git:HEAD~1", "new=git:HEAD", "--", *settings)
    first = versus(repo.folder, *words, TMPDIR=str(temporary))
    results = repo.folder / "results"
    assert soon(lambda: stored(results, "main-new") >= 2, within_s=60)
    time.sleep(0.05)
    first.process.kill()
    assert finish(first).status == -signal.SIGKILL
    kept = sum(stored(results, f"main-{side}") for side in ("old", "new"))

    shorter = [word.replace("replicates=20", "replicates=2") for word in words]
    assert finish(versus(repo.folder, *shorter, TMPDIR=str(temporary))).status == 0
    old, new = of_sides(repo.folder)
    assert 8 <= len(old) + len(new) < kept + 8  # at least one pair was reused
    states = {row["versus_side"]: row["versus_state"] for row in old + new}
    first_commit, last = (commit[:12] for commit in repo.commits)
    assert states == {"old": f"git:HEAD~1 ({first_commit})", "new": f"git:HEAD ({last})"}
    assert len({row["model_source_id"] for row in old + new}) == 2
    assert repo.git("status", "--porcelain") == "M net.py\n?? results/"
    assert list(temporary.glob("modescope-*")) == []
