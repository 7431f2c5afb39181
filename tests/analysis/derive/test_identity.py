"""Rows of different cases never look the same, in whichever field they differ."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from modescope.analysis import table
from modescope.analysis.derive import select
from modescope.analysis.derive.registry import derived
from modescope.analysis.derive.select import ordered
from modescope.analysis.report import report
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
from modescope.bench.records.results import Record, Work, work_of
from tests.helpers.made_up_records import plan
from tests.helpers.pages import Page
from tests.helpers.studies import record, save

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
    """Every two of VARIANTS, as a study of their own."""
    both = (rows.loc[list(pair)].reset_index(drop=True) for pair in combinations(rows.index, 2))
    return [pair.assign(apart=select.apart(pair)) for pair in both]


@pytest.mark.full
def test_all_lines_of_a_table_differ(pairs: list[pd.DataFrame]) -> None:
    for rows in pairs:
        _, *lines = table.text(rows).splitlines()
        assert len(rows) == 2
        assert _all_differ(_blocks(lines)), lines


def _blocks(lines: list[str]) -> list[str]:
    """Each row with its heading."""
    heading, found = "", []
    for line in lines:
        if line.startswith(" "):
            found.append(heading + line)
        else:
            heading = line
    return found


def _all_differ(told: Sequence[object]) -> bool:
    return len(set(told)) == len(told) == 2


@pytest.mark.full
def test_all_rows_of_a_report_differ(pairs: list[pd.DataFrame]) -> None:
    for rows in pairs:
        works = listing(Study("main", "main", ordered(rows), (), {}))["works"]
        shown = [
            (work.work, work.place, [cell.text for cell in row.leading])
            for work in works
            for row in work.rows
        ]
        assert _all_differ(list(map(repr, shown))), shown


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
    folder = save([*both, record("eager", speedup=1.0)], tmp_path)
    text = table.text(derived(folder))
    assert "compile (fullgraph=true)" in text
    assert "compile (fullgraph=false)" in text
    assert "eager (" not in text
    page = Page(report.write(folder).read_text()).text
    markdown = (folder / "report" / "report.md").read_text()
    for told in (page, markdown):
        assert min(told.count(f"compile (fullgraph={each})") for each in ("true", "false")) > 5
        assert "compile fp32" not in told
    drawn = (folder / "report" / "speedup-1.svg").read_text()
    assert "compile (fullgraph=false)" in drawn


def test_a_difference_at_one_size_names_the_rows_of_all_sizes(tmp_path: Path) -> None:
    records = [
        record("compile", case_id=f"{batch}-{fullgraph}", fullgraph=fullgraph, batch=batch,
               shape=f'{{"batch":{batch},"seq":64}}')
        for batch, fullgraph in ((1, True), (1, False), (8, True))
    ]  # fmt: skip
    rows = derived(save(records, tmp_path))
    assert Counter(rows["apart"]) == {"fullgraph=true": 2, "fullgraph=false": 1}


def test_cases_equal_in_all_columns_are_named_by_their_ids(tmp_path: Path) -> None:
    rows = derived(save([record(case_id="0123456789ab"), record(case_id="ba98")], tmp_path))
    assert sorted(rows["apart"]) == ["case 01234567", "case ba98"]


def test_rows_with_different_names_need_no_distinction(tmp_path: Path) -> None:
    kinds: list[dict[str, Any]] = [
        {"mode": "compile"}, {"mode": "eager"}, {"dtype": "bf16"}, {"threads": 2},
        {"compile_cache": "warm"}, {"baseline_dtype": "bf16"}, {"environment_id": "env-2"},
    ]  # fmt: skip
    records = [record(**kind, fullgraph=n % 2 == 0, case_id=f"{n}") for n, kind in enumerate(kinds)]
    assert derived(save(records, tmp_path))["apart"].isna().all()


def test_options_are_the_columns_of_a_case_not_in_its_name() -> None:
    assert set(select.OPTIONS) >= {"fullgraph", "batch_dim", "grad", "autocast", "compile_mode"}
    assert not {"model", "mode", "dtype", "threads", "shape", "batch"} & set(select.OPTIONS)


def test_gpus_of_one_name_are_distinguished(tmp_path: Path) -> None:
    gpus = [record(device=name, device_name="NVIDIA H200") for name in ("cuda", "cuda:1")]
    headings = [
        line for line in table.text(derived(save(gpus, tmp_path))).splitlines() if "·" in line
    ]
    assert len(set(headings)) == 2
    assert any("NVIDIA H200 (cuda:1), 1 thread" in line for line in headings)
