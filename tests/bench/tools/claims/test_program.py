"""`python -m bench.claims` as a user types it, and snippets as a reader pastes them."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch

from modescope.bench.sweep.process import isolation
from modescope.bench.tools.claims import __main__ as program
from modescope.bench.tools.claims.checking import SKIPPED, ClaimResult
from modescope.bench.tools.claims.needs import lacking
from modescope.bench.tools.claims.table import CLAIMS
from modescope.bench.tools.claims.verdict import UNDECIDED
from tests.helpers.claims.answers import answer
from tests.helpers.paths import ROOT

pytestmark = pytest.mark.full

QUICK = [claim for claim in CLAIMS.values() if not claim.timed and not claim.compiles]


def run(folder: Path, *words: str) -> tuple[int, str]:
    """Exit status and what was printed."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        status = program.main([*words, f"--results-dir={folder}"])
    return status, out.getvalue()


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, str, Path]:
    """One run of all that is decided without waiting for clocks and compilers."""
    folder = tmp_path_factory.mktemp("results")
    return (*run(folder, "--without=timed,compiled"), folder / "claims")


@pytest.fixture(scope="module")
def rows(everything: tuple[int, str, Path]) -> dict[str, dict[str, Any]]:
    """Answers by claim."""
    (file,) = everything[2].glob("*.parquet")
    return {row["claim"]: row for row in pq.read_table(file).to_pylist() if row["verdict"]}


def test_all_that_this_machine_can_decide_is_decided(
    everything: tuple[int, str, Path], rows: dict[str, dict[str, Any]]
) -> None:
    status, printed, folder = everything
    assert set(rows) == {claim.id for claim in QUICK}
    undecided = {id for id, row in rows.items() if row["verdict"] == UNDECIDED}
    assert undecided == {id for id, row in rows.items() if row["status"] == SKIPPED}
    assert status == 0
    assert re.search(rf"^of {len(rows)} statements \d+ holds?, ", printed, re.MULTILINE)
    assert sorted(path.suffix for path in folder.iterdir()) == [".html", ".md", ".parquet"]


def test_figures_are_rows_of_their_own(everything: tuple[int, str, Path]) -> None:
    (file,) = everything[2].glob("*.parquet")
    table = pq.read_table(file).to_pylist()
    (offset,) = [row for row in table if row["figure"] == "its storage offset"]
    assert (offset["claim"], offset["number"], offset["verdict"]) == ("permute-exercise", 0.0, None)
    assert offset["command"].startswith("python -m bench.claims --without=timed,compiled")


