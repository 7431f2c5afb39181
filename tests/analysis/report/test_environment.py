"""In what a report says that its environments differ."""

from __future__ import annotations

from pathlib import Path

from modescope.analysis.derive.registry import derived
from modescope.analysis.report.environment import environments
from modescope.bench.records.results import Record
from tests.helpers.studies import record, save, training


def _told(folder: Path, *records: Record) -> tuple[str, set[str]]:
    found = environments(derived(save(records, folder)))
    return found["sentence"], {fact["name"] for fact in found["facts"] if fact["differs"]}


def test_each_model_has_a_source_of_its_own(tmp_path: Path) -> None:
    sentence, differing = _told(
        tmp_path,
        record(model="mlp", model_source_id="one"),
        record(model="transformer", model_source_id="two"),
        training(model="mlp", model_source_id="with a loss"),
    )
    assert sentence == "All rows were measured in one environment: AMD EPYC 9554, torch 2.13.0+cpu."
    assert differing == set()


def test_a_model_that_was_changed_is_told(tmp_path: Path) -> None:
    sentence, differing = _told(
        tmp_path,
        record("compile", model="mlp", model_source_id="old"),
        record("no_grad", model="mlp", model_source_id="new"),
        record(model="transformer", model_source_id="two"),
    )
    assert sentence == (
        "Rows come from 2 environments (A, A.2), which differ in model_source_id; rows of "
        "different environments are never ranked against each other."
    )
    assert differing == {"model_source_id"}


def test_two_machines_with_other_models_do_not_differ_in_their_source(tmp_path: Path) -> None:
    sentence, _ = _told(
        tmp_path,
        record(model="mlp", model_source_id="one"),
        record(model="transformer", model_source_id="two", environment_id="env-2", host="other"),
    )
    assert "which differ in environment_id, host;" in sentence


def test_another_commit_in_one_environment_is_told(tmp_path: Path) -> None:
    sentence, _ = _told(tmp_path, record(), record("no_grad", git_commit="fedcba9876543210"))
    assert sentence == "Rows differ in git_commit."
