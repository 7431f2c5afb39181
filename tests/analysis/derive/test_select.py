"""Which rows are selected, how they are grouped, and that different cases never look the same."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from modescope.analysis import table
from modescope.analysis.derive.registry import derived
from modescope.analysis.derive.select import (
    SECTION,
    apart,
    latest,
    parts,
)
from modescope.analysis.load import samples as load
from modescope.bench.records.cases import (
    Case,
    CompileOptions,
    Inference,
    Mode,
    Model,
    Training,
    Variant,
)
from modescope.bench.records.results import Record, Work, work_of
from tests.helpers.drawings import rows_of
from tests.helpers.made_up_records import plan
from tests.helpers.studies import not_measured, record, save, training

NET: dict[str, Any] = {"model": "custom:net:build"}


@pytest.mark.parametrize(
    ("columns", "runs", "expected"),
    [
        (  # the newest, even if it failed
            ["mode", "status", "measured_times"],
            [record(), record(), not_measured("compile", "oom", "no room"), record("eager")],
            [("compile", "oom", 3), ("eager", "ok", 1)],
        ),
        (
            ["environment", "measured_times"],
            [record(environment_id="old"), record(environment_id="new")],
            [("A", 1), ("B", 1)],
        ),
        (  # a run without an environment counts to the previous one
            ["mode", "environment", "status"],
            [
                record(environment_id="old"),
                not_measured("compile", "crashed", "died", environment_id=None),
                record("eager", environment_id="new"),
            ],
            [("compile", "A", "crashed"), ("eager", "B", "ok")],
        ),
        (  # an edited model; the source includes the user's own loss, and differs between models
            ["model", "environment", "phase"],
            [
                record(**NET, model_source_id="old"),
                record(**NET, model_source_id="new"),
                not_measured("eager", "crashed", "died", **NET, model_source_id=None),
                record(model="mlp", model_source_id="mlp"),
                record(model="mlp", model_source_id="loss", phase="train", training='{"lr":1}'),
            ],
            [
                ("custom:net:build", "A", "inference"),
                *[("custom:net:build", "A.2", "inference")] * 2,
                *[("mlp", "A", phase) for phase in ("inference", "train")],
            ],
        ),
        (  # each process
            ["replicate", "measured_times"],
            [record(replicate=0), record(replicate=1), record(replicate=1)],
            [(0, 1), (1, 2)],
        ),
        *(  # a smoke run never supersedes a real one
            (
                ["budget", "status", "measured_times"],
                [real, record(budget="smoke", status=status)],
                [kept],
            )
            for real, status, kept in (
                (record(budget="quick"), "ok", ("quick", "ok", 1)),
                (record(), "failed", ("standard", "ok", 1)),
                (not_measured("compile", "failed", "why"), "ok", ("standard", "failed", 1)),
                (record(budget="smoke"), "ok", ("smoke", "ok", 2)),
            )
        ),
    ],
)
def test_the_run_that_is_selected(
    tmp_path: Path, columns: list[str], runs: list[Record], expected: list[tuple[Any, ...]]
) -> None:
    rows = latest(load(save(runs, tmp_path)))
    assert sorted(rows[columns].itertuples(index=False, name=None)) == expected


def test_only_the_requested_runs_are_selected(tmp_path: Path) -> None:
    runs = [record(environment_id="old"), record(), record("eager"), record()]
    asked = [runs[1].attempt.run_id]
    (row,) = latest(load(save(runs, tmp_path)), among=asked).to_dict("records")
    assert (row["run_id"], row["measured_times"], row["environment"]) == (asked[0], 1, "B")


@pytest.mark.parametrize(
    ("column", "make", "ordered_values"),
    [
        ("shape", record, ['{"batch":8}', '{"batch":64}', '{"batch":256}']),
        (
            "training", training,
            ["{}", '{"checkpoint":"model"}', '{"lr":0.1}', '{"checkpoint":"model","lr":0.1}'],
        ),
    ],
)  # fmt: skip
def test_sections_are_sorted_by_numbers_and_plain_training_comes_first(
    tmp_path: Path, column: str, make: Callable[..., Record], ordered_values: list[str]
) -> None:
    records = [make(**{column: value}) for value in sorted(ordered_values)]
    rows = rows_of(tmp_path, *records)
    assert [part[column].iloc[0] for part in parts(rows, SECTION)] == ordered_values


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


def test_lines_of_csv_differ_in_more_than_their_ids(rows: pd.DataFrame) -> None:
    unknown = list(VARIANTS).index("baseline's grad")  # only the id differs: no column has it
    known = rows[~rows["case_id"].str.startswith(f"{unknown:08d}")]
    assert len(known) == len(rows) - 1 == len(VARIANTS) - 1
    ids = ["run_id", "case_id", "process_run_ids", "started_at", "command", "apart"]
    told = pd.read_csv(io.StringIO(table.csv(known)), dtype=str).drop(columns=ids)
    assert not told.duplicated().any()


KINDS: list[dict[str, Any]] = [
    {"mode": "compile"}, {"mode": "eager"}, {"dtype": "bf16"}, {"threads": 2},
    {"compile_cache": "warm"}, {"baseline_dtype": "bf16"}, {"environment_id": "env-2"},
]  # fmt: skip


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (  # a difference at one size names the rows of all sizes
            [
                record("compile", case_id=f"{batch}-{fullgraph}", fullgraph=fullgraph, batch=batch,
                       shape=f'{{"batch":{batch},"seq":64}}')
                for batch, fullgraph in ((1, True), (1, False), (8, True))
            ],
            {"fullgraph=true": 2, "fullgraph=false": 1},
        ),
        (  # equal in all columns
            [record(case_id="0123456789ab"), record(case_id="ba98")],
            {"case 01234567": 1, "case ba98": 1},
        ),
        (  # names that differ need no distinction
            [record(**kind, fullgraph=n % 2 == 0, case_id=f"{n}") for n, kind in enumerate(KINDS)],
            {},
        ),
    ],
)  # fmt: skip
def test_rows_of_one_name_are_set_apart(
    tmp_path: Path, records: list[Record], expected: dict[str, int]
) -> None:
    assert Counter(rows_of(tmp_path, *records)["apart"].dropna()) == expected
