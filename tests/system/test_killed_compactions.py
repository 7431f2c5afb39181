"""A compaction that is killed at each of its calls of the file system loses nothing."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from modescope.bench.records import rows
from modescope.bench.records.rows import join
from tests.helpers.studies import replicates, save

pytestmark = pytest.mark.full


def _killed(folder: Path, after: int) -> bool:
    """Compacts in a child that is killed at its call number `after` of the file system."""
    child = os.fork()
    if child == 0:
        left = [after]

        def counted(call: Callable[..., Any]) -> Callable[..., Any]:
            def wrapper(*arguments: Any, **options: Any) -> Any:
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return call(*arguments, **options)

            return wrapper

        for name in ("link", "unlink", "replace", "rename", "fsync", "open"):
            setattr(os, name, counted(getattr(os, name)))
        status = 1
        try:
            join(folder)
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL)
    return status != 0


def _ids(folder: Path) -> list[str]:
    found = rows.read(folder)
    assert found is not None
    return sorted(found.table["run_id"].to_pylist())


def test_a_kill_at_any_moment_loses_nothing(tmp_path: Path) -> None:
    """While loose files become a part together with an earlier part."""
    template = save(replicates(3), tmp_path / "template") / "rows"
    files, expected, after, was_killed = sorted(template.iterdir()), _ids(template), 0, True
    while was_killed:
        after += 1
        folder = tmp_path / f"rows-{after}"
        folder.mkdir()
        for path in files[:2]:
            shutil.copy(path, folder)
        join(folder)
        shutil.copytree(template, folder, dirs_exist_ok=True)
        was_killed = _killed(folder, after)
        assert _ids(folder) == expected, after
        join(folder)
        assert _ids(folder) == expected
        shutil.rmtree(folder)
    assert after >= 8
