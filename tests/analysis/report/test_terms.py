"""A page explains the words that it uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from modescope.analysis.derive.registry import derived
from modescope.analysis.report.study import Study
from modescope.analysis.report.terms import OF_TRAINING, TERMS, terms
from tests.helpers.studies import record, save


@pytest.mark.parametrize(
    ("phases", "trained"),
    [(("inference",), False), (("train",), True), (("inference", "train"), True)],
)
def test_words_of_training_are_explained_where_there_is_training(
    tmp_path: Path, phases: tuple[str, ...], trained: bool
) -> None:
    records = [record(phase=phase, case_id=phase) for phase in phases]
    rows = derived(save(records, tmp_path))
    explained = terms(Study("main", "results/main", rows, (), {}))
    assert set(explained) == set(TERMS) | (set(OF_TRAINING) if trained else set())
