"""Studies before and after a compaction."""

from __future__ import annotations

import io
import shutil
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from modescope.analysis import table


def csv(folder: Path) -> str:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        assert table.main([str(folder), "--csv"]) == 0, err.getvalue()
    return out.getvalue()


def loose_files(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "runs").iterdir())


def put_back(template: Path, folder: Path, count: int | None = None) -> None:
    for path in sorted((template / "runs").iterdir())[:count]:
        shutil.copy2(path, folder / "runs")
