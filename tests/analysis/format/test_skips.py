"""Skipped cases: a line per reason, in short words."""

from __future__ import annotations

from typing import Any

from modescope.analysis.format import skips

NO_GPU = "a CUDA graph needs an NVIDIA GPU, and this runs on X; use mode=compile instead"
AGAIN = "no CUDA graphs, so this would measure the kernels of mode=compile again, which is known"


def row(mode: str, reason: str, dtype: str = "fp32", **columns: Any) -> Any:
    usual = {"status": "skipped", "device": "cpu", "apart": None, "calls_pad": None}
    return {**usual, "mode": mode, "dtype": dtype, "reason": reason, **columns}


def test_modes_of_one_reason_share_a_line_which_says_it_once() -> None:
    rows = [
        row("graph", NO_GPU),
        row("tuned", AGAIN),
        row("graph", NO_GPU, "bf16"),
        row("other", NO_GPU),
        row("eager", NO_GPU, status="failed"),
    ]
    first, second = skips.lines(rows)
    assert first == "skipped: graph (fp32, bf16); other (fp32): a CUDA graph needs an NVIDIA GPU"
    assert second.startswith("skipped: tuned (fp32): ")
    assert [len(line.split(NO_GPU)) for line in skips.lines(rows, whole=True)] == [2, 1]


def test_a_mode_that_would_run_the_code_of_another_names_that() -> None:
    on_cpu, on_gpu = (skips.in_short(row("tuned", AGAIN, device=on)) for on in ("cpu", "cuda"))
    assert on_cpu.startswith(on_gpu)
    assert on_gpu.endswith(" compile")
    assert len(on_cpu) < len(AGAIN) / 2


def test_a_reason_of_one_long_clause_is_cut() -> None:
    assert len(skips.in_short(row("graph", "x" * 500))) == skips.MOST_LETTERS
