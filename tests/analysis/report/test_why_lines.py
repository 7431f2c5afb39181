"""Why modes are recommended and others are not: lines of the first screen, details of a row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modescope.analysis.report import report
from tests.helpers.causes import profiled
from tests.helpers.studies import at_size, not_measured, record, save

NO_GPU = "CUDA graphs need a GPU: on a CPU this runs without CUDA graphs"
NO_GRAPHS: dict[str, Any] = {"in_effect": False, "in_effect_note": NO_GPU}


def _page(study: Path, where: str | None = None) -> str:
    report.write(study, where=where)
    return (study / "report" / "report.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    casts = profiled(1e-3, ("aten::_to_copy", 24, 820e-6))
    left = profiled(100e-6, ("aten::addmm", 4, 80e-6))
    return save(
        [
            record("eager", speedup=1.0, spread=0.002),
            record("inference_mode", speedup=1.25),
            record("amp", speedup=1 / 5.3, **casts),
            record("amp-compile", speedup=0.5, first_call_s=0.1),
            record("compile", speedup=1.0, spread=0.002, first_call_s=9.0, **left),
            record("reduce-overhead", speedup=1.0, **NO_GRAPHS),
            record("max-autotune", speedup=1.0, **NO_GRAPHS),
            not_measured("cuda-graph", "skipped", "it needs a GPU"),
        ],
        tmp_path_factory.mktemp("lines"),
    )


def _lines(page: str) -> list[str]:
    first = page.partition("## Which mode?")[2].partition("## All rows")[0]
    kinds = ("  - Why", "  - Slower", "  - Also faster")
    return [line.strip(" -") for line in first.splitlines() if line.startswith(kinds)]


def test_recommended_and_refused_modes_have_a_line(study: Path) -> None:
    bf16, fp32 = _lines(_page(study))[:2], _lines(_page(study))[2:]
    assert bf16[0].startswith("Slower: amp is 5.3 times slower than eager fp32: 82 % of a call is ")
    assert bf16[1] == (
        "Slower: amp-compile is 2.0 times slower than eager fp32: what was measured does not "
        "decide why."
    )
    assert fp32[0].startswith("Why: inference_mode is 1.3 times faster than eager: leaving out ")
    assert fp32[1].startswith("Why not: compile is as fast as eager")
    assert "kernels that compile leaves as they are" in fp32[1]
    assert fp32[2:] == [
        "Why not: reduce-overhead and max-autotune are not in effect: no CUDA graph was launched "
        f"({NO_GPU}). Use compile here, which runs the same code."
    ]


def test_the_details_of_a_row_have_all_its_causes(study: Path) -> None:
    details = _page(study).partition("## Commands and raw data")[2]
    of_compile = details.partition("compile fp32: ")[2].partition("\n- ")[0]
    assert "leaves as they are" in of_compile
    assert "The first call takes 9.00 s, as long as 25,200 calls of the baseline." in of_compile


def test_a_faster_mode_that_is_not_the_fastest_is_named_so(tmp_path: Path) -> None:
    eager = record("eager", speedup=1.0, spread=0.002)
    records = [eager, record("inference_mode", speedup=1.5), record("no_grad")]
    lines = _lines(_page(save(records, tmp_path)))
    assert [line.partition(":")[0] for line in lines] == ["Why", "Also faster, but less"]
    assert "no_grad is 1.3 times faster than eager: " in lines[1]


def test_the_first_call_is_no_reason_for_slow_calls(tmp_path: Path) -> None:
    slow = record("compile", speedup=0.5, first_call_s=9.0)
    (line,) = _lines(_page(save([record("eager"), slow], tmp_path)))
    assert line.startswith(
        "Slower: compile is 2.0 times slower than eager: what was measured does not decide why. "
        "The first call takes 9.00 s, as long as "
    )


def test_a_slow_mode_that_is_not_in_effect_is_no_loser(tmp_path: Path) -> None:
    eager, slow = record("eager"), record("reduce-overhead", speedup=0.5, **NO_GRAPHS)
    (line,) = _lines(_page(save([eager, slow], tmp_path)))
    assert line.startswith("Why not: reduce-overhead is not in effect")


def test_chosen_rows_keep_causes_that_come_from_others(study: Path) -> None:
    page = _page(study, 'mode == "eager"')
    assert "without it (inference_mode) the same call is 1.25" in page


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
