"""Why modes are recommended and others are not: lines of the first screen, details of a row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from modescope.analysis.report import report
from tests.helpers.causes import profiled
from tests.helpers.studies import at_size, record, save

NO_GPU = "CUDA graphs need a GPU: on a CPU this runs without CUDA graphs"
NO_GRAPHS: dict[str, Any] = {"in_effect": False, "in_effect_note": NO_GPU}


def _page(study: Path, where: str | None = None) -> str:
    report.write(study, condition=where)
    return (study / "report" / "report.md").read_text(encoding="utf-8")


def _lines(page: str) -> list[str]:
    first = page.partition("## Which mode?")[2].partition("## All rows")[0]
    kinds = ("  - Why", "  - Slower", "  - Also faster")
    return [line.strip(" -") for line in first.splitlines() if line.startswith(kinds)]


def test_a_faster_mode_that_is_not_the_fastest_is_named_so(tmp_path: Path) -> None:
    eager = record("eager", speedup=1.0, spread=0.002)
    records = [eager, record("inference_mode", speedup=1.5), record("no_grad")]
    lines = _lines(_page(save(records, tmp_path)))
    assert [line.partition(":")[0] for line in lines] == ["Why", "Also faster, but less"]
    assert "no_grad is 1.3 times faster than eager: " in lines[1]


def test_a_slow_mode_that_is_not_in_effect_is_no_loser(tmp_path: Path) -> None:
    eager, slow = record("eager"), record("reduce-overhead", speedup=0.5, **NO_GRAPHS)
    (line,) = _lines(_page(save([eager, slow], tmp_path)))
    assert line.startswith("Why not: reduce-overhead is not in effect")


def test_over_several_sizes_a_mode_has_the_line_of_its_largest_difference(tmp_path: Path) -> None:
    casts = profiled(1e-3, ("aten::_to_copy", 24, 820e-6))
    records = [
        one
        for batch, speedup in ((1, 0.2), (8, 0.4))
        for one in (
            at_size("eager", 1.0, batch, spread=0.002),
            at_size("amp", speedup, batch, **casts),
        )
    ]
    (line,) = _lines(_page(save(records, tmp_path)))
    assert line.startswith("Slower: batch 1, seq 64: amp is 5.0 times slower than eager fp32: ")


def test_modes_with_one_cause_are_one_line(tmp_path: Path) -> None:
    casts = profiled(1e-3, ("aten::_to_copy", 24, 820e-6))
    records = [
        record("eager", speedup=1.0, spread=0.002),
        record("amp", speedup=0.2, **casts),
        record("amp-compile", speedup=0.25, **casts),
    ]
    (line,) = _lines(_page(save(records, tmp_path)))
    assert line.startswith(
        "Slower: amp and amp-compile are 4.0 to 5.0 times slower than eager fp32: "
    )
    assert line.count("82 % of a call") == 1
