"""Rows that a condition chooses: as in the whole table, and no others are explained."""

from __future__ import annotations

from pathlib import Path

import pytest

from modescope.analysis import table, why
from modescope.analysis.causes import finding
from modescope.analysis.causes.types import Context, Finding
from modescope.analysis.chosen import chosen
from tests.helpers.paths import REFERENCE
from tests.helpers.studies import cpu_sweep, save

STUDIES = sorted(path.parent for path in REFERENCE.rglob("rows"))


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(cpu_sweep(), tmp_path_factory.mktemp("sweep"))


def lines(folder: Path, condition: str | None, mode: str | None = None) -> list[str]:
    return table.csv(chosen(folder, condition, mode).rows).splitlines()


@pytest.mark.parametrize("study", STUDIES, ids=lambda path: str(path.relative_to(REFERENCE)))
def test_chosen_rows_are_those_of_the_whole_table(study: Path) -> None:
    header, *every = lines(study, None)
    for condition in ("true", "mode = 'compile' or speedup > 1.1"):
        first, *found = lines(study, condition)
        assert first == header
        assert found
        assert {*found} <= {*every}
        assert condition != "true" or found == every


def test_rows_are_compared_with_another_mode_before_they_are_chosen(study: Path) -> None:
    header, *every = lines(study, None, "inference_mode")
    found = lines(study, "against_speedup > 1.1", "inference_mode")
    assert found[0] == header
    assert {*found[1:]} < {*every}


@pytest.mark.parametrize(
    "condition",
    [
        "steps_gap is null or steps_gap > -9",
        "steps_unlike is null or steps_gap_ci_low > -9",
        "start_ci_high_s is null or start_ci_low_s > 0",
    ],
)
@pytest.mark.parametrize("name", ["all", "coldstart", "steps"])
def test_a_condition_names_a_part_of_what_is_stored_together(name: str, condition: str) -> None:
    study = REFERENCE / "intel-xeon-6-167-2-cores" / name
    assert lines(study, condition) == lines(study, None)


@pytest.mark.parametrize(
    ("condition", "count"),
    [
        ("mode = 'compile'", 1),
        ("mode = 'none'", 0),
        (
            "mode = 'compile' and cause is not null",
            9,
        ),  # the condition reads causes of all that ended ok
        ("columns('^cause$') is not null and mode = 'compile'", 9),
        (None, 9),
    ],
)
def test_only_printed_rows_are_explained(
    study: Path, monkeypatch: pytest.MonkeyPatch, condition: str | None, count: int
) -> None:
    find, calls = finding.find_causes, list[str]()

    def counted(context: Context) -> tuple[Finding, ...]:
        calls.append(context.row["mode"])
        return find(context)

    monkeypatch.setattr(finding, "find_causes", counted)
    asked = [] if condition is None else ["--where", condition]
    for command in (table, why):
        calls.clear()
        assert command.main([str(study), *asked]) == 0
        assert len(calls) == count
