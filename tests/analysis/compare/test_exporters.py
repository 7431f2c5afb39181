"""A comparison in every form: the sentence first, all rows, within the limits of GitHub."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest

from modescope.analysis.compare import exporters
from modescope.analysis.compare.gate import NOT_COMPARED, PASSED, Compared, Comparison
from modescope.analysis.format.phrases import WIDTH
from modescope.bench.stats.estimates import Estimate
from tests.helpers.comparisons import REQUEST, compared, of_mode, processes
from tests.helpers.json_schema import faults
from tests.helpers.paths import ROOT
from tests.helpers.studies import not_measured

SCHEMA = json.loads((ROOT / "docs/compare.schema.json").read_text())
REFUSED = Comparison(
    REQUEST, NOT_COMPARED, "OLD: no <study> | at x", (), False, (), (), (), ()
)  # fmt: skip


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    """A slower row with more kernels, a failure with an odd reason, new and missing rows."""
    old = processes(1, torch_version="2.12")
    new = processes(
        2, {"compile": 1.06}, torch_version="2.13", of_mode={"compile": {"kernels": 14}}
    )
    odd = "\x1b[31mno *kernel* | <b>\n&"
    return compared(
        [*old, *processes(3, modes=("compile",), count=1, dtype="bf16", case_id="gone")],
        [*(one for one in new if one.work.mode != "no_grad"),
         not_measured("no_grad", "crashed", odd, torch_version="2.13"),
         *processes(4, modes=("compile",), count=1, dtype="fp16", case_id="fresh")],
    )  # fmt: skip


@pytest.fixture(scope="module")
def large(comparison: Comparison) -> Comparison:
    """A thousand rows, of which every tenth fails."""
    rows: list[Compared] = []
    for number in range(1000):
        one = of_mode(comparison, "no_grad" if number % 10 == 0 else "eager")
        case = {**one.pair.row, "case_id": f"{number}", "mode": f"mode-{number}"}
        rows.append(replace(one, pair=replace(one.pair, row=case)))
    return replace(comparison, rows=tuple(rows))


def test_the_sentence_comes_first(comparison: Comparison) -> None:
    lines = exporters.terminal(comparison).splitlines()
    assert lines[0] == comparison.sentence
    assert comparison.sentence == (
        "Regression: 3 of 6 rows fail (1 no longer ok, 1 missing, 1 slower)."
    )
    assert max(map(len, lines)) <= WIDTH
    assert exporters.markdown(comparison).startswith("**Regression: 3 of 6 rows fail")


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (Estimate(0.048, 0.041, 0.055), "+4.8 % [+4.1, +5.5]"),
        (Estimate(-0.0001, -0.02, 0.02), "+0.0 % [-2.0, +2.0]"),
        (Estimate(0.0012, 0.0008, 0.0016), "+0.12 % [+0.08, +0.16]"),
        (Estimate(0.5, None, None), "+50.0 %"),
        (None, "–"),
    ],
)
def test_changes_as_text(estimate: Estimate | None, text: str) -> None:
    assert exporters.change(estimate) == text


def content_of(one: Comparison) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(exporters.document(one))
    return content


def test_json_is_as_the_schema_says(comparison: Comparison, large: Comparison) -> None:
    for one in (comparison, large, REFUSED):
        content = content_of(one)
        assert list(faults(content, SCHEMA, SCHEMA)) == []
        assert len(content["rows"]) == len(one.rows)
    content = content_of(comparison)
    assert content["version"] == SCHEMA["properties"]["version"]["const"]
    row = next(one for one in content["rows"] if one["failures"] == ["slower"])
    assert row["latency_change"]["low"] > 0.02
    assert row["findings"] == [{"quantity": "kernels", "kind": "worse", "text": "kernels 12 → 14"}]


def test_the_schema_rejects_what_it_should(comparison: Comparison) -> None:
    content = content_of(comparison)
    wrong: dict[str, Any]
    for wrong in ({"status": 7}, {"rows": [{}]}, {"margin": "1%"}, {"more": 1}, {"version": 2}):
        assert list(faults({**content, **wrong}, SCHEMA, SCHEMA))
    assert list(faults({}, SCHEMA, SCHEMA))


def of_junit(one: Comparison) -> ElementTree.Element:
    return ElementTree.fromstring(exporters.junit(one).encode())


def test_junit_counts_failures_and_skips(comparison: Comparison) -> None:
    suite = of_junit(comparison).find("testsuite")
    cases = suite.findall("testcase")
    assert suite.attrib == {
        "name": "modescope.compare", "tests": "6", "failures": "3", "errors": "0", "skipped": "1",
    }  # fmt: skip
    (broken,) = (
        one.find("failure").get("message") for one in cases if "no_grad" in one.get("name")
    )
    assert broken.startswith("no longer ok: crashed (")
    assert "\ufffd[31mno *kernel* | <b> &" in broken


def test_junit_skips_undecided_rows() -> None:
    few = of_junit(compared(processes(1, count=1), processes(2, count=1)))
    assert len(list(few.iter("skipped"))) == 4


def test_junit_of_a_refusal_is_an_error() -> None:
    (error,) = of_junit(REFUSED).iter("error")
    assert error.get("message") == REFUSED.sentence


def table_rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("| ")]


def test_markdown_escapes_and_folds(comparison: Comparison) -> None:
    text = exporters.markdown(comparison)
    assert r"no \*kernel\* \| &lt;b&gt; &amp;" in text
    assert text.count("<details>") == text.count("</details>") == 1
    assert {line.count(" | ") for line in table_rows(text)} == {6}
    assert len(table_rows(text)) == 6 + 2 * 2  # two tables with two lines of titles each
    assert "left out" not in text


def test_markdown_of_a_thousand_rows_fits_into_a_comment(large: Comparison) -> None:
    text = exporters.markdown(large)
    assert len(text) < 65_536
    assert len([line for line in table_rows(text) if "mode-" in line]) == 2 * exporters.MOST_ROWS
    assert f"{1000 - 2 * exporters.MOST_ROWS} rows are left out here" in text
    assert text.index("FAILS") < text.index("<details>")


def test_annotations_are_few_and_escaped(comparison: Comparison, large: Comparison) -> None:
    lines = exporters.github(large).splitlines()
    assert len(lines) == exporters.ANNOTATIONS
    assert all(line.startswith("::error title=") for line in lines)
    assert lines[-1].endswith("92 more rows fail; the summary of the step has them")
    (crashed,) = (line for line in exporters.github(comparison).splitlines() if "no_grad" in line)
    title, _, message = crashed.removeprefix("::error title=").partition("::")
    assert "," not in title
    assert ":" not in title
    assert "\n" not in message
    passed = replace(comparison, status=PASSED, rows=())
    assert exporters.github(passed).startswith("::notice title=modescope::")


def test_percent_and_line_ends_are_encoded() -> None:
    assert exporters._command("error", "a:b,c", "50 %\nx") == "::error title=a%3Ab%2Cc::50 %25%0Ax"
