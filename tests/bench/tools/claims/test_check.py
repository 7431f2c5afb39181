"""All claims, and one in processes of its own: what it lacks, what fails, what becomes a row."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from modescope.bench.records.errors import UsageError
from modescope.bench.stats.estimates import Estimate
from modescope.bench.sweep import isolation
from modescope.bench.sweep.isolation import Outcome
from modescope.bench.tools.claims.check import CLAIMS, NumberRow, check, lacking, number_rows, place
from modescope.bench.tools.claims.claim import HOLDS, SLOW, UNDECIDED, Answer
from modescope.bench.tools.claims.page import DOCUMENTS

EXERCISE = CLAIMS["permute-exercise"]


def test_there_are_44_claims_with_statements_of_their_own() -> None:
    assert len(CLAIMS) == len({claim.statement for claim in CLAIMS.values()}) == 44


@pytest.mark.parametrize("id", CLAIMS)
def test_a_claim_says_all_that_the_page_shows(id: str) -> None:
    claim = CLAIMS[id]
    assert re.fullmatch(r"[a-z0-9-]+", claim.id)
    assert claim.statement
    assert not claim.statement.endswith(".")
    assert {source.partition(" ")[0] for source in claim.source.split("; ")} <= set(DOCUMENTS)
    assert {"cpu", "cuda"} & set(claim.needs.split()) >= set(claim.needs.split()) - set(SLOW)
    assert claim.method.endswith(".")
    assert 0 < len(claim.snippet.splitlines()) <= 10
    compile(claim.snippet, id, "exec")


@pytest.mark.parametrize(
    ("needs", "device", "where"),
    [
        ("cpu", "cpu", "cpu"),
        ("cpu", "cuda:1", "cpu"),
        ("cpu cuda", "cuda:1", "cuda:1"),
        ("cuda inductor", "cuda", "cuda"),
        ("cuda", "cpu", None),
    ],
)
def test_a_claim_is_tested_on_the_device_that_it_speaks_of(
    needs: str, device: str, where: str | None
) -> None:
    claim = replace(EXERCISE, needs=needs)
    assert place(claim, device) == where
    if needs == "cuda":
        assert "no GPU" in (lacking(claim, device) or "")


@pytest.mark.parametrize(
    ("cxx", "is_there"), [("", True), ("env g++", True), ("nothing", False), ("clang++ -x", False)]
)
def test_what_is_a_compiler(cxx: str, is_there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", cxx)
    monkeypatch.setattr(shutil, "which", lambda name: name if name in ("env", "g++") else None)
    for needs in ("cpu compiler", "cpu inductor"):
        assert (lacking(replace(EXERCISE, needs=needs), "cpu") is None) == is_there
    assert lacking(replace(EXERCISE, needs="cpu cuda inductor"), "cuda") is None


def test_a_quote_that_is_not_closed_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "'g++")
    with pytest.raises(UsageError, match="CXX='g"):
        lacking(EXERCISE, "cpu")


def test_a_claim_that_lacks_something_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(isolation, "call")
    row, numbers = check(replace(EXERCISE, needs="cuda"), "cpu", tmp_path / "log")
    assert (row.verdict, row.status, row.because) == (UNDECIDED, "skipped", row.reason)
    assert (row.printed, row.seconds, row.tested_on, numbers) == (None, None, None, [])


Ends = Callable[[Outcome, Outcome], None]


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Ends:
    """How the processes of the function and of the snippet end."""

    def so(observed: Outcome, printed: Outcome) -> None:
        def call(function: str, *_: str, **__: Any) -> Outcome:
            return {"observe": observed, "run_snippet": printed}[function.partition(":")[2]]

        monkeypatch.setattr(isolation, "call", call)

    return so


OBSERVED = Outcome("returned", Answer(HOLDS, "so it is", {"offset": 4}))
PRINTED = Outcome("returned", "(5, 3, 4)\n")


def test_what_comes_back_is_a_row(ends: Ends, tmp_path: Path) -> None:
    ends(OBSERVED, PRINTED)
    row, numbers = check(EXERCISE, "cuda:1", tmp_path / "log")
    assert (row.verdict, row.because, row.status, row.reason) == (HOLDS, "so it is", "ok", None)
    assert (row.claim, row.tested_on, row.printed) == (EXERCISE.id, "cpu", "(5, 3, 4)\n")
    assert numbers == [NumberRow(EXERCISE.id, "offset", 4.0, None, None, "4")]


@pytest.mark.parametrize("kind", ["failed", "oom", "timeout", "crashed"])
def test_a_function_that_fails_is_undecided(kind: str, ends: Ends, tmp_path: Path) -> None:
    ends(Outcome(kind, reason="it broke"), PRINTED)
    row, numbers = check(EXERCISE, "cpu", tmp_path / "log")
    assert (row.verdict, row.status, row.because) == (UNDECIDED, kind, "it broke")
    assert (row.printed, numbers) == ("(5, 3, 4)\n", [])


def test_a_snippet_that_fails_is_a_failure(ends: Ends, tmp_path: Path) -> None:
    ends(OBSERVED, Outcome("failed", reason="NameError: x"))
    row, _ = check(EXERCISE, "cpu", tmp_path / "log")
    assert (row.verdict, row.status, row.printed) == (HOLDS, "failed", None)


def test_what_compiles_finds_empty_caches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found: list[Any] = []

    def call(*_: str, variables: dict[str, str], **how: Any) -> Outcome:
        found.append({name: list(Path(path).glob("*")) for name, path in variables.items()})
        return PRINTED

    monkeypatch.setattr(isolation, "call", call)
    check(replace(EXERCISE, needs="cuda inductor"), "cuda", tmp_path / "log")
    assert found == [{"TORCHINDUCTOR_CACHE_DIR": [], "TRITON_CACHE_DIR": []}] * 2


def test_a_number_is_a_row() -> None:
    found = number_rows("it", {"a": Estimate(2.0, 1.0, 3.0), "b": True, "c": (1, 2), "d": 7})
    assert found == [
        NumberRow("it", "a", 2.0, 1.0, 3.0, "2 [1, 3]"),
        NumberRow("it", "b", None, None, None, "yes"),
        NumberRow("it", "c", None, None, None, "(1, 2)"),
        NumberRow("it", "d", 7.0, None, None, "7"),
    ]


@pytest.mark.full
def test_a_function_and_a_snippet_have_processes_of_their_own(tmp_path: Path) -> None:
    row, numbers = check(EXERCISE, "cpu", tmp_path / "log")
    assert (row.verdict, row.status) == (HOLDS, "ok")
    assert row.printed == "(5, 3, 4) (1, 20, 5) 0 False\n"
    assert (numbers[0].label, numbers[0].written) == ("strides", "(1, 20, 5)")
