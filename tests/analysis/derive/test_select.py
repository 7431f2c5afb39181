"""Which rows are selected, how they are grouped, and that different cases never look the same."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from modescope.analysis import table
from modescope.analysis.derive.registry import derived
from modescope.analysis.derive.select import (
    FAMILY,
    GROUP,
    OPTIONS,
    SECTION,
    apart,
    latest,
    ordered,
    parts,
    trusted,
)
from modescope.analysis.load import samples as load
from modescope.analysis.report.listing import listing
from modescope.analysis.report.study import Study
from modescope.bench.records.cases import (
    Case,
    CompileOptions,
    Inference,
    Mode,
    Model,
    Training,
    Variant,
)
from modescope.bench.records.errors import UsageError
from modescope.bench.records.results import Record, Work, work_of
from tests.helpers.drawings import rows_of
from tests.helpers.made_up_records import plan
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


def test_caches_and_devices_have_their_own_rows(tmp_path: Path) -> None:
    several = {"compile_cache": ["cold", "warm"], "device": ["cuda:0", "cuda:1"]}
    for column, values in several.items():
        records: list[Record] = [record(**{column: value}) for value in values]  # type: ignore[arg-type]
        rows = rows_of(tmp_path / column, *records)
        assert sorted(rows[column]) == values
        assert list(rows["replicates"]) == [1, 1]


def test_only_the_requested_runs_are_selected(tmp_path: Path) -> None:
    runs = [record(environment_id="old"), record(), record("eager"), record()]
    asked = [runs[1].attempt.run_id]
    (row,) = latest(load(save(runs, tmp_path)), among=asked).to_dict("records")
    assert (row["run_id"], row["measured_times"], row["environment"]) == (asked[0], 1, "B")


def test_shapes_are_sorted_by_their_numbers(tmp_path: Path) -> None:
    batches = [record(shape=f'{{"batch":{n}}}', batch=n) for n in (64, 8, 256)]
    rows = rows_of(tmp_path, *batches, record(shape='{"batch":8}', baseline_mode=None))
    assert [part["shape"].iloc[0] for part in parts(rows, SECTION)] == [
        '{"batch":8}', '{"batch":64}', '{"batch":256}',
    ]  # fmt: skip


def test_training_steps_of_different_options_are_in_different_sections(tmp_path: Path) -> None:
    others: list[dict[str, Any]] = [
        {"phase": "inference", "optimizer": None, "training": None},
        {"optimizer": "adamw", "training": '{"optimizer":"adamw"}'},
        {"training": '{"checkpoint":"model"}'},
    ]
    steps = (training(**other) for other in others)
    rows = rows_of(tmp_path, training(), training("eager"), *steps)
    for by in (FAMILY, SECTION, GROUP):
        assert sorted(len(part) for part in parts(rows, by)) == [1, 1, 1, 2]


def test_training_without_options_comes_first(tmp_path: Path) -> None:
    options = ['{"checkpoint":"model"}', "{}", '{"checkpoint":"model","lr":0.1}', '{"lr":0.1}']
    rows = rows_of(tmp_path, *(training(training=each) for each in options))
    assert [part["training"].iloc[0] for part in parts(rows, SECTION)] == [
        "{}", '{"checkpoint":"model"}', '{"lr":0.1}', '{"checkpoint":"model","lr":0.1}',
    ]  # fmt: skip


def test_only_runs_that_count_are_trusted(tmp_path: Path) -> None:
    few = record("eager", dtype="bf16", rounds=8)
    unknown = record("no_grad", dtype="bf16", in_effect=None)
    smoke = record("compile", dtype="bf16", budget="smoke")
    rows = trusted(rows_of(tmp_path, *cpu_sweep(), few, unknown, smoke))
    assert sorted(rows["mode"]) == [
        "amp", "amp-compile", "compile", "eager", "inference_mode", "no_grad",
    ]  # fmt: skip


def test_a_study_without_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no row"):
        derived(save([], tmp_path))


COMPILE = Mode("compile", "inference_mode", False, "default", False)
EAGER = Mode("eager", "enabled", False, "none", False)
TRAINED = Case(
    Model("custom:net:build", "net:build"), '{"batch":4,"seq":64}', Variant(COMPILE, "fp32"),
    Variant(EAGER, "fp32"), "cuda", 1, Training(),
)  # fmt: skip

# For each identifying field of a case, a value that differs from that of TRAINED.
MODELS: dict[str, Any] = {
    "name": "custom:net:other", "args_json": '{"width":8}', "fullgraph": False, "batch_dim": None,
    "inputs_json": "[[2,4]]",
}  # fmt: skip
MODES: dict[str, Any] = {
    "name": "compile[grad=no_grad]", "grad": "no_grad", "autocast": True, "compile": "max-autotune",
    "graph": True, "options": CompileOptions(dynamic=True),
}  # fmt: skip
TRAININGS: dict[str, Any] = {
    "optimizer": "adamw", "implementation": "fused", "capturable": True, "lr": 0.1, "scaler": True,
    "loss": "output", "capture": "forward_backward", "checkpoint": "model",
    "activation_memory_budget": 0.5,
}  # fmt: skip
CASES: dict[str, Any] = {
    "shape_json": '{"batch":8,"seq":64}', "device": "cuda:1", "threads": 2,
    "options": Inference(), "baseline": None,
}  # fmt: skip
NOT_SHOWN = {"target", "architecture", "pickled"}  # in the model's name, or follow from it


def _variants() -> Iterator[tuple[str, Case]]:
    """TRAINED with one field changed, for each of them."""
    yield "as it is", TRAINED
    yield from ((name, replace(TRAINED, **{name: value})) for name, value in CASES.items())
    for name, value in MODELS.items():
        yield name, replace(TRAINED, model=replace(TRAINED.model, **{name: value}))
    for name, value in TRAININGS.items():
        yield name, replace(TRAINED, options=replace(TRAINED.options, **{name: value}))
    for name, value in MODES.items():
        mode = replace(COMPILE, **{name: value})
        yield name, replace(TRAINED, variant=replace(TRAINED.variant, mode=mode))
    yield "dtype", replace(TRAINED, variant=replace(TRAINED.variant, dtype="tf32"))
    other = replace(EAGER, name="no_grad", grad="no_grad")
    yield "baseline's mode", replace(TRAINED, baseline=Variant(other, "fp32"))
    yield "baseline's dtype", replace(TRAINED, baseline=Variant(EAGER, "bf16"))
    unnamed = replace(EAGER, grad="no_grad")  # a mode of the user's own may have any name
    yield "baseline's grad", replace(TRAINED, baseline=Variant(unnamed, "fp32"))


VARIANTS = dict(_variants())


def _record(number: int, case: Case) -> Record:
    work = work_of(case, plan())
    columns = {field.name: getattr(work, field.name) for field in fields(Work)}
    mode = columns.pop("mode")
    return record(mode, **columns, case_id=f"{number:08d}")


def test_every_identifying_field_of_a_case_is_varied() -> None:
    for kind, tried in ((Model, MODELS), (Mode, MODES), (Training, TRAININGS)):
        assert {field.name for field in fields(kind)} - NOT_SHOWN == set(tried)
    assert {field.name for field in fields(Case)} == {*CASES, "model", "variant"}
    assert {field.name for field in fields(Variant)} == {"mode", "dtype"}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    records = [_record(*numbered) for numbered in enumerate(VARIANTS.values())]
    return derived(save(records, tmp_path_factory.mktemp("study")))


@pytest.fixture(scope="module")
def pairs(rows: pd.DataFrame) -> list[pd.DataFrame]:
    """TRAINED and each other one of VARIANTS, as a study of their own."""
    first, *others = rows.index
    both = (rows.loc[[first, other]].reset_index(drop=True) for other in others)
    return [pair.assign(apart=apart(pair)) for pair in both]


def test_both_lines_of_a_table_differ(pairs: list[pd.DataFrame]) -> None:
    for rows in pairs:
        _, *lines = table.text(rows).splitlines()
        assert len(set(_blocks(lines))) == 2, lines


def _blocks(lines: list[str]) -> list[str]:
    """Each row with its heading."""
    heading, found = "", []
    for line in lines:
        if line.startswith(" "):
            found.append(heading + line)
        else:
            heading = line
    return found


def test_both_rows_of_a_report_differ(pairs: list[pd.DataFrame]) -> None:
    for rows in pairs:
        works = listing(Study("main", "main", ordered(rows), (), {}))["works"]
        shown = {
            repr((work.work, work.place, [cell.text for cell in row.leading]))
            for work in works
            for row in work.rows
        }
        assert len(shown) == 2, shown


def test_lines_of_csv_differ_in_more_than_their_ids(rows: pd.DataFrame) -> None:
    unknown = list(VARIANTS).index("baseline's grad")  # only the id differs: no column has it
    known = rows[~rows["case_id"].str.startswith(f"{unknown:08d}")]
    assert len(known) == len(rows) - 1 == len(VARIANTS) - 1
    ids = ["run_id", "case_id", "process_run_ids", "started_at", "command", "apart"]
    told = pd.read_csv(io.StringIO(table.csv(known)), dtype=str).drop(columns=ids)
    assert not told.duplicated().any()


def test_rows_that_differ_in_fullgraph_name_it(tmp_path: Path) -> None:
    both = [
        record("compile", 300e-6, case_id=f"case-{fullgraph}", fullgraph=fullgraph)
        for fullgraph in (True, False)
    ]
    text = table.text(rows_of(tmp_path, *both, record("eager", speedup=1.0)))
    assert "compile (fullgraph=true)" in text
    assert "compile (fullgraph=false)" in text
    assert "eager (" not in text


def test_a_difference_at_one_size_names_the_rows_of_all_sizes(tmp_path: Path) -> None:
    records = [
        record("compile", case_id=f"{batch}-{fullgraph}", fullgraph=fullgraph, batch=batch,
               shape=f'{{"batch":{batch},"seq":64}}')
        for batch, fullgraph in ((1, True), (1, False), (8, True))
    ]  # fmt: skip
    rows = rows_of(tmp_path, *records)
    assert Counter(rows["apart"]) == {"fullgraph=true": 2, "fullgraph=false": 1}


def test_cases_equal_in_all_columns_are_named_by_their_ids(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, record(case_id="0123456789ab"), record(case_id="ba98"))
    assert sorted(rows["apart"]) == ["case 01234567", "case ba98"]


def test_rows_with_different_names_need_no_distinction(tmp_path: Path) -> None:
    kinds: list[dict[str, Any]] = [
        {"mode": "compile"}, {"mode": "eager"}, {"dtype": "bf16"}, {"threads": 2},
        {"compile_cache": "warm"}, {"baseline_dtype": "bf16"}, {"environment_id": "env-2"},
    ]  # fmt: skip
    records = [record(**kind, fullgraph=n % 2 == 0, case_id=f"{n}") for n, kind in enumerate(kinds)]
    assert rows_of(tmp_path, *records)["apart"].isna().all()


def test_options_are_the_columns_of_a_case_not_in_its_name() -> None:
    assert set(OPTIONS) >= {"fullgraph", "batch_dim", "grad", "autocast", "compile_mode"}
    assert not {"model", "mode", "dtype", "threads", "shape", "batch"} & set(OPTIONS)


def test_gpus_of_one_name_are_distinguished(tmp_path: Path) -> None:
    gpus = [record(device=name, device_name="NVIDIA H200") for name in ("cuda", "cuda:1")]
    lines = table.text(rows_of(tmp_path, *gpus)).splitlines()
    headings = [line for line in lines if "·" in line]
    assert len(set(headings)) == 2
    assert any("NVIDIA H200 (cuda:1), 1 thread" in line for line in headings)
