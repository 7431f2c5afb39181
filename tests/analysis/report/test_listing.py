"""The table of all rows: grouped by work, in both pages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from modescope.analysis.derive.registry import derived
from modescope.analysis.derive.select import ordered
from modescope.analysis.report import report
from modescope.analysis.report.listing import ListedWork, listing
from modescope.analysis.report.study import Study
from modescope.bench.records.cases import canonical_json
from modescope.bench.records.results import Record
from tests.helpers.studies import at_size, cpu_sweep, record, save, training


class Table(HTMLParser):
    """The cells of the table of all rows, a list per <tr>, under the heading of each <tbody>."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.head: list[str] = []
        self.works: dict[str, list[list[str]]] = {}
        self._row: list[str] = []
        self._inside = self._in_cell = False
        self._heading: str | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside |= tag == "table" and ("id", "table") in attrs
        if tag == "tr":
            self._row = []
        if tag in ("th", "td"):
            self._row.append("")
            self._in_cell = True
        if tag == "tbody":
            self._heading = None

    def handle_data(self, data: str) -> None:
        if self._in_cell:
            self._row[-1] += data

    def handle_endtag(self, tag: str) -> None:
        self._in_cell &= tag not in ("th", "td")
        if tag == "tr" and self._inside:
            self._end_row([" ".join(cell.split()) for cell in self._row])
        self._inside &= tag != "table"

    def _end_row(self, cells: list[str]) -> None:
        if not self.head:
            self.head = cells
        elif self._heading is None:
            (self._heading,) = cells
            assert self._heading not in self.works
            self.works[self._heading] = []
        else:
            self.works[self._heading].append(cells)


def _written(records: Iterable[Record], folder: Path) -> Table:
    return Table(report.write(save(records, folder)).read_text())


def _listed(records: Iterable[Record], folder: Path) -> list[ListedWork]:
    rows = ordered(derived(save(records, folder)))
    works: list[ListedWork] = listing(Study("main", "main", rows, (), {}))["works"]
    return works


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Table:
    records = [
        *cpu_sweep("mlp"),
        *cpu_sweep("transformer"),
        *(at_size("compile", 1.2, batch) for batch in (64, 8)),
        training(),
        training(optimizer="adamw"),
    ]
    return _written(records, tmp_path_factory.mktemp("results") / "main")


def test_every_work_has_one_heading(written: Table) -> None:
    place = "AMD EPYC 9554, 1 thread"
    assert list(written.works) == [
        f"mlp, batch 4, seq 64, inference on {place}",
        f"transformer, batch 4, seq 64, inference on {place}",
        f"transformer, batch 4, seq 64, train with adamw on {place}",
        f"transformer, batch 4, seq 64, train with sgd on {place}",
        f"transformer, batch 8, seq 64, inference on {place}",
        f"transformer, batch 64, seq 64, inference on {place}",
    ]


def test_whatever_sets_works_apart_makes_another_heading(tmp_path: Path) -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"model": "mlp"},
        {"model_args": '{"width":64}'},
        {"model_inputs": '{"x":[8,64]}'},
        {"shape": canonical_json({"batch": 8, "seq": 64})},
        {"phase": "train", "optimizer": "sgd"},
        {"training": '{"lr":0.1}'},
        {"threads": 2},
        {"device": "cuda", "device_name": "NVIDIA H200"},
        {"environment_id": "env-2"},
    ]
    records = [record(case_id=f"case {n}", **each) for n, each in enumerate(changes)]
    works = _listed(records, tmp_path)
    assert [len(work.rows) for work in works] == [1] * len(changes)
    assert len({work.work + work.place for work in works}) == len(changes)


def test_no_cell_of_a_row_repeats_its_heading(written: Table) -> None:
    for heading, rows in written.works.items():
        parts = set(re.split(", | on ", heading))
        assert parts >= {"seq 64"}
        for cells in rows:
            assert not parts & {piece for cell in cells for piece in cell.split(", ")}


def test_rows_of_a_work_are_fastest_first_and_those_without_a_result_last(written: Table) -> None:
    for rows in written.works.values():
        factors = [cells[2].partition("×")[0] for cells in rows]
        known = [float(factor) for factor in factors if factor != "–"]
        assert known == sorted(known, reverse=True)
        assert factors[len(known) :] == ["–"] * (len(rows) - len(known))
    assert len(written.works) == 6


def test_what_differs_within_a_work_is_a_column_and_what_is_equal_is_said_once(
    tmp_path: Path,
) -> None:
    equal = _written([record(), record("eager", speedup=1.0)], tmp_path / "equal")
    assert not {"against", "budget", "cache"} & set(equal.head)
    page = (tmp_path / "equal" / "report" / "index.html").read_text()
    assert "All rows: against eager fp32, budget=standard, compile_cache=cold." in page
    other_row = record("amp", baseline_dtype="bf16", budget="quick", compile_cache="warm")
    differing = _written([record(), other_row], tmp_path / "differing")
    assert differing.head[4:7] == ["against", "budget", "cache"]
    ((one, other),) = differing.works.values()
    assert {tuple(one[4:7]), tuple(other[4:7])} == {
        ("eager fp32", "standard", "cold"), ("eager bf16", "quick", "warm"),
    }  # fmt: skip


def test_outputs_that_were_not_checked_are_named(written: Table, tmp_path: Path) -> None:
    assert "unchecked" not in written.head
    written = _written([record(unchecked_outputs="['cache'] (Cache)")], tmp_path / "some")
    ((cells,),) = written.works.values()
    assert dict(zip(written.head, cells, strict=True))["unchecked"] == "['cache'] (Cache)"
