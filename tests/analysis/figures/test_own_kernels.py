"""The figure of kernels of the user's own: what it draws as data, and the numbers beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modescope.analysis.figures.own_kernels import OWN_KERNELS
from tests.helpers.drawings import US, bars, names, numbers, only_axes, rows_of
from tests.helpers.studies import record

MIB = 2**20
MINE: dict[str, Any] = {"axes": '{"kernels":"mine"}', "kernel_use": "called"}
FLOOR: dict[str, Any] = {
    "least_bytes": 1_000_000, "flops": 1, "ceiling_bytes_per_s": 1e10, "ceiling_flops_per_s": 1e12,
}  # fmt: skip


def test_bars_are_times_beside_bytes_and_the_floor_is_a_line(tmp_path: Path) -> None:
    rows = rows_of(
        tmp_path,
        record("eager", 800 * US, 1.0, eager_bytes=8 * MIB, **FLOOR),
        record("compile", 400 * US, 2.0, bytes_accessed=2 * MIB, eager_bytes=8 * MIB, **FLOOR),
        record("eager[mine]", 500 * US, 1.6, eager_bytes=8 * MIB, **(MINE | FLOOR)),
        record("compile[mine]", 600 * US, 4 / 3, bytes_accessed=3 * MIB, **(MINE | FLOOR)),
    )
    axes = only_axes(OWN_KERNELS.draw(rows))
    times = {mode: length for mode, [(_, length)] in bars(axes, 1).items()}
    assert times == pytest.approx(
        {"eager": 800, "compile": 400, "eager[mine]": 500, "compile[mine]": 600}
    )
    told = dict(zip(names(axes), (text.split(", ")[1] for text in numbers(axes)), strict=True))
    assert told == {
        "eager": "8.00 MiB", "compile": "2.00 MiB", "eager[mine]": "–", "compile[mine]": "3.00 MiB"
    }  # fmt: skip
    hatched = {patch.get_hatch() for patch in axes.patches}
    assert hatched == {"", "////"}
    (floor,) = (line for line in axes.lines if line.get_linestyle() == "--")
    assert np.ravel(floor.get_xdata())[0] == pytest.approx(100)
    assert sum("mine" in line for line in OWN_KERNELS.table(rows).rows) == 2


def test_without_own_kernels_nothing_is_drawn(tmp_path: Path) -> None:
    assert OWN_KERNELS.draw(rows_of(tmp_path, record("compile", **FLOOR))) is None
