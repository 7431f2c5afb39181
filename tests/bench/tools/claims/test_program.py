"""`python -m bench.claims` as a user types it, and snippets as a reader pastes them."""

from __future__ import annotations

import contextlib
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch

from modescope.bench.sweep import isolation
from modescope.bench.tools.claims import __main__ as program
from modescope.bench.tools.claims import page
from modescope.bench.tools.claims.check import CLAIMS, SKIPPED, ClaimRow, NumberRow, lacking
from modescope.bench.tools.claims.claim import HOLDS, REFUTED, UNDECIDED
from tests.helpers.paths import ROOT

QUICK = {id for id, claim in CLAIMS.items() if not claim.slow}
TIMED = [
    id for id, claim in CLAIMS.items() if claim.needs.startswith("cpu") and "clock" in claim.needs
]
REFERENCE = ROOT / "results/reference/amd-epyc-2-cores/claims"


ROW = ClaimRow(
    claim="view-contiguous",
    statement="`.view` can only be called on contiguous tensors",
    verdict=HOLDS,
    because="all were refused",
    limits=(),
    counter_example=None,
    status="ok",
    reason=None,
    tested_on="cpu",
    printed="True\n",
    seconds=0.1,
)


def run(folder: Path, *words: str) -> tuple[int, str]:
    """Exit status and what was printed."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        status = program.main([*words, f"--results-dir={folder}"])
    return status, out.getvalue()


def verdicts(folder: Path) -> dict[str, dict[str, Any]]:
    """Rows of claims by id."""
    (file,) = folder.glob("*.parquet")
    return {each["claim"]: each for each in pq.read_table(file).to_pylist() if each["verdict"]}


@pytest.mark.full
def test_all_that_this_machine_can_decide_is_decided_as_on_the_published_page(
    tmp_path: Path,
) -> None:
    """Without waiting for clocks and compilers."""
    assert run(tmp_path, "--quick")[0] == 0
    folder = tmp_path / "claims"
    assert sorted(path.suffix for path in folder.iterdir()) == [".md", ".parquet", ".txt"]
    here = verdicts(folder)
    assert set(here) == QUICK
    undecided = {id for id, each in here.items() if each["verdict"] == UNDECIDED}
    assert undecided == {id for id, each in here.items() if each["status"] == SKIPPED}
    (file,) = folder.glob("*.parquet")
    (offset,) = [each for each in pq.read_table(file).to_pylist() if each["label"] == "offset"]
    assert (offset["claim"], offset["number"], offset["verdict"]) == ("permute-exercise", 0, None)
    (published,) = REFERENCE.glob("*.md")
    same_torch = f", torch {torch.__version__.partition('+')[0]}" in published.read_text("utf-8")
    run_here = [id for id in here if same_torch and here[id]["status"] != SKIPPED]
    there = verdicts(REFERENCE)
    for name in ("statement", "verdict", "printed"):
        assert {id: here[id][name] for id in run_here} == {id: there[id][name] for id in run_here}


@pytest.mark.full
@pytest.mark.parametrize("id", TIMED)
def test_a_timed_snippet_says_what_does_not_differ_from_run_to_run(id: str) -> None:
    if missing := lacking(CLAIMS[id], "cpu"):
        pytest.skip(missing)
    snippet = "modescope.bench.tools.claims.check:run_snippet"
    lines = isolation.call(snippet, id, timeout_s=120).value.splitlines()
    assert lines
    assert all(line.endswith(("True", "False")) for line in lines)


def test_the_list_runs_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "none"
    for words, expected in (
        ([], set(CLAIMS)), (["--quick"], QUICK), (["view-dtype"], {"view-dtype"})
    ):  # fmt: skip
        status, printed = run(folder, "--list", *words)
        assert (status, folder.exists()) == (0, False)
        assert {line.split()[0] for line in printed.splitlines()[1:]} == expected


@pytest.mark.full
@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, 0),
        ({"status": SKIPPED, "reason": "no GPU", "verdict": UNDECIDED}, 0),
        ({"status": "crashed", "reason": "it broke", "verdict": UNDECIDED}, 1),
        (None, 130),  # Ctrl-C
    ],
)
def test_what_is_done_is_kept_and_the_exit_status_tells_whether_something_failed(
    changes: dict[str, Any] | None, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    coming = iter(
        [ROW, *([] if changes is None else [replace(ROW, claim="view-dtype", **changes)])]
    )

    def check(*_: object) -> tuple[ClaimRow, list[Any]]:
        for each in coming:
            return each, []
        raise KeyboardInterrupt

    monkeypatch.setattr(program, "check", check)
    assert run(tmp_path, "view-contiguous", "view-dtype")[0] == status
    assert next(iter(verdicts(tmp_path / "claims"))) == "view-contiguous"


# The page

NUMBERS = [
    NumberRow("view-contiguous", "a | refusal", None, None, None, "size < stride"),
    NumberRow("permute-exercise", "offset", 0.0, None, None, "0"),
]
ROWS = [
    replace(
        ROW,
        verdict=REFUTED,
        because="`x.T` was accepted",
        counter_example="x.T.view(<shape>) is a view",
        limits=("none_of_it",),
    ),
    replace(
        ROW,
        claim="permute-exercise",
        verdict=UNDECIDED,
        because="no GPU",
        printed=None,
        status="crashed",
        reason="it broke",
    ),
]


def test_the_page_shows_every_claim_with_all_that_belongs_to_it() -> None:
    text = page.page(["a CPU", "`python -m bench.claims`"], ROWS, NUMBERS)
    for part in (
        "0 hold, 0 within limits, 1 are refuted, 1 undecided here",
        "- permute-exercise: crashed, it broke",
        "\n| claim | verdict | statement | what this machine says |\n|---|---|---|---|\n"
        "| [view-contiguous](#view-contiguous) | refuted | `.view` can",
        "**Refuted**: `x.T` was accepted",
        "- counter-example: x.T.view(&lt;shape&gt;) is a view",
        "- limit: none_of_it",
        f"- measured: {CLAIMS['view-contiguous'].method}",
        "- source: 000 .view",
        r"| a \| refusal | size &lt; stride |",
        f"```python\n{CLAIMS['view-contiguous'].snippet}\n```",
        "It printed:\n\n```\nTrue\n```",
        "It was not run here.",
    ):
        assert part in text
    sections = text.split("\n## ")
    assert ["offset" in section for section in sections] == [False, False, True, False]
