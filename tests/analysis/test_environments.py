"""Machines of one name have their own rows in the table, recommendations and report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from modescope.analysis import table
from modescope.analysis.derive.registry import derive
from modescope.analysis.derive.select import latest
from modescope.analysis.load import read
from modescope.analysis.recommend.decide import recommend
from modescope.analysis.report import report
from modescope.bench.records.results import Record
from modescope.bench.sweep.fingerprint import environment_id
from tests.helpers.studies import record, save

ZEN_3: dict[str, Any] = {"cpu_capability": "AVX2", "cpu_instructions": "avx avx2 fma"}
ZEN_5: dict[str, Any] = {
    "cpu_capability": "AVX512",
    "cpu_instructions": "avx avx2 avx512_bf16 avx512f fma",
}


def measured(mode: str, machine: dict[str, Any], speedup: float) -> Record:
    made = record(mode, speedup=speedup, **machine)
    environment = replace(made.environment, environment_id=environment_id(made.environment))
    return replace(made, environment=environment)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    runs = [measured("amp", ZEN_3, 0.19), measured("amp", ZEN_5, 2.19)]
    return save([*runs, measured("eager", ZEN_3, 1.0), measured("eager", ZEN_5, 1.0)], tmp_path)


def test_rows_of_two_instruction_sets_are_ranked_apart(study: Path) -> None:
    rows = derive(latest(read(study).table))
    answers = recommend(rows)
    of_amp = [answer for answer in answers if answer.question.dtype == "bf16"]
    assert len({answer.question.environment for answer in of_amp}) == len(of_amp) == 2
    assert [answer.outcome for answer in of_amp] == ["baseline", "mode"]


def test_the_table_names_the_instruction_sets(study: Path) -> None:
    text = table.text(derive(latest(read(study).table)))
    assert "AMD EPYC 9554, AVX2, no bf16 instructions, 1 thread, environment A" in text
    assert "AMD EPYC 9554, AVX512, bf16 instructions, 1 thread, environment B" in text


def test_the_report_names_the_instruction_sets_in_its_header(study: Path) -> None:
    page = report.write(study).read_text(encoding="utf-8")
    header = page[: page.index("</header>")]
    assert "AVX2, no bf16 instructions" in header
    assert "AVX512, bf16 instructions" in header
    assert "cpu_capability" in page
