"""In what a report says that its environments differ."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from modescope.analysis.derive.registry import derived
from modescope.analysis.report.environment import environments
from modescope.bench.records.results import Record
from tests.helpers.studies import record, save, training

OTHER = record(model="transformer", model_source_id="two")


@pytest.mark.parametrize(
    ("records", "differing"),
    [
        (  # each model has a source of its own, and so has a user's loss
            [record(model="mlp", model_source_id="one"), OTHER,
             training(model="mlp", model_source_id="with a loss")],
            [],
        ),
        (
            [record("compile", model="mlp", model_source_id="old"),
             record("no_grad", model="mlp", model_source_id="new"), OTHER],
            ["model_source_id"],
        ),
        (
            [record(model="mlp", model_source_id="one", environment_id="env-2", host="other"),
             OTHER],
            ["environment_id", "host"],
        ),
    ],
)  # fmt: skip
def test_what_differs_between_comparable_rows(
    tmp_path: Path, records: Sequence[Record], differing: Sequence[str]
) -> None:
    found = environments(derived(save(records, tmp_path)))
    assert [fact["name"] for fact in found["facts"] if fact["differs"]] == differing