def test_snippets_print_what_the_page_says(
    everything: tuple[int, str, Path], rows: dict[str, dict[str, Any]]
) -> None:
    """All of them pasted to one interpreter, one after the other."""
    shown = {id: row["printed"] for id, row in rows.items() if row["status"] != SKIPPED}
    (page,) = everything[2].glob("*.md")
    for id, text in shown.items():
        assert f"{CLAIMS[id].snippet}\n```\n\nIt printed:\n\n```\n{text}```" in page.read_text(), id
    pasted = "".join(
        f"print({id!r}, flush=True)\nexec({CLAIMS[id].snippet!r}, {{'__name__': '__main__'}})\n"
        for id in shown
    )
    done = subprocess.run(
        [sys.executable, "-c", pasted], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "".join(f"{id}\n{text}" for id, text in shown.items())


ANEW = "publish the page of the reference machine anew"
ASKED = "statement", "source", "needs", "snippet"  # wording of rules may improve meanwhile
NOT_YET = "this claim is newer than the page of the reference machine"
REFERENCE = ROOT / "results/reference/amd-epyc-2-cores/claims"
COMPILED = [id for id, each in CLAIMS.items() if each.compiles and not each.timed]


@pytest.fixture(scope="module")
def published() -> str:
    """The page of the reference machine."""
    (page,) = REFERENCE.glob("*.md")
    return page.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def published_rows() -> dict[str, dict[str, Any]]:
    """Its rows by claim: texts as they are, which the page marks up."""
    (file,) = REFERENCE.glob("*.parquet")
    return {row["claim"]: row for row in pq.read_table(file).to_pylist() if row["verdict"]}


@pytest.mark.parametrize("id", CLAIMS)
def test_that_page_has_what_no_run_changes(
    id: str, published_rows: dict[str, dict[str, Any]]
) -> None:
    if id not in published_rows:
        pytest.skip(NOT_YET)
    claim, row = CLAIMS[id], published_rows[id]
    texts = {name: getattr(claim, name) for name in ASKED}
    expected = {n: list(each) if isinstance(each, tuple) else each for n, each in texts.items()}
    assert {name: row[name] for name in ASKED} == expected, f"{id}: {ANEW}"


@pytest.mark.parametrize("id", [claim.id for claim in QUICK] + COMPILED)
def test_what_a_snippet_prints_is_on_that_page(
    id: str, published: str, rows: dict[str, dict[str, Any]]
) -> None:
    if missing := lacking(CLAIMS[id], ["cpu"]):
        pytest.skip(missing)
    if f", torch {torch.__version__.partition('+')[0]}" not in published:
        pytest.skip("that page is of another torch, whose messages may differ")
    if f"### {id}\n" not in published:
        pytest.skip(NOT_YET)
    if id in rows:
        printed = rows[id]["printed"]
    else:
        printed = isolation.call(
            "modescope.bench.tools.claims.inside:run_snippet", id, timeout_s=120
        ).value
    said = f"{CLAIMS[id].snippet}\n```\n\nIt printed:\n\n```\n{printed}```"
    assert said in published, f"{id} printed {printed!r}: {ANEW}"


def test_some_claims_alone(tmp_path: Path) -> None:
    status, printed = run(tmp_path, "permute-exercise")
    assert status == 0
    assert "of 1 statement 1 holds, " in printed
    assert "channels-last" not in printed


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["view-contigous"], "view-contigous: no such claim; did you mean view-contiguous?"),
        (["zzz"], "zzz: no such claim; python -m bench.claims --list prints them"),
        (["--without=times"], "times: --without: no such kind; did you mean timed?"),
        (["--fast"], "unrecognized arguments: --fast; python -m bench.claims --help lists"),
        (["--device=tpu"], "device=tpu: allowed are auto, cpu, cuda and cuda:<index>"),
    ],
)
def test_a_mistake_is_answered_in_a_sentence(
    words: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, printed = run(tmp_path, *words)
    assert (status, printed) == (2, "")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {complaint}")


def test_the_list_runs_nothing(tmp_path: Path) -> None:
    status, printed = run(tmp_path / "none", "--list")
    assert (status, (tmp_path / "none").exists()) == (0, False)
    assert [line.split()[0] for line in printed.splitlines()[1:]] == list(CLAIMS)


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, 0),
        ({"status": SKIPPED, "reason": "no GPU", "verdict": UNDECIDED}, 0),
        ({"verdict": UNDECIDED, "because": "its interval contains the bound"}, 0),
        ({"status": "crashed", "reason": "it broke", "verdict": UNDECIDED}, 1),
        ({"status": "failed", "reason": "the snippet: it broke"}, 1),
    ],
)
def test_the_exit_status_tells_whether_something_failed(
    changes: dict[str, Any], status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "check", lambda *_: (answer(**changes), []))
    result, printed = run(tmp_path, "view-contiguous")
    assert result == status
    assert ("it broke" in printed) == (status == 1)


def test_what_is_done_is_kept_after_an_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    coming: Iterator[tuple[ClaimResult, list[Any]]] = iter([(answer(), [])])

    def check(*_: object) -> tuple[ClaimResult, list[Any]]:
        try:
            return next(coming)
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr(program, "check", check)
    status, printed = run(tmp_path)
    assert status == 130
    assert "stopped; the answers above are kept" in printed
    (file,) = (tmp_path / "claims").glob("*.parquet")
    assert [row["claim"] for row in pq.read_table(file).to_pylist()] == ["view-contiguous"]
