"""The modes of each work against each other, in both pages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from modescope.analysis.derive.registry import derived
from modescope.analysis.derive.select import ordered
from modescope.analysis.report import ratios as part
from modescope.analysis.report import report
from modescope.analysis.report.ratios import Ratios, ratios
from modescope.analysis.report.study import Study
from modescope.bench.records.results import Record
from tests.helpers.studies import record, save


def _content(folder: Path, *records: Record) -> dict[str, Any]:
    rows = ordered(derived(save(records, folder)))
    return ratios(Study("main", "main", rows, (), {}))


def _cells(table: Ratios) -> dict[tuple[str, str], tuple[str, bool]]:
    names = [name.text.removesuffix(" fp32") for name in table.names]
    return {
        (one, other): (cell.text, cell.decided)
        for one, cells in zip(names, table.rows, strict=True)
        for other, cell in zip(names, cells, strict=True)
    }


MODES = {"eager": 0.99, "inference_mode": 1.25, "compile": 1.26}


def _three(**columns: Any) -> list[Record]:
    return [record(mode, speedup=speedup, **columns) for mode, speedup in MODES.items()]


def test_each_mode_stands_against_each_other(tmp_path: Path) -> None:
    content = _content(tmp_path, *_three())
    (table,) = content["tables"]
    assert content["widening"] == "3 %"
    assert table.title == "transformer, batch 4, seq 64, inference"
    assert table.baseline == "eager fp32"
    cells = _cells(table)
    assert len(cells) == 9
    assert cells["compile", "eager"] == ("1.260× [1.252, 1.268]", True)
    assert cells["eager", "compile"] == ("0.794× [0.788, 0.799]", True)
    assert cells["compile", "inference_mode"] == ("1.01× [0.97, 1.05]", False)
    assert {cells[mode, mode] for mode in MODES} == {("1.00×", False)}


def test_between_replicates_nothing_is_widened(tmp_path: Path) -> None:
    repeated = [one for number in range(3) for one in _three(replicate=number)]
    assert _content(tmp_path / "three", *repeated)["widening"] == ""


def test_works_have_tables_of_their_own_by_baseline(tmp_path: Path) -> None:
    bf16: dict[str, Any] = {"dtype": "bf16", "baseline_dtype": "bf16"}
    content = _content(tmp_path, *_three(), *_three(**bf16), *_three(model="mlp"))
    assert [(table.title.split(",")[0], table.baseline) for table in content["tables"]] == [
        ("mlp", "eager fp32"), ("transformer", "eager bf16"), ("transformer", "eager fp32"),
    ]  # fmt: skip


def test_rows_that_do_not_count_are_not_in_it(tmp_path: Path) -> None:
    idle = record("reduce-overhead", in_effect=False, in_effect_note="why")
    (table,) = _content(tmp_path, *_three(), idle, record("amp", budget="smoke"))["tables"]
    assert sorted(mode for mode, _ in _cells(table)) == sorted([*MODES] * 3)


def test_without_two_modes_there_is_no_such_part(tmp_path: Path) -> None:
    records = [record("eager"), record("compile")]
    assert _content(tmp_path, *records) == {}


def test_long_tables_and_many_works_are_cut_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part, "MOST_MODES", 2)
    monkeypatch.setattr(part, "MOST_WORKS", 1)
    content = _content(tmp_path, *_three(), *_three(model="mlp"))
    (table,) = content["tables"]
    assert [name.text for name in table.names] == ["compile fp32", "inference_mode fp32"]
    assert (table.more, content["more"]) == (1, 1)


def test_both_pages_mark_what_is_decided(tmp_path: Path) -> None:
    path = report.write(save(_three(), tmp_path))
    page, text = path.read_text(), (path.parent / "report.md").read_text()
    part = page.partition('<section id="ratios"')[2].partition("</section>")[0]
    assert len(re.findall(r'<td class="decided">', part)) == 4  # to and of the baseline
    assert "**1.260× [1.252, 1.268]**" in text
    assert "| 1.01× [0.97, 1.05] |" in text
    assert "widened by 3" in part
