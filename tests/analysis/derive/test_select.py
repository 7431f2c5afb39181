from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modescope.analysis.derive.registry import derived
from modescope.analysis.derive.select import FAMILY, GROUP, SECTION, latest, parts, trusted
from modescope.analysis.load import samples as load
from modescope.bench.records.errors import UsageError
from tests.helpers.studies import cpu_sweep, not_measured, record, save, training


def test_the_newest_run_is_selected_even_if_it_failed(tmp_path: Path) -> None:
    study = save(
        [
            record("compile", 1e-3),
            record("compile", 2e-3),
            not_measured("compile", "oom", "out of memory"),
            record("eager"),
        ],
        tmp_path,
    )
    rows = latest(load(study)).set_index("mode")
    assert rows.loc["compile", "status"] == "oom"
    assert rows.loc["compile", "measured_times"] == 3
    assert rows.loc["eager", "measured_times"] == 1


def test_environments_have_their_own_rows(tmp_path: Path) -> None:
    study = save([record(environment_id="old"), record(environment_id="new")], tmp_path)
    rows = latest(load(study))
    assert list(rows["environment"]) == ["A", "B"]
    assert list(rows["measured_times"]) == [1, 1]


def test_a_run_without_an_environment_counts_to_the_previous_one(tmp_path: Path) -> None:
    study = save(
        [
            record(environment_id="old"),
            not_measured("compile", "crashed", "died", environment_id=None),
            record("eager", environment_id="new"),
        ],
        tmp_path,
    )
    rows = latest(load(study)).set_index("mode")
    assert dict(rows["environment"]) == {"compile": "A", "eager": "B"}
    assert rows.loc["compile", "status"] == "crashed"


def test_an_edited_model_has_its_own_row(tmp_path: Path) -> None:
    """The source includes the user's own loss, and differs between models."""
    runs = [
        record(model="custom:net:build", model_source_id="old"),
        record(model="custom:net:build", model_source_id="new"),
        not_measured("eager", "crashed", "died", model="custom:net:build", model_source_id=None),
        record(model="mlp", model_source_id="mlp"),
        record(model="mlp", model_source_id="loss", phase="train", training='{"loss":"net:loss"}'),
    ]
    rows = latest(load(save(runs, tmp_path)))
    assert list(rows["environment"]) == ["A", "A.2", "A.2", "A", "A"]


def test_each_process_has_a_row(tmp_path: Path) -> None:
    runs = [record(replicate=0), record(replicate=1), record(replicate=1)]
    rows = latest(load(save(runs, tmp_path)))
    assert list(rows["replicate"]) == [0, 1]
    assert list(rows["measured_times"]) == [1, 2]


@pytest.mark.parametrize("smoke", [{}, {"status": "failed", "reason": "why"}])
def test_a_smoke_run_never_supersedes_a_real_one(tmp_path: Path, smoke: dict[str, Any]) -> None:
    runs = [record(budget="quick"), record(budget="smoke[max_rounds=12]", **smoke)]
    (row,) = latest(load(save(runs, tmp_path))).to_dict("records")
    assert (row["budget"], row["status"], row["measured_times"]) == ("quick", "ok", 1)
    failed = [not_measured("compile", "failed", "why"), record(budget="smoke")]
    (row,) = latest(load(save(failed, tmp_path / "failed"))).to_dict("records")
    assert row["status"] == "failed"


def test_a_smoke_run_is_selected_where_there_is_no_other(tmp_path: Path) -> None:
    runs = [record(budget="smoke"), record(budget="smoke")]
    (row,) = latest(load(save(runs, tmp_path))).to_dict("records")
    assert (row["run_id"], row["measured_times"]) == (runs[1].attempt.run_id, 2)


@pytest.mark.parametrize(("column", "values"), [("compile_cache", ("cold", "warm")),
                                                ("device", ("cuda:0", "cuda:1"))])  # fmt: skip
def test_caches_and_devices_have_their_own_rows(
    tmp_path: Path, column: str, values: tuple[str, ...]
) -> None:
    columns: list[dict[str, Any]] = [{column: value} for value in values]
    study = save([record(**one) for one in columns], tmp_path)
    assert sorted(latest(load(study))[column]) == list(values)
    rows = derived(study)
    assert sorted(rows[column]) == list(values)
    assert list(rows["replicates"]) == [1, 1]


def test_only_the_requested_runs_are_selected(tmp_path: Path) -> None:
    runs = [record(environment_id="old"), record(), record("eager"), record()]
    asked = [runs[1].attempt.run_id]
    (row,) = latest(load(save(runs, tmp_path)), among=asked).to_dict("records")
    assert (row["run_id"], row["measured_times"], row["environment"]) == (asked[0], 1, "B")


def test_shapes_are_sorted_by_their_numbers(tmp_path: Path) -> None:
    batches = [record(shape=f'{{"batch":{n}}}', batch=n) for n in (64, 8, 256)]
    rows = derived(save([*batches, record(shape='{"batch":8}', baseline_mode=None)], tmp_path))
    assert [part["shape"].iloc[0] for part in parts(rows, SECTION)] == [
        '{"batch":8}', '{"batch":64}', '{"batch":256}',
    ]  # fmt: skip


OTHER_STEPS: list[dict[str, Any]] = [
    {"phase": "inference", "optimizer": None, "training": None},
    {"optimizer": "adamw", "training": '{"optimizer":"adamw"}'},
    {"training": '{"checkpoint":"model"}'},
]


@pytest.mark.parametrize("other", OTHER_STEPS, ids=str)
@pytest.mark.parametrize("by", [FAMILY, SECTION, GROUP])
def test_training_steps_of_different_options_are_in_different_sections(
    tmp_path: Path, by: tuple[str, ...], other: dict[str, Any]
) -> None:
    rows = derived(save([training(), training("eager"), training(**other)], tmp_path))
    assert sorted(len(part) for part in parts(rows, by)) == [1, 2]


def test_training_without_options_comes_first(tmp_path: Path) -> None:
    options = ['{"checkpoint":"model"}', "{}", '{"checkpoint":"model","lr":0.1}', '{"lr":0.1}']
    rows = derived(save([training(training=each) for each in options], tmp_path))
    assert [part["training"].iloc[0] for part in parts(rows, SECTION)] == [
        "{}", '{"checkpoint":"model"}', '{"lr":0.1}', '{"checkpoint":"model","lr":0.1}',
    ]  # fmt: skip


def test_only_runs_that_count_are_trusted(tmp_path: Path) -> None:
    few = record("eager", dtype="bf16", rounds=8)
    unknown = record("no_grad", dtype="bf16", in_effect=None)
    smoke = record("compile", dtype="bf16", budget="smoke")
    rows = trusted(derived(save([*cpu_sweep(), few, unknown, smoke], tmp_path)))
    assert sorted(rows["mode"]) == [
        "amp", "amp-compile", "compile", "eager", "inference_mode", "no_grad",
    ]  # fmt: skip


def test_a_study_without_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no row"):
        derived(save([], tmp_path))
