"""`python -m analysis.trend`: the sentence, and the place of a step."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from modescope.analysis import load, trend
from tests.helpers.comparisons import processes
from tests.helpers.studies import save

SETS = tuple(f"week-{number}" for number in range(8))
STEP = 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight weeks; from the sixth on, torch is newer and compile 6 % slower."""
    folder = tmp_path_factory.mktemp("weeks")
    for number, name in enumerate(SETS):
        later = number >= STEP
        records = processes(
            number, {"compile": 1.06 if later else 1.0}, count=3, modes=("no_grad", "compile"),
            torch_version="2.13.0" if later else "2.12.1",
        )  # fmt: skip
        save(records, folder / name)
    return folder


@pytest.fixture(autouse=True, scope="module")
def in_folder(folder: Path) -> Iterator[None]:
    """Each set is read once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(load, "read", cache(load.read))
        yield


def test_a_step_is_found_with_its_place_and_what_differs_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert trend.main(SETS) == 0
    first, second, *rest = capsys.readouterr().out.splitlines()
    assert first == "Steps in 1 of 2 rows over 8 sets: 1 slower."
    assert second.startswith("+6.")
    assert f" since week-{STEP}: compile fp32, transformer" in second
    assert rest == [
        f"what differs between week-{STEP - 1} and week-{STEP}",
        "    torch_version 2.12.1 → 2.13.0",
    ]


def test_without_a_step_the_sentence_says_so_and_counts_rows_of_too_few_sets(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    more = save(processes(30, count=3, modes=("no_grad", "inference_mode")), tmp_path / "more")
    assert trend.main([*SETS[:4], str(more), "--where", 'mode != "compile"']) == 0
    out = capsys.readouterr().out
    assert out.startswith("No step beyond 1 % found in 1 row over 5 sets; 1 row was timed in few")
