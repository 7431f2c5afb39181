from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pytest

from modescope.analysis.report import __main__, chapters, report
from tests.helpers.recommendations import control
from tests.helpers.studies import cpu_sweep, cuda_sweep, not_measured, record, replicates, save


@pytest.fixture(scope="module")
def main(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study with a bit of everything, and its report."""
    odd: dict[str, Any] = {"model": "custom:net:build", "shape": "{}"}
    records = [
        *cpu_sweep(),
        record("compile", speedup=2.0, **odd),
        record("eager", budget="smoke", rounds=3, speedup=2.06, **odd),
        not_measured("no_grad", "oom", "out of memory", **odd),
    ]
    folder = save(records, tmp_path_factory.mktemp("results") / "main")
    report.write(folder)
    return folder


def test_the_page_is_self_contained(main: Path) -> None:
    text = (main / "report" / "index.html").read_text()
    loads = re.findall(r'<(?!a\b)\w+[^>]*? (?:src|href|xlink:href)="([^"]*)"', text)
    assert [load for load in loads if not load.startswith("#")] == []
    assert not [mark for mark in ("<link", "<img", "<iframe", "://", "@import") if mark in text]
    assert "2.06" not in text  # a smoke run has no speedup
    assert str(main.parent) not in text + (main / "report" / "report.md").read_text()


def test_the_same_study_gives_the_same_bytes_in_the_folder_that_is_printed(
    main: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {path: path.read_bytes() for path in (main / "report").iterdir()}
    assert sorted(path.name for path in files) == [
        "index.html", "report.md", "speedup-1.svg", "speedup-2.svg",
    ]  # fmt: skip
    assert __main__.main([str(main)]) == 0
    assert capsys.readouterr().out == f"{main}/report/index.html\n"
    assert {path: path.read_bytes() for path in (main / "report").iterdir()} == files


def test_a_row_names_its_processes_and_links_the_files_that_are_there(tmp_path: Path) -> None:
    """A study may be passed on without its memory snapshots, which are large."""
    records = [*replicates(3), record("amp", trace="amp.json.gz", snapshot="amp.pickle")]
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "amp.json.gz").touch()
    page = report.write(save(records, tmp_path)).read_text()
    assert all(one.attempt.run_id in page for one in records)
    assert re.findall(r'href="([^"]*traces[^"]*)"', page) == ["../traces/amp.json.gz"]


def test_text_of_a_user_is_text_wherever_it_is_shown(tmp_path: Path) -> None:
    fields = ("model", "model_args", "command", "device_name", "reason")
    odd: dict[str, Any] = {
        name: f'{{"a":"</script><script>alert(\'{name}\')</script>"}}' for name in fields
    }
    failed = not_measured("no_grad", "oom", odd.pop("reason"))
    records = [record(**odd), record("eager"), failed]
    page = report.write(save(records, tmp_path / "<script>study")).read_text()
    assert page.count("<script") == 1
    shown = html.unescape(page)
    assert [name for name in fields if f"alert('{name}')" not in shown] == []
    assert "<script>study" in shown


def test_a_report_draws_a_limited_number_of_figures_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chapters, "MOST_FIGURES", 1)
    folder = save([*cpu_sweep("mlp"), *cpu_sweep("transformer")], tmp_path)
    (folder / "report").mkdir()
    for name in ("scaling-9.svg", "mine.svg"):
        (folder / "report" / name).touch()
    assert "a report draws at most 1" in report.write(folder).read_text()
    kept = sorted(path.name for path in (folder / "report").glob("*.svg"))
    assert kept == ["mine.svg", "speedup-1.svg"]  # those of an earlier report are gone


def test_a_report_of_some_rows_says_of_which(tmp_path: Path) -> None:
    save([record(model="mlp"), *cuda_sweep()], tmp_path)
    page = report.write(tmp_path, condition="model == 'mlp'").read_text()
    assert "Only rows that match <code>model == 'mlp'</code>" in html.unescape(page)
    assert "transformer" not in page


def test_a_report_that_cannot_be_written_is_one_line_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = save([record()], tmp_path)
    (folder / "report" / "speedup-1.svg").mkdir(parents=True)
    assert __main__.main([str(folder)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: the report cannot be written to {folder / 'report'} (")


def test_the_list_of_answers_names_a_mode_and_a_package_of_each_work(tmp_path: Path) -> None:
    built: dict[str, Any] = {"package_export_s": 1.0, "package_build_s": 30.0, "package_bytes": 9}
    works: list[dict[str, Any]] = [{"shape": '{"batch":4}'}, {"shape": '{"batch":8}', "model": "x"}]
    records = [
        made
        for work in works
        for made in (control(**work), record("compile", 100e-6, 1.5, spread=0.03, **work))
    ]
    page = report.write(
        save([*records, record("aoti", 90e-6, 2.0, **works[0], **built)], tmp_path)
    ).read_text()
    (listed,) = re.findall(r'<ul class="answers">(.*?)</ul>', page, re.DOTALL)
    assert [re.findall("<b>(.*?)</b>", line) for line in listed.split("<li>")[1:]] == [
        ["compile", "aoti"],
        ["compile"],
    ]
