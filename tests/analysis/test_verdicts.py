from __future__ import annotations

from pathlib import Path

from analysis import verdicts
from analysis.metrics import derived
from tests.analysis.studies import cpu_sweep, record, save


def test_verdicts_are_counted_for_each_comparison_without_the_control(tmp_path: Path) -> None:
    assert verdicts.reading(derived(save(cpu_sweep(), tmp_path))) == (
        "bf16 against eager fp32: 2 slower; fp32 against eager fp32: 2 faster, 1 inconclusive; the "
        "least certain row would have shown a true change of 3.9 % in 80 % of such runs."
    )


def test_a_control_alone_is_said_to_be_alone(tmp_path: Path) -> None:
    told = verdicts.reading(derived(save([record("eager", speedup=1.0)], tmp_path)))
    assert told.startswith("fp32 against eager fp32: only the baseline against itself; the least")


def test_without_a_row_that_counts_nothing_is_said(tmp_path: Path) -> None:
    assert verdicts.reading(derived(save([record(in_effect=False)], tmp_path))) is None
