"""What is said before a sweep of the programs that already use the machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from modescope.bench.sweep.others import WINDOW_S, warning

TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def process(root: Path, pid: int, name: str, parent: int, used_s: float) -> None:
    folder = root / "proc" / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    ticks = round(used_s / TICK_S)
    zeros = "0 " * 9
    folder.joinpath("stat").write_text(f"{pid} ({name}) R {parent} {zeros}{ticks} 0 0 0\n")


def said(root: Path, load: float, *, own_s: float = 0.0, others_s: float = 0.0) -> str:
    """With a program and a child of this process that use so much of the window."""
    own = os.getpid()

    def at(share: float) -> None:
        process(root, own, "python", 1, 5.0)
        process(root, own + 1, "forkserver", own, 3.0 + share * own_s)
        process(root, own + 2, "cc1plus (a b)", 1, 70.0 + share * others_s)

    at(0.0)
    return warning(load, 2, root, wait=lambda _: at(1.0))


def test_a_loaded_machine_is_told_with_the_busiest_programs(tmp_path: Path) -> None:
    text = said(tmp_path, 9.8, others_s=WINDOW_S, own_s=WINDOW_S)
    assert "4.9 programs per core" in text
    assert f"cc1plus (a b) (process {os.getpid() + 2}) 100 %" in text
    assert "forkserver" not in text


@pytest.mark.parametrize(
    ("load", "used", "is_said"),
    [
        (0.9, {"others_s": WINDOW_S}, False),  # below LOADED per core
        (1.5, {"others_s": WINDOW_S}, True),
        (1.5, {"own_s": WINDOW_S}, False),  # the sweep's own start
        (2.5, {}, True),  # unseen: of other containers
    ],
)
def test_a_quiet_machine_is_not(
    tmp_path: Path, load: float, used: dict[str, float], is_said: bool
) -> None:
    assert bool(said(tmp_path, load, **used)) == is_said
