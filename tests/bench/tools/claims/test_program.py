"""`python -m bench.claims` as a user types it, and snippets as a reader pastes them."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch

from modescope.bench.sweep import isolation
from modescope.bench.tools.claims import __main__ as program
from modescope.bench.tools.claims.check import CLAIMS, SKIPPED, ClaimRow, lacking
from modescope.bench.tools.claims.claim import UNDECIDED
from tests.helpers.claim_rows import row
from tests.helpers.paths import ROOT

QUICK = {id for id, claim in CLAIMS.items() if not claim.slow}
TIMED = [
    id for id, claim in CLAIMS.items() if claim.needs.startswith("cpu") and "clock" in claim.needs
]
REFERENCE = ROOT / "results/reference/amd-epyc-2-cores/claims"


def run(folder: Path, *words: str) -> tuple[int, str]:
    """Exit status and what was printed."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        status = program.main([*words, f"--results-dir={folder}"])
    return status, out.getvalue()


def verdicts(folder: Path) -> dict[str, dict[str, Any]]:
    """Rows of claims by id."""
    (file,) = folder.glob("*.parquet")
    return {each["claim"]: each for each in pq.read_table(file).to_pylist() if each["verdict"]}


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, Path]:
    """One run of all that is decided without waiting for clocks and compilers."""
    folder = tmp_path_factory.mktemp("results")
    return run(folder, "--quick")[0], folder / "claims"


@pytest.mark.full
def test_all_that_this_machine_can_decide_is_decided(everything: tuple[int, Path]) -> None:
    status, folder = everything
    rows = verdicts(folder)
    assert set(rows) == QUICK
    undecided = {id for id, each in rows.items() if each["verdict"] == UNDECIDED}
    assert undecided == {id for id, each in rows.items() if each["status"] == SKIPPED}
    assert status == 0
    assert sorted(path.suffix for path in folder.iterdir()) == [".md", ".parquet", ".txt"]


@pytest.mark.full
def test_numbers_are_rows_of_their_own(everything: tuple[int, Path]) -> None:
    (file,) = everything[1].glob("*.parquet")
    (offset,) = [e for e in pq.read_table(file).to_pylist() if e["label"] == "offset"]
    assert (offset["claim"], offset["number"], offset["verdict"]) == ("permute-exercise", 0, None)


@pytest.mark.full
def test_verdicts_and_snippets_are_those_of_the_published_page(
    everything: tuple[int, Path],
) -> None:
    (page,) = REFERENCE.glob("*.md")
    if f", torch {torch.__version__.partition('+')[0]}" not in page.read_text(encoding="utf-8"):
        pytest.skip("that page is of another torch")
    here, there = verdicts(everything[1]), verdicts(REFERENCE)
    for id, found in here.items():
        published = there[id]
        assert found["statement"] == published["statement"]
        if found["status"] != SKIPPED:
            assert (id, found["verdict"]) == (id, published["verdict"])
            assert (id, found["printed"]) == (id, published["printed"])


@pytest.mark.full
@pytest.mark.parametrize("id", TIMED)
def test_a_timed_snippet_says_what_does_not_differ_from_run_to_run(id: str) -> None:
    if missing := lacking(CLAIMS[id], "cpu"):
        pytest.skip(missing)
    snippet = "modescope.bench.tools.claims.check:run_snippet"
    lines = isolation.call(snippet, id, timeout_s=120).value.splitlines()
    assert lines
    assert all(line.endswith(("True", "False")) for line in lines)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["view-contigous"], "view-contigous: no such claim; did you mean view-contiguous"),
        (["zzz"], "zzz: no such claim; python -m bench.claims --list prints them"),
        (["dispatch-cost", "--quick"], "--quick: all of these claims are timed or compiled"),
        (["--fast"], "unrecognized arguments: --fast; python -m bench.claims --help lists"),
    ],
)
def test_a_mistake_is_one_line(
    words: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, *words) == (2, "")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {complaint}")


def test_the_list_runs_nothing(tmp_path: Path) -> None:
    status, printed = run(tmp_path / "none", "--list")
    assert (status, (tmp_path / "none").exists()) == (0, False)
    assert [line.split()[0] for line in printed.splitlines()[1:]] == list(CLAIMS)


def test_slow_claims_are_left_out() -> None:
    assert {claim.id for claim in program.choose([], quick=True)} == QUICK
    assert [each.id for each in program.choose(["view-dtype"], quick=False)] == ["view-dtype"]


@pytest.mark.full
@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, 0),
        ({"status": SKIPPED, "reason": "no GPU", "verdict": UNDECIDED}, 0),
        ({"verdict": UNDECIDED, "because": "its interval contains the bound"}, 0),
        ({"status": "crashed", "reason": "it broke", "verdict": UNDECIDED}, 1),
    ],
)
def test_the_exit_status_tells_whether_something_failed(
    changes: dict[str, Any], status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "check", lambda *_: (row(**changes), []))
    assert run(tmp_path, "view-contiguous")[0] == status


@pytest.mark.full
def test_what_is_done_is_kept_after_an_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    coming: Iterator[tuple[ClaimRow, list[Any]]] = iter([(row(), [])])

    def check(*_: object) -> tuple[ClaimRow, list[Any]]:
        try:
            return next(coming)
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr(program, "check", check)
    assert run(tmp_path)[0] == 130
    assert list(verdicts(tmp_path / "claims")) == ["view-contiguous"]
