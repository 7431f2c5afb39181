"""What a table says of its flags: marks, a legend, a banner."""

from __future__ import annotations

from typing import Any

import pytest

from modescope.analysis.derive.flags import FLAGS, Figure, doubtful_figures
from modescope.analysis.format import cells, disturbed


def row(*flags: str, **columns: Any) -> dict[str, Any]:
    return {
        "status": "ok",
        "budget_rank": 1,
        "flags": list(flags),
        "flags_touch": doubtful_figures(flags),
    } | columns


def test_a_figure_is_marked_by_the_flags_that_touch_it() -> None:
    assert cells.approximate("3 µs", row("contended", "drift"), "latency") == "~3 µs"
    assert cells.approximate("3 µs", row("contended"), "split") == "3 µs"
    assert cells.approximate("3 µs", row("drift"), "latency") == "3 µs"
    assert cells.approximate("–", row("contended"), "latency") == "–"


def test_each_flag_is_a_remark_or_in_the_legend() -> None:
    for flag, one in FLAGS.items():
        assert (flag in disturbed.legend([row(flag)])) is (one.touches != Figure.SPEEDUP), flag
    rows = [row("contended", "drift"), row("split_disagrees", "contended"), row()]
    assert "(contended 2 rows, split_disagrees 1 row)" in disturbed.legend(rows)


@pytest.mark.parametrize("flag", disturbed.CONDITIONS)
def test_more_than_half_of_the_measured_rows_make_a_banner(flag: str) -> None:
    assert FLAGS[flag].touches == Figure.LATENCY
    half = [row(flag), row()]
    assert disturbed.banner(half) == ""
    assert disturbed.CONDITIONS[flag][0] in disturbed.banner([row(flag), *half])
    for columns in ({"status": "skipped"}, {"budget_rank": 0}):
        assert disturbed.banner([*half, row(flag, **columns)]) == ""
        assert disturbed.banner([row(flag), row(**columns)])
