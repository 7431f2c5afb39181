from __future__ import annotations

import html
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from modescope.analysis.report import figures, report, study
from modescope.bench.records.results import Record
from tests.helpers.pages import Page
from tests.helpers.pass_columns import cpu_passes, cpu_training
from tests.helpers.studies import (
    batch_series,
    cpu_clocks,
    cpu_sweep,
    cuda_sweep,
    dispatch_series,
    not_measured,
    record,
    replicates,
    save,
)

SCRIPT = "custom:net:build<script>alert(1)</script>"


@pytest.fixture(scope="module")
def main(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study with a bit of everything, and its report."""
    odd: dict[str, Any] = {"model": SCRIPT, "shape": "{}", "model_args": '{"a|b":"`x`"}'}
    folder = save(
        [
            *cpu_sweep(),
            record("compile", speedup=2.0, **odd),
            record("eager", budget="smoke", rounds=3, **odd),
            not_measured("amp", "wrong_result", "relative error 0.3 > 0.06 | <b>bold</b>", **odd),
            not_measured("no_grad", "oom", "out of memory", **odd),
        ],
        tmp_path_factory.mktemp("results") / "main",
    )
    report.write(folder)
    return folder


@pytest.fixture(scope="module")
def html_text(main: Path) -> str:
    return (main / "report" / "index.html").read_text()


@pytest.fixture(scope="module")
def page(html_text: str) -> Page:
    return Page(html_text)


@pytest.fixture(scope="module")
def markdown(main: Path) -> str:
    return (main / "report" / "report.md").read_text()


def _texts(folder: Path) -> tuple[str, str]:
    """What both pages of a new report say."""
    page = Page(report.write(folder).read_text())
    return page.text, _plain((folder / "report" / "report.md").read_text())


def _plain(markdown: str) -> str:
    return html.unescape(re.sub(r"\\(?=[|`*_])", "", markdown))


def test_the_path_of_the_page_is_printed(main: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report.main([str(main)]) == 0
    assert capsys.readouterr().out == f"{main}/report/index.html\n"
    assert sorted(path.name for path in (main / "report").iterdir()) == [
        "index.html", "report.md", "speedup-1.svg", "speedup-2.svg",
    ]  # fmt: skip


def test_the_page_is_self_contained_and_well_formed(html_text: str, page: Page) -> None:
    assert all(load.startswith("#") for load in page.loads)
    assert not {"link", "img", "iframe", "object", "embed", "base"} & page.tags.keys()
    assert not [mark for mark in ("<script src", "://", "@import") if mark in html_text]


def test_the_page_has_landmarks_and_headings_in_order(page: Page) -> None:
    assert page.headings[0] == 1
    assert page.headings.count(1) == 1
    assert all(later <= earlier + 1 for earlier, later in pairwise(page.headings))
    assert page.tags["main"] == page.tags["header"] == page.tags["nav"] == 1
    assert len(page.ids) == len(set(page.ids))
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
    assert page.unscoped == 0


def _steps() -> list[Record]:
    return [one for batch in (1, 8, 64) for one in cpu_training(batch)[:2]]


@pytest.mark.parametrize(
    "records",
    [
        pytest.param(cpu_passes, id="sections"),
        pytest.param(dispatch_series, id="series", marks=pytest.mark.full),
        pytest.param(_steps, id="training", marks=pytest.mark.full),
    ],
)
def test_each_figure_has_a_text_and_its_numbers_beside_it(tmp_path: Path, records: Any) -> None:
    folder = save(records(), tmp_path)
    page = Page(report.write(folder).read_text())
    files = _figures(folder)
    assert page.tags["figure"] == len(files) == len(page.images)
    assert all(page.images)
    assert page.text.count("Numbers") == len(files)
    markdown = (folder / "report" / "report.md").read_text()
    assert all(f"]({name})" in markdown for name in files)
    assert markdown.count("<summary>Numbers</summary>") == len(files)


def test_every_link_to_raw_data_leads_there(main: Path, page: Page) -> None:
    links = [link for link in page.links if not link.startswith("#")]
    assert len(links) == 15
    assert all((main / "report" / unquote(link)).is_file() for link in links)


def test_every_process_of_a_case_is_linked(tmp_path: Path) -> None:
    index = report.write(save(replicates(3), tmp_path))
    links = [link for link in Page(index.read_text()).links if "/rows/" in link]
    assert len(links) == 3
    assert all((index.parent / link).is_file() for link in links)
    assert "process 3" in Page(index.read_text()).text


def test_a_script_in_a_name_is_text(html_text: str, page: Page, markdown: str) -> None:
    assert SCRIPT in page.text
    assert page.tags["script"] == 1
    assert "<b>bold" not in html_text
    code = "      python run.py"  # shown as it is
    assert not any(
        "<script>" in line and not line.startswith(code) for line in markdown.split("\n")
    )
    assert "\\| &lt;b&gt;bold" in markdown


def test_text_of_a_user_is_text_wherever_it_is_shown(tmp_path: Path) -> None:
    fields = ("model", "model_args", "command", "device_name", "reason")
    odd = {name: f'{{"a":"</script><script>alert("{name}")</script>"}}' for name in fields}
    failed = not_measured("no_grad", "oom", odd.pop("reason"))
    records = [record(**odd), record("eager"), failed]
    page = Page(report.write(save(records, tmp_path / "<script>study")).read_text())
    assert page.tags["script"] == 1
    assert [name for name in fields if f'alert("{name}")' not in page.text] == []
    assert "<script>study" in page.text


def test_rows_of_a_markdown_table_have_no_more_cells_than_its_head(markdown: str) -> None:
    width, tables = None, 0
    for line in markdown.splitlines():
        cells = len(re.findall(r"(?<!\\)\|", line)) - 1
        if not line.startswith("|"):
            width = None
        elif width is None:
            width, tables = cells, tables + 1
        else:
            assert cells <= width
    assert tables > 5


def test_a_markdown_table_has_its_second_line_beneath_its_head(markdown: str) -> None:
    lines = markdown.splitlines()
    heads = [n for n, line in enumerate(lines) if line.startswith("|") and lines[n - 1] == ""]
    assert all(re.fullmatch(r"\|(-+:?\|)+", lines[n + 1]) for n in heads)


def test_environments_are_compared_and_never_ranked_against_each_other(tmp_path: Path) -> None:
    other: dict[str, Any] = {"environment_id": "env-2", "torch_version": "2.12.0+cpu"}
    folder = save([record(speedup=2.0), record(speedup=3.0, **other)], tmp_path)
    text, _ = _texts(folder)
    assert "2 environments (A, B), which differ in environment_id, torch_version" in text
    assert "environment A, torch 2.13.0+cpu" in text
    assert text.count("over eager") == 2


def _figures(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "report").glob("*.svg"))


def test_sizes_come_first_and_of_many_no_shape_has_figures_of_its_own(tmp_path: Path) -> None:
    folder = save(dispatch_series(), tmp_path)
    told = _texts(folder)
    assert _figures(folder) == ["heatmap-1.svg", "scaling-1-1.svg"]
    for text in told:
        assert "Bound by overhead" in text
        assert "Each of the 5 shapes is in the table" in text


def test_a_few_shapes_of_a_series_keep_their_figures(tmp_path: Path) -> None:
    folder = save(batch_series((1, 8, 64)), tmp_path)
    report.write(folder)
    assert _figures(folder) == sorted([
        "heatmap-1.svg", "scaling-1-1.svg",
        *(f"{kind}-{n}.svg" for n in (1, 2, 3)
          for kind in ("fusion", "overhead", "speedup")),
    ])  # fmt: skip


def test_a_report_draws_a_limited_number_of_figures_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "MOST_FIGURES", 1)
    folder = save([*cpu_sweep("mlp"), *cpu_sweep("transformer")], tmp_path)
    for text in _texts(folder):
        assert text.count("No figure: a report draws at most 1") == 1
    assert _figures(folder) == ["speedup-1.svg"]


def test_sizes_that_are_not_drawn_are_told_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "MOST_FIGURES", 1)
    for text in _texts(save([*dispatch_series(), *batch_series()], tmp_path)):
        assert "further sizes No figure: a report draws at most 1" in " ".join(text.split())
    assert _figures(tmp_path) == ["heatmap-1.svg"]


def test_a_large_study_lists_the_best_of_each_work_and_says_how_to_see_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study, "MOST_LISTED", 4)
    folder = save([*cpu_sweep("mlp"), *cpu_sweep("transformer")], tmp_path / "large")
    page = Page(report.write(folder).read_text())
    assert "18 more rows are not on this page" in page.text
    assert "python -m modescope.analysis.table large --csv" in page.text
    rows = [name for name in page.ids if name.startswith("run-")]
    assert len(rows) == 4
    assert {link[1:] for link in page.links if link.startswith("#run-")} == set(rows)
    _, markdown = _texts(folder)
    assert "18 more rows are not listed" in markdown


def test_figures_of_an_earlier_report_are_removed_and_other_files_kept(tmp_path: Path) -> None:
    folder = save([record(**cpu_clocks(357e-6, 50e-6))], tmp_path)
    (folder / "report").mkdir()
    for name in ("slope-9.svg", "mine.svg"):
        (folder / "report" / name).touch()
    report.write(folder)
    assert _figures(folder) == ["mine.svg", "overhead-1.svg", "speedup-1.svg"]


def test_without_passes_there_is_nothing_of_them(html_text: str) -> None:
    assert not [title for title in ("Heaviest", "Operators,", "../traces/") if title in html_text]


def test_without_anything_to_chart_the_report_says_so(tmp_path: Path) -> None:
    folder = save([not_measured("compile", "crashed", "died")], tmp_path)
    for text in _texts(folder):
        assert "No figure: no run ended ok" in text
        assert "nothing can be recommended" in text
        assert "crashed: died" in text
    assert _figures(folder) == []


def test_nothing_flagged_and_nothing_left_out_is_said(tmp_path: Path) -> None:
    for text in _texts(save([record(), record("eager", speedup=1.0)], tmp_path)):
        assert "No flag was raised" in text
        assert "Nothing: every row counts" in text


def test_a_report_of_some_rows_says_of_which(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save([record(model="mlp"), *cuda_sweep()], tmp_path)
    assert report.main([str(tmp_path), "--where", "model == 'mlp'"]) == 0
    text = Page((tmp_path / "report" / "index.html").read_text()).text
    assert "Only rows that match model == 'mlp'" in text
    assert "1 case:" in text
    assert "transformer" not in text
    assert report.main([str(tmp_path), "--where", "model == 'other'"]) == 2
    assert "0 of 7 rows match --where \"model == 'other'\", so no report" in capsys.readouterr().err


def test_a_baseline_of_another_precision_is_named_with_a_space_between(tmp_path: Path) -> None:
    slower = [record("eager", speedup=1.0), record("amp", speedup=0.5, baseline_dtype="fp32")]
    page, markdown = _texts(save(slower, tmp_path))
    assert "eager fp32: no mode in bf16 is faster" in page
    assert "**eager** fp32: no mode in bf16 is faster" in markdown


def test_a_smoke_run_has_no_speedup_in_a_report(tmp_path: Path) -> None:
    smoke = record("eager", speedup=2.06, budget="smoke", rounds=3)
    for text in _texts(save([smoke, record("compile", speedup=1.3)], tmp_path)):
        assert "2.06" not in text
    assert 'data-key="2.06' not in (tmp_path / "report" / "index.html").read_text()


def test_no_table_of_facts_is_begun_where_nothing_is_recommended(tmp_path: Path) -> None:
    for budget, expected in (("smoke", False), ("quick", True)):
        folder = save([record("compile", speedup=1.3, budget=budget)], tmp_path / budget)
        page = report.write(folder).read_text()
        markdown = (folder / "report" / "report.md").read_text()
        assert ('<dl class="facts">' in page) is expected
        assert ("| | |\n|---|---|\n" in markdown.partition("## All rows")[0]) is expected


def test_no_path_of_this_machine_is_told(main: Path, html_text: str, markdown: str) -> None:
    assert str(main.parent) not in html_text + markdown


def test_the_same_study_gives_the_same_bytes(main: Path, html_text: str) -> None:
    assert report.write(main).read_text() == html_text


def test_files_that_could_not_be_read_are_named(tmp_path: Path) -> None:
    folder = save([record()], tmp_path)
    (folder / "rows" / "torn.parquet").write_bytes(b"PAR1 and no more")
    for text in _texts(folder):
        assert "1 file could not be read" in text
        assert "torn.parquet: cannot be read" in text


def test_a_missing_study_is_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report.main([str(tmp_path / "nowhere")]) == 2
    assert "nowhere" in capsys.readouterr().err


def _file_in_place_of_the_folder(report_folder: Path) -> None:
    report_folder.touch()


def _folder_in_place_of_a_page(report_folder: Path) -> None:
    (report_folder / "index.html").mkdir(parents=True)


def _folder_in_place_of_a_figure(report_folder: Path) -> None:
    (report_folder / "speedup-1.svg").mkdir(parents=True)


@pytest.mark.parametrize(
    "spoil",
    [_file_in_place_of_the_folder, _folder_in_place_of_a_page, _folder_in_place_of_a_figure],
)
def test_a_report_that_cannot_be_written_is_one_line_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], spoil: Callable[[Path], None]
) -> None:
    folder = save([record()], tmp_path)
    spoil(folder / "report")
    assert report.main([str(folder)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: the report cannot be written to {folder / 'report'} (")
    assert error.count("\n") == 1


def test_no_line_break_divides_a_quantity_of_the_advice(html_text: str) -> None:
    works = html_text.partition('<div class="works">')[2].partition("Speedups are paired")[0]
    shown = html.unescape(re.sub(r"<[^>]+>", "", works))
    assert re.search(r"\d\u00a0([nµm]?s\b|%)", shown)
    assert re.search(r"\[[\d.]+,\u00a0[\d.]+\]", shown)
    assert not re.search(r"\d ([KM]iB\b|[nµm]?s\b|%)|\d, [\d.]+\]", shown)
