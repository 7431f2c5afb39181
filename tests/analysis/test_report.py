from __future__ import annotations

import html
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from analysis import pictures, report
from tests.analysis.passes import cpu_passes, cpu_training, cuda_passes, cuda_training
from tests.analysis.studies import (
    batch_series,
    cpu_clocks,
    cpu_sweep,
    cuda_sweep,
    dispatch_series,
    not_measured,
    record,
    save,
    training,
)

SCRIPT = "custom:net:build<script>alert(1)</script>"
_VOID = {"meta", "br"}


class _Page(HTMLParser):
    """Collects the text, the tags and what is loaded; fails on tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.ids: list[str] = []
        self.loads: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        values = dict(attrs)
        self.ids += [values["id"] or ""] if "id" in values else []
        loading = ("src", "href", "xlink:href") if tag != "a" else ("src",)
        self.loads += [values[name] or "" for name in loading if name in values]
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    odd: dict[str, Any] = {"model": SCRIPT, "shape": "{}", "model_args": '{"a|b":"`x`"}'}
    return save(
        [
            *cpu_sweep(),
            record("compile", speedup=2.0, **odd),
            record("eager", budget="smoke", rounds=3, **odd),
            not_measured("amp", "wrong_result", "relative error 0.3 > 0.06 | <b>bold</b>", **odd),
            not_measured("no_grad", "oom", "out of memory", **odd),
        ],
        tmp_path / "main",
    )


def test_the_path_of_the_page_is_printed(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report.main([str(study)]) == 0
    assert capsys.readouterr().out == f"{study}/report/index.html\n"
    assert sorted(path.name for path in (study / "report").iterdir()) == [
        "index.html", "latency-1.svg", "latency-2.svg", "report.md", "speedup-1.svg",
        "speedup-2.svg", "waterfall-2.svg",
    ]  # fmt: skip


def test_the_page_is_self_contained_and_well_formed(study: Path) -> None:
    text = report.write(study).read_text()
    page = _Page(text)
    assert all(load.startswith("#") for load in page.loads)
    assert not {"script", "link", "img", "iframe"} & page.tags
    assert "://" not in text
    assert "@import" not in text
    sections = [name for name in page.ids if name.startswith("section-")]
    assert sections == ["section-1", "section-2"]


def test_a_script_in_a_name_is_text(study: Path) -> None:
    text = report.write(study).read_text()
    assert SCRIPT in "".join(_Page(text).words)
    assert "<b>bold" not in text
    markdown = (study / "report" / "report.md").read_text()
    code = "    python run.py"  # shown as it is
    assert not any(
        "<script>" in line and not line.startswith(code) for line in markdown.split("\n")
    )
    assert "\\| &lt;b&gt;bold" in markdown


def test_both_pages_say_the_verdict_and_what_was_left_out(study: Path) -> None:
    page = " ".join("".join(_Page(report.write(study).read_text()).words).split())
    markdown = (study / "report" / "report.md").read_text()
    for text in (page, markdown):
        assert "compile is faster than eager fp32: 1.311× [1.302, 1.320]" in text
        assert "Noise floor: eager fp32 against itself" in text
        assert "no_grad fp32: oom: out of memory" in text
        assert "eager fp32: budget=smoke proves only that it runs" in text
        assert "cuda-graph fp32: skipped: graph=true" in text
        assert "python run.py model=transformer mode=compile dtype=fp32" in text
        assert "All rows were measured in one environment: AMD EPYC 9554" in text


def test_rows_of_a_markdown_table_have_no_more_cells_than_its_head(study: Path) -> None:
    report.write(study)
    width = None
    for line in (study / "report" / "report.md").read_text().splitlines():
        cells = len(re.findall(r"(?<!\\)\|", line)) - 1
        if not line.startswith("|"):
            width = None
        elif width is None:
            width = cells
        else:
            assert cells <= width


def test_environments_are_compared_and_never_ranked_against_each_other(tmp_path: Path) -> None:
    other: dict[str, Any] = {"environment_id": "env-2", "torch_version": "2.12.0+cpu"}
    study = save([record(speedup=2.0), record(speedup=3.0, **other)], tmp_path)
    text = report.write(study).read_text()
    assert "2 environments (A, B), which differ in environment_id, torch_version" in text
    assert text.count("compile is faster") == 2


def _figures(study: Path) -> list[str]:
    return sorted(path.name for path in (study / "report").glob("*.svg"))


def test_a_series_comes_first_and_many_shapes_are_folded_away(tmp_path: Path) -> None:
    study = save(dispatch_series(), tmp_path)
    text = report.write(study).read_text()
    page = _Page(text)
    assert [name for name in page.ids if "-" in name] == [
        "series-1-1", *(f"section-{n}" for n in range(1, 6)),
    ]  # fmt: skip
    assert _figures(study) == ["scaling-1-1.svg", "slope-1-1.svg"]
    assert text.count("<figure>") == 2
    assert "verdicts for each of 5 shapes" in text
    words = " ".join("".join(page.words).split())
    markdown = (study / "report" / "report.md").read_text()
    for told in (words, html.unescape(markdown).replace("\\", "")):
        assert "Dispatch per op, cheapest first: compile" in told
        assert "Bound by overhead, as dispatch takes more than half of the call: eager" in told
        assert "compile is faster than eager fp32: 4.67×" in told
        assert told.index("over ops on") < told.index("ops 4, width 64, inference")


def test_a_few_shapes_of_a_series_keep_their_figures(tmp_path: Path) -> None:
    study = save(batch_series((1, 8, 64)), tmp_path)
    report.write(study)
    assert _figures(study) == sorted([
        "scaling-1-1.svg",
        *(f"{kind}-{n}.svg" for n in (1, 2, 3)
          for kind in ("fusion", "latency", "overhead", "speedup", "waterfall")),
    ])  # fmt: skip


def test_figures_of_an_earlier_report_are_removed_and_other_files_kept(tmp_path: Path) -> None:
    study = save([record(**cpu_clocks(357e-6, 50e-6))], tmp_path)
    (study / "report").mkdir()
    for name in ("slope-9.svg", "mine.svg"):
        (study / "report" / name).touch()
    report.write(study)
    assert _figures(study) == ["latency-1.svg", "mine.svg", "overhead-1.svg", "speedup-1.svg"]


def test_flags_are_explained_where_they_are_shown(tmp_path: Path) -> None:
    study = save(cuda_sweep(), tmp_path)
    page = report.write(study).read_text()
    markdown = (study / "report" / "report.md").read_text()
    for text in (page, markdown):
        assert "launches could not be queued ahead" in text
        assert "neighbouring rounds" not in text  # a flag that nobody raised


def test_what_the_passes_found_has_figures_tables_and_links(tmp_path: Path) -> None:
    study = save([*cpu_passes(), *cuda_passes()], tmp_path)
    page = report.write(study).read_text()
    markdown = (study / "report" / "report.md").read_text()
    assert len(_figures(study)) == 2 * len(pictures.KINDS[:6])
    for text in (page, markdown):
        assert "../traces/compile.json.gz" in text
        assert "From eager (468 µs)" in text
        assert "free in a graph pool, for its replays alone" in text
        assert "../traces/cuda-graph.pickle" in text
        for title in ("Heaviest kernels", "Heaviest operators", "Operators, generated code"):
            assert title in text
        assert "20.0 MiB (30.0 MiB less)" in text
        assert "fusion gain" in text
    assert "<td>aten::addmm</td>" in page
    assert "| compile fp32 | aten::addmm | 9 | 293 µs | 100 % |" in markdown
    assert "| compile fp32 | aten::linear | 9 | 293 µs | 50 % |" in markdown


def test_training_has_figures_of_its_own_and_options_sections(tmp_path: Path) -> None:
    other = training("compile", training='{"lr":0.1}', part_spread=0.01)
    series = [one for batch in (1, 8, 64) for one in cpu_training(batch)[:1]]
    study = save([*series, *cuda_training(), other], tmp_path)
    page = report.write(study).read_text()
    markdown = (study / "report" / "report.md").read_text()
    assert "saved-1-1.svg" in _figures(study)
    assert [name for name in _figures(study) if name.startswith("parts-")] == [
        f"parts-{n}.svg" for n in range(1, 6)
    ]
    for text in (page, markdown):
        assert "transformer, seq 64, train with sgd: over batch" in text
        assert "transformer, batch 4, seq 64, train with sgd, lr 0.1" in text
        assert "transformer, batch 4, seq 64, train with adamw" in text
        assert "Saved for a backward per unit of batch: eager 640 KiB" in text
        assert "Not taken apart: cuda-graph fp32" in text
        assert "65,536, overflow skipped" in text


def test_without_passes_there_is_nothing_of_them(study: Path) -> None:
    page = report.write(study).read_text()
    assert not [title for title in ("Heaviest", "Operators,", "../traces/") if title in page]


def test_without_anything_to_chart_the_report_says_so(tmp_path: Path) -> None:
    study = save([not_measured("compile", "crashed", "died")], tmp_path)
    text = report.write(study).read_text()
    assert "No figure: no run of these ended ok" in text
    assert "Nothing can be said" in text
    assert not list((study / "report").glob("*.svg"))


def test_the_same_study_gives_the_same_bytes(study: Path) -> None:
    first = report.write(study).read_bytes()
    assert report.write(study).read_bytes() == first


def test_a_missing_study_is_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report.main([str(tmp_path / "nowhere")]) == 2
    assert "nowhere" in capsys.readouterr().err
