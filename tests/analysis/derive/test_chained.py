"""Chained speedups: worked out by hand, which row links, and how often intervals are right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modescope.analysis.derive import against, over_fp32
from modescope.analysis.derive.select import ordered
from modescope.analysis.figures import theme
from modescope.analysis.format import cells, phrases
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import as_rows
from modescope.bench.records.results import Record
from modescope.bench.stats import estimates
from modescope.bench.stats.estimates import Estimate
from tests.helpers.derivations import studies_of
from tests.helpers.drawings import rows_of
from tests.helpers.rows import row_with
from tests.helpers.studies import paired_rounds, record

HALF = 0.02 * 13 / 39  # of the interval of ln(speedup) in one process of 40 rounds
WIDENING = math.log1p(against.BETWEEN_PROCESSES)

Columns = dict[str, Any]
TF32: Columns = {"dtype": "tf32", "baseline_dtype": "tf32"}
LINK: Columns = {"dtype": "tf32", "baseline_dtype": "fp32"}


def link(speedup: float = 5.0, **columns: Any) -> Record:
    return record(**{"mode": "eager", "speedup": speedup, **LINK, **columns})


def mode(name: str = "compile", speedup: float = 1.4, **columns: Any) -> Record:
    return record(name, speedup=speedup, **{**TF32, **columns})


def found(folder: Path, studies: Sequence[Sequence[Record]]) -> list[list[Any]]:
    """The chained speedup of the first row of each study, with its ends; None: it has none."""
    rows = (study[0] for study in studies_of(folder, studies))
    known = (row["chained_speedup"] for row in rows)
    return [[None] * 3 if ratio is None else list(astuple(ratio)) for ratio in known]


def expected(value: float, half_width: float) -> list[Any]:
    ends = (value * math.exp(-half_width), value * math.exp(half_width))
    return [pytest.approx(each, rel=1e-3) for each in (value, *ends)]


def test_a_chained_speedup_is_the_product_with_the_interval_of_both_processes(
    tmp_path: Path,
) -> None:
    spread = (-0.01, 0.0, 0.01)
    welch = 2.7764 * 0.01 * math.sqrt(2 / 3)  # t(4)
    of_three = [
        each(speedup=middle * math.exp(offset), replicate=number)
        for each, middle in ((mode, 1.4), (link, 5.0))
        for number, offset in enumerate(spread)
    ]
    alone = [mode(), link()]
    worst = expected(7.0, 2 * HALF + WIDENING)
    assert found(tmp_path, [alone, of_three]) == [worst, expected(7.0, welch)]


@pytest.mark.parametrize(
    "other",
    [
        {"baseline_dtype": "bf16"}, {"dtype": "bf16"}, {"baseline_mode": "no_grad"},
        {"mode": "no_grad"}, {"shape": '{"batch":8}'}, {"device": "cuda:1"},
        {"environment_id": "env-2"}, {"in_effect": False}, {"budget": "smoke"}, {"threads": 2},
        {"status": "failed", "reason": "why"}, {"phase": "train", "optimizer": "sgd"},
        {"graph": True}, {"baseline_latency_rounds_s": None},
    ],
    ids=str,
)  # fmt: skip
def test_only_a_trusted_row_of_the_same_work_and_machine_links(
    other: Columns, tmp_path: Path
) -> None:
    assert found(tmp_path, [[mode(), link(**other)], [mode()]]) == [[None] * 3] * 2


@pytest.mark.parametrize(("cache", "over"), [("cold", 5.0), ("warm", 4.0)])
def test_a_link_with_the_same_compiler_cache_is_preferred(
    cache: str, over: float, tmp_path: Path
) -> None:
    links = [link(), link(speedup=4.0, compile_cache="warm")]
    rows = as_rows(rows_of(tmp_path, mode(compile_cache=cache), *links))
    (value,) = (row["chained_speedup"].value for row in rows if row["mode"] == "compile")
    assert value == pytest.approx(1.4 * over, rel=1e-3)


def test_a_smoke_run_is_not_chained(tmp_path: Path) -> None:
    """Neither by a link, nor itself."""
    rows = as_rows(rows_of(tmp_path, mode(), link()))
    row, linked = sorted(rows, key=lambda each: each["mode"])
    assert against.chain(row, linked)
    smoke, smoke_link = (row_with(each, budget="smoke", budget_rank=0) for each in (row, linked))
    assert against.chain(smoke, linked) is None
    assert against.chain(row, smoke_link) is None


def test_the_link_and_rows_of_other_precisions_have_none(tmp_path: Path) -> None:
    others = [record("compile", speedup=9.0, dtype="bf16"), record("compile")]
    (rows,) = studies_of(tmp_path, [[mode(), link(), *others]])
    rows.sort(key=lambda row: (row["baseline_dtype"] != "tf32", row["dtype"] != "tf32"))
    linked, *unlinked = rows
    assert linked["link_run_id"] == unlinked[0]["run_id"]
    assert [row["link_run_id"] for row in unlinked] == [None] * 3
    assert linked["speedup"].value == pytest.approx(1.4, rel=1e-3)  # the paired one stays


def test_rows_are_sorted_and_drawn_over_the_common_baseline(tmp_path: Path) -> None:
    bf16 = record("compile", speedup=6.0, dtype="bf16")
    table = ordered(rows_of(tmp_path, bf16, link(), mode(), mode("no_grad", 0.9)))
    named = table["mode"] + " " + table["dtype"]
    assert named.tolist() == ["compile tf32", "compile bf16", "eager tf32", "no_grad tf32"]
    first = as_rows(table)[0]
    shown = over_fp32.in_place(first)
    assert phrases.contest(shown) == "tf32 against eager fp32"
    assert (shown["speedup"], shown["verdict"]) == (first["chained_speedup"], "faster")
    assert cells.speedup(shown).endswith(" chained")
    assert not cells.speedup(first).endswith("chained")
    assert [bool(over_fp32.legend([row])) for row in as_rows(table)] == [
        True, False, False, True
    ]  # fmt: skip
    assert over_fp32.in_place(as_rows(table)[1]) == as_rows(table)[1]


def test_against_a_mode_chained_speedups_count_only_between_tf32_and_others(
    tmp_path: Path,
) -> None:
    bf16 = record("inference_mode", speedup=10.0, dtype="bf16")
    rows = rows_of(tmp_path, bf16, link(), mode(), mode("no_grad", 0.7), record("compile"))

    def ratios(wanted: str) -> dict[str, tuple[float, bool]]:
        compared = as_rows(against.against(rows, wanted))
        return {
            phrases.variant(row): (row["against_speedup"].value, row["against_is_chained"])
            for row in compared
            if row["against_mode"] is not None
        }

    def of(value: float, is_chained: bool) -> tuple[Any, bool]:
        return pytest.approx(value, rel=1e-3), is_chained

    assert ratios("inference_mode bf16") == {
        "inference_mode bf16": of(1.0, False),
        "eager tf32": of(0.5, False),  # it has a paired speedup over eager in fp32
        "compile tf32": of(0.7, True),
        "no_grad tf32": of(0.35, True),
        "compile fp32": of(0.125, False),
    }
    assert ratios("no_grad tf32") == {
        "inference_mode bf16": of(10 / 3.5, True),
        "eager tf32": of(5 / 3.5, True),
        "compile tf32": of(2.0, False),  # both over eager in tf32
        "no_grad tf32": of(1.0, False),
        "compile fp32": of(1.25 / 3.5, True),
    }
    assert ratios("eager fp32")["compile tf32"] == of(7.0, True)
    assert ratios("eager tf32")["compile tf32"] == of(1.4, False)


def test_a_figure_has_one_panel_in_tf32_over_fp32(tmp_path: Path) -> None:
    linked = [mode(), mode("no_grad", 1.01), link(), record("compile")]
    for number, (records, titles) in enumerate(
        (
            (linked, {"fp32 against eager fp32": 1, "tf32 against eager fp32": 3}),
            (linked[:2], {"tf32 against eager tf32": 2}),
        )
    ):
        section = ordered(rows_of(tmp_path / str(number), *records))
        drawn = theme.panels("Speedup", theme.charted(section), cells.speedup, against=True)
        assert {each.title.removeprefix("Speedup, "): len(each.rows) for each in drawn} == titles
        marked = [text for each in drawn for text in each.numbers if text.endswith("chained")]
        assert len(marked) == (2 if len(titles) > 1 else 0)


TRIALS = 2000


def _speedups(true: float, between: float, source: np.random.Generator) -> list[Estimate | None]:
    """Estimates of `true` from TRIALS processes, whose rounds have heavy tails."""
    made = []
    for _ in range(TRIALS):
        noise = 0.01 * source.standard_t(3, size=(2, 24))
        level = math.log(true) + source.normal(0, between)
        made.append(estimates.speedup(np.exp(noise[0]), np.exp(noise[1] + level)))
    return made


def _by_squares(one: Estimate, two: Estimate) -> tuple[float, float]:
    """The interval by the root of the squared half-widths of the logarithms."""
    value = math.log(one.value * two.value)
    low = math.hypot(*(math.log(e.value / e.low) for e in (one, two) if e.low))
    high = math.hypot(*(math.log(e.high / e.value) for e in (one, two) if e.high))
    return math.exp(value - low), math.exp(value + high)


@pytest.mark.parametrize(
    ("between", "expected_of_squares"), [(0.0, 0.99), (0.005, 0.91), (0.01, 0.70)]
)
def test_intervals_of_chains_are_right_at_least_as_often_as_they_say(
    between: float, expected_of_squares: float
) -> None:
    """Also where processes of the same code differ, which the root of squares cannot know."""
    source = np.random.default_rng(7)
    pairs = zip(_speedups(1.4, between, source), _speedups(5.0, between, source), strict=True)
    covered = squares = 0
    for one, two in pairs:
        assert one
        assert two
        made = against.chain(_row("a", one), _row("b", two))
        assert made
        covered += made.low <= 7.0 <= made.high
        low, high = _by_squares(one, two)
        squares += low <= 7.0 <= high
    assert covered / TRIALS >= 0.99
    assert squares / TRIALS == pytest.approx(expected_of_squares, abs=0.02)


def _row(run_id: str, one: Estimate) -> Row:
    return row_with(
        dict.fromkeys(against.NEEDED), speedup=one, run_id=run_id, budget_rank=2,
        speedup_processes=1,
    )  # fmt: skip


def test_the_rounds_of_these_records_have_the_half_width_that_is_expected() -> None:
    made = estimates.speedup(*paired_rounds(1e-4, 1.4))
    assert made
    assert made.high
    assert math.log(made.high / 1.4) == pytest.approx(HALF, rel=0.05)
