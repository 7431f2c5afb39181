"""A comparison in every form: the sentence first, all rows, within the limits of GitHub."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree

import jsonschema
import pytest

from modescope.analysis.compare import exporters
from modescope.analysis.compare.arguments import NOT_COMPARED
from modescope.analysis.compare.gate import ComparedRow, StudyComparison
from tests.helpers.comparisons import REQUEST, compared, of_mode, processes
from tests.helpers.paths import ROOT
from tests.helpers.rows import row_with
from tests.helpers.studies import not_measured

SCHEMA = json.loads((ROOT / "docs/compare.schema.json").read_text())
REFUSED = StudyComparison(REQUEST, NOT_COMPARED, "OLD: no <study> | at x")


@pytest.fixture(scope="module")
def comparison() -> StudyComparison:
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
def large(comparison: StudyComparison) -> StudyComparison:
    """A thousand rows, of which every tenth fails."""
    rows: list[ComparedRow] = []
    for number in range(1000):
        one = of_mode(comparison, "no_grad" if number % 10 == 0 else "eager")
        case = row_with(one.pair.row, case_id=f"{number}", mode=f"mode-{number}")
        rows.append(replace(one, pair=replace(one.pair, row=case)))
    return replace(comparison, rows=tuple(rows))


def test_json_is_as_the_schema_says(comparison: StudyComparison, large: StudyComparison) -> None:
    for one in (comparison, large, REFUSED):
        content = json.loads(exporters.document(one))
        jsonschema.validate(content, SCHEMA)
        assert len(content["rows"]) == len(one.rows)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**content, "status": 7}, SCHEMA)


def test_junit_counts_failures_and_skips(comparison: StudyComparison) -> None:
    def of_junit(one: StudyComparison) -> ElementTree.Element:
        return ElementTree.fromstring(exporters.junit(one).encode())

    suite = of_junit(comparison).find("testsuite")
    assert suite.attrib == {
        "name": "modescope.compare", "tests": "6", "failures": "3", "errors": "0", "skipped": "1",
    }  # fmt: skip
    (broken,) = (
        one.find("failure").get("message")
        for one in suite.findall("testcase")
        if "no_grad" in one.get("name")
    )
    assert "\ufffd[31mno *kernel* | <b> &" in broken
    few = of_junit(compared(processes(1, count=1), processes(2, count=1)))
    assert len(list(few.iter("skipped"))) == 4  # undecided
    (error,) = of_junit(REFUSED).iter("error")
    assert error.get("message") == REFUSED.sentence


def test_markdown_of_a_thousand_rows_fits_into_a_comment(large: StudyComparison) -> None:
    text = exporters.markdown(large)
    assert len(text) < 65_536
    rows = [line for line in text.splitlines() if line.startswith("| ") and "mode-" in line]
    assert len(rows) == 2 * exporters.MOST_ROWS
    assert f"{1000 - 2 * exporters.MOST_ROWS} rows are left out here" in text
    assert text.index("FAILS") < text.index("<details>")


def test_annotations_are_few_and_escaped(
    comparison: StudyComparison, large: StudyComparison
) -> None:
    lines = exporters.github(large).splitlines()
    assert len(lines) == exporters.ANNOTATIONS
    assert all(line.startswith("::error title=") for line in lines)
    (crashed,) = (line for line in exporters.github(comparison).splitlines() if "no_grad" in line)
    assert "no *kernel*" in crashed  # its line break is escaped
    assert exporters._command("error", "a:b,c", "50 %\nx") == "::error title=a%3Ab%2Cc::50 %25%0Ax"
