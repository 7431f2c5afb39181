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

from modescope.bench import claims
from modescope.bench.records.outcomes import Status
from modescope.bench.sweep import isolation
from modescope.bench.sweep.isolation import Task
from modescope.bench.tools.claims.check import CLAIMS, ClaimRow, NumberRow
from modescope.bench.tools.claims.claim import REFUTED, UNDECIDED
from tests.helpers.paths import REFERENCE

QUICK = {id for id, claim in CLAIMS.items() if not claim.slow}
TIMED = [
    id for id, claim in CLAIMS.items() if claim.needs.startswith("cpu") and "clock" in claim.needs
]
PUBLISHED = REFERENCE / "amd-epyc-avx2-2-cores" / "claims"


def run(folder: Path, *words: str) -> tuple[int, str]:
    """Exit status and what was printed."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        status = claims.main([*words, f"--results-dir={folder}"])
    return status, out.getvalue()


def rows_in(folder: Path) -> list[dict[str, Any]]:
    (file,) = folder.glob("*.parquet")
    return list(pq.read_table(file).to_pylist())


def by_claim(folder: Path) -> dict[str, dict[str, Any]]:
    return {row["claim"]: row for row in rows_in(folder) if row["verdict"]}


@pytest.mark.full
def test_a_run_says_and_prints_what_the_published_page_does(tmp_path: Path) -> None:
    """Of all that waits for no clock and no compiler."""
    assert run(tmp_path, "--quick")[0] == 0
    here, there = by_claim(tmp_path / "claims"), by_claim(PUBLISHED)
    assert set(here) == QUICK
    undecided = {id for id, each in here.items() if each["verdict"] == UNDECIDED}
    assert undecided == {id for id, each in here.items() if each["status"] == Status.SKIPPED}
    same_torch = there["view-dtype"]["torch_version"].partition("+")[0] in torch.__version__
    run_here = [id for id in here if same_torch and id not in undecided]
    for name in ("statement", "verdict", "printed"):
        assert {id: here[id][name] for id in run_here} == {id: there[id][name] for id in run_here}


@pytest.mark.full
@pytest.mark.parametrize("id", TIMED)
def test_a_timed_snippet_says_what_does_not_differ_from_run_to_run(id: str) -> None:
    snippet = "modescope.bench.tools.claims.check:run_snippet"
    lines = (isolation.call(Task(snippet, str), id, timeout_s=120).value or "").splitlines()
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


VIEW = ClaimRow(
    claim="view-contiguous",
    statement="`.view` can only be called on contiguous tensors",
    verdict=REFUTED,
    because="`x.T` was accepted",
    limits=("none_of_it",),
    counter_example="x.T.view(<shape>) is a view",
    status=Status.OK,
    reason=None,
    tested_on="cpu",
    printed="True\n",
    seconds=0.1,
)
DTYPE = replace(VIEW, claim="view-dtype", verdict=UNDECIDED, because="it broke", printed=None)
NUMBER = NumberRow("view-contiguous", "a | refusal", 2.0, None, None, "size < stride")


@pytest.mark.parametrize(("ended", "status"), [(Status.SKIPPED, 0), (Status.CRASHED, 1)])
def test_answers_become_a_page_and_rows(
    ended: Status, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit status says whether a test failed."""
    coming = iter([(VIEW, [NUMBER]), (replace(DTYPE, status=ended, reason="why"), [])])
    monkeypatch.setattr(claims, "check", lambda *_: next(coming))
    words = ("view-contiguous", "view-dtype", "--device=cpu")
    found, printed = run(tmp_path, *words)
    assert found == status
    assert ("view-dtype: crashed, why" in printed) is bool(status)
    folder = tmp_path / "claims"
    view, dtype, number = rows_in(folder)
    assert (view["limits"], view["seconds"], dtype["status"]) == (["none_of_it"], 0.1, ended)
    assert (view["label"], number["label"], number["verdict"]) == (None, "a | refusal", None)
    assert (number["number"], number["low"]) == (2.0, None)
    for row in (view, number):
        assert (row["torch_version"], row["threads"]) == (torch.__version__, 1)
        assert " ".join(words) in row["command"]
    (file,) = folder.glob("*.md")
    text = file.read_text(encoding="utf-8")
    for part in (
        f", torch {torch.__version__}, Python ",
        "0 hold, 0 within limits, 1 are refuted, 1 undecided here",
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
    assert ["refusal" in section for section in sections] == [False, True, False, False]
