from __future__ import annotations

import html
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from modescope.analysis.report import figures, report, study
from tests.helpers.pages import Page
from tests.helpers.studies import (
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


def test_each_figure_has_a_text_and_its_numbers_beside_it(
    main: Path, page: Page, markdown: str
) -> None:
    files = _figures(main)
    assert page.tags["figure"] == len(files) == len(page.images)
    assert all(page.images)
    assert page.text.count("Numbers") == len(files)
    assert all(f"]({name})" in markdown for name in files)
    assert markdown.count("<summary>Numbers</summary>") == len(files)


def test_a_row_names_its_processes_and_links_the_files_that_are_there(tmp_path: Path) -> None:
    """A study may be passed on without its memory snapshots, which are large."""
    records = [*replicates(3), record("amp", trace="amp.json.gz", snapshot="amp.pickle")]
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "amp.json.gz").touch()
    page = Page(report.write(save(records, tmp_path)).read_text())
    assert all(one.attempt.run_id in page.text for one in records)
    assert [link for link in page.links if "traces" in link] == ["../traces/amp.json.gz"]


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
    odd: dict[str, Any] = {
        name: f'{{"a":"</script><script>alert("{name}")</script>"}}' for name in fields
    }
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


def _figures(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "report").glob("*.svg"))


def test_sizes_come_first_and_of_many_no_shape_has_figures_of_its_own(tmp_path: Path) -> None:
    folder = save(dispatch_series(), tmp_path)
    told = _texts(folder)
    assert _figures(folder) == ["heatmap-1.svg", "scaling-1-1.svg"]
    for text in told:
        assert "Bound by overhead" in text
        assert "Each of the 5 shapes is in the table" in text


def test_a_report_draws_a_limited_number_of_figures_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "MOST_FIGURES", 1)
    folder = save([*cpu_sweep("mlp"), *cpu_sweep("transformer")], tmp_path)
    (folder / "report").mkdir()
    for name in ("scaling-9.svg", "mine.svg"):
        (folder / "report" / name).touch()
    for text in _texts(folder):
        assert text.count("No figure: a report draws at most 1") == 1
    assert _figures(folder) == ["mine.svg", "speedup-1.svg"]  # those of an earlier report are gone


def test_a_large_study_lists_the_best_of_each_work_and_says_how_to_see_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study, "MOST_LISTED", 4)
    folder = save([*cpu_sweep("mlp"), *cpu_sweep("transformer")], tmp_path / "large")
    page = Page(report.write(folder).read_text())
    markdown = (folder / "report" / "report.md").read_text()
    assert "18 more rows are not on this page" in page.text
    assert "python -m modescope.analysis.table large --csv" in page.text
    rows = [name for name in page.ids if name.startswith("run-")]
    assert len(rows) == 4
    assert {link[1:] for link in page.links if link.startswith("#run-")} == set(rows)
    assert "18 more rows are not listed" in markdown


def test_without_passes_there_is_nothing_of_them(html_text: str) -> None:
    assert not [title for title in ("Heaviest", "Operators,", "../traces/") if title in html_text]


def test_without_anything_to_chart_the_report_says_so(tmp_path: Path) -> None:
    folder = save([not_measured("compile", "crashed", "died")], tmp_path)
    for text in _texts(folder):
        assert "No figure: no run ended ok" in text
        assert "nothing can be recommended" in text
        assert "crashed: died" in text
    assert _figures(folder) == []


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


def test_a_smoke_run_has_no_speedup_in_a_report(tmp_path: Path) -> None:
    smoke = record("eager", speedup=2.06, budget="smoke", rounds=3)
    for text in _texts(save([smoke, record("compile", speedup=1.3)], tmp_path)):
        assert "2.06" not in text
    assert 'data-key="2.06' not in (tmp_path / "report" / "index.html").read_text()


def test_no_path_of_this_machine_is_told(main: Path, html_text: str, markdown: str) -> None:
    assert str(main.parent) not in html_text + markdown


def test_the_same_study_gives_the_same_bytes_in_the_folder_that_is_printed(
    main: Path, html_text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report.main([str(main)]) == 0
    assert capsys.readouterr().out == f"{main}/report/index.html\n"
    assert (main / "report" / "index.html").read_text() == html_text
    assert sorted(path.name for path in (main / "report").iterdir()) == [
        "index.html", "report.md", "speedup-1.svg", "speedup-2.svg",
    ]  # fmt: skip


def test_a_report_that_cannot_be_written_is_one_line_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = save([record()], tmp_path)
    (folder / "report" / "speedup-1.svg").mkdir(parents=True)
    assert report.main([str(folder)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: the report cannot be written to {folder / 'report'} (")
    assert error.count("\n") == 1


def test_no_line_break_divides_a_quantity_of_the_advice(html_text: str) -> None:
    works = html_text.partition('<div class="works">')[2].partition("Speedups are paired")[0]
    told = re.sub(r"<figure>.*?</figure>", "", works, flags=re.DOTALL)
    shown = html.unescape(re.sub(r"<[^>]+>", "", told))
    assert re.search(r"\d\u00a0([nµm]?s\b|%)", shown)
    assert re.search(r"\[[\d.]+,\u00a0[\d.]+\]", shown)
    assert not re.search(r"\d ([KM]iB\b|[nµm]?s\b|%)|\d, [\d.]+\]", shown)
