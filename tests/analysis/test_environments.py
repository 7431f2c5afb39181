"""Machines of one name have their own rows in recommendations and the table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from modescope.analysis import table
from modescope.analysis.metrics import derived
from modescope.analysis.recommend.decide import recommend
from modescope.bench.records.results import Record
from modescope.bench.sweep.fingerprint import environment_id
from tests.helpers.studies import record, save

ZEN_3: dict[str, Any] = {"cpu_capability": "AVX2", "cpu_instructions": "avx avx2 fma"}
ZEN_5: dict[str, Any] = {"cpu_capability": "AVX512", "cpu_instructions": "avx avx2 avx512_bf16"}


def measured(mode: str, machine: dict[str, Any], speedup: float) -> Record:
    made = record(mode, speedup=speedup, **machine)
    environment = replace(made.environment, environment_id=environment_id(made.environment))
    return replace(made, environment=environment)


def test_rows_of_two_instruction_sets_are_ranked_and_named_apart(tmp_path: Path) -> None:
    runs = [measured("amp", ZEN_3, 0.19), measured("amp", ZEN_5, 2.19)]
    runs += [measured("eager", ZEN_3, 1.0), measured("eager", ZEN_5, 1.0)]
    rows = derived(save(runs, tmp_path))
    of_amp = [answer for answer in recommend(rows) if answer.question.dtype == "bf16"]
    assert [answer.outcome for answer in of_amp] == ["baseline", "mode"]
    text = table.text(rows)
    assert "AMD EPYC 9554, AVX2, no bf16 instructions, 1 thread, environment A" in text
    assert "AMD EPYC 9554, AVX512, bf16 instructions, 1 thread, environment B" in text
