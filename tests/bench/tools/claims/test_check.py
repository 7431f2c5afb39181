"""All claims, and one in processes of its own: what it lacks, what fails, what becomes a row."""

from __future__ import annotations

import math
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from modescope.bench.stats.estimates import Estimate
from modescope.bench.sweep import isolation
from modescope.bench.sweep.isolation import Outcome
from modescope.bench.tools.claims import cpp_library
from modescope.bench.tools.claims.check import CLAIMS, NumberRow, check, lacking, number_rows, place
from modescope.bench.tools.claims.claim import HOLDS, SLOW, UNDECIDED, Answer
from modescope.bench.tools.claims.page import DOCUMENTS

EXERCISE = CLAIMS["permute-exercise"]


def test_a_claim_says_all_that_the_page_shows() -> None:
    assert len(CLAIMS) == len({claim.statement for claim in CLAIMS.values()}) == 44
    for id, claim in CLAIMS.items():
        assert re.fullmatch(r"[a-z0-9-]+", id)
        assert re.fullmatch(r".*[^.]", claim.statement, flags=re.S)
        assert {source.partition(" ")[0] for source in claim.source.split("; ")} <= set(DOCUMENTS)
        assert {"cpu", "cuda"} & set(claim.needs.split()) >= set(claim.needs.split()) - set(SLOW)
        assert claim.method.endswith(".")
        assert 0 < len(claim.snippet.splitlines()) <= 10
        compile(claim.snippet, id, "exec")


@pytest.mark.parametrize(
    ("needs", "device", "where"),
    [
        ("cpu", "cuda:1", "cpu"),
        ("cpu cuda", "cuda:1", "cuda:1"),
        ("cuda", "cpu", None),
    ],
)
def test_a_claim_is_tested_on_the_device_that_it_speaks_of(
    needs: str, device: str, where: str | None
) -> None:
    assert place(replace(EXERCISE, needs=needs), device) == where


@pytest.mark.parametrize(
    ("cxx", "is_there"), [("", True), ("env g++", True), ("nothing", False), ("clang++ -x", False)]
)
def test_what_is_a_compiler(cxx: str, is_there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", cxx)
    monkeypatch.setattr(shutil, "which", lambda name: name if name in ("env", "g++") else None)
    for needs in ("cpu compiler", "cpu inductor"):
        assert (lacking(replace(EXERCISE, needs=needs), "cpu") is None) == is_there
    assert lacking(replace(EXERCISE, needs="cpu cuda inductor"), "cuda") is None


def test_what_a_compiler_says_is_passed_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    compiler = tmp_path / "broken"
    compiler.write_text("#!/bin/sh\necho 'scale.cpp: error: no such header' >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    with pytest.raises(RuntimeError, match=r"does not compile .* no such header"):
        cpp_library.load()


def test_a_claim_that_lacks_something_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(isolation, "call")
    row, numbers = check(replace(EXERCISE, needs="cuda"), "cpu", tmp_path / "log")
    assert (row.verdict, row.status, row.because) == (UNDECIDED, "skipped", row.reason)
    assert (row.printed, row.seconds, row.tested_on, numbers) == (None, None, None, [])


ANSWERED = Outcome("returned", Answer(HOLDS, "so it is", {"offset": 4}))
PRINTED = Outcome("returned", "(5, 3, 4)\n")
OFFSET = NumberRow(EXERCISE.id, "offset", 4.0, None, None, "4")


@pytest.mark.parametrize(
    ("observed", "snippet", "row", "numbers"),
    [
        (ANSWERED, PRINTED, (HOLDS, "so it is", "ok", "(5, 3, 4)\n"), [OFFSET]),
        *(
            (Outcome(kind, reason="it broke"), PRINTED,
             (UNDECIDED, "it broke", status, "(5, 3, 4)\n"), [])
            for kind, status in (("oom", "oom"), ("timeout", "timeout"), ("usage", "failed"))
        ),
        (ANSWERED, Outcome("failed", reason="x"), (HOLDS, "so it is", "failed", None), [OFFSET]),
    ],
)  # fmt: skip
def test_what_comes_back_is_a_row(
    observed: Outcome, snippet: Outcome, row: tuple[str | None, ...], numbers: list[NumberRow],
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def call(function: str, *_: str, **__: Any) -> Outcome:
        return {"observe": observed, "run_snippet": snippet}[function.partition(":")[2]]

    monkeypatch.setattr(isolation, "call", call)
    found, of_it = check(EXERCISE, "cuda:1", tmp_path / "log")
    assert (found.verdict, found.because, found.status, found.printed) == row
    assert (found.claim, found.tested_on) == (EXERCISE.id, "cpu")
    assert (found.reason is None) == (found.status == "ok")
    assert of_it == numbers


def test_what_compiles_finds_empty_caches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found: list[Any] = []

    def call(*_: str, variables: dict[str, str], **how: Any) -> Outcome:
        found.append({name: list(Path(path).glob("*")) for name, path in variables.items()})
        return PRINTED

    monkeypatch.setattr(isolation, "call", call)
    check(replace(EXERCISE, needs="cuda inductor"), "cuda", tmp_path / "log")
    assert found == [{"TORCHINDUCTOR_CACHE_DIR": [], "TRITON_CACHE_DIR": []}] * 2


def test_a_number_is_a_row() -> None:
    numbers = {"a": Estimate(2.0634, 1.0, 3.0), "b": True, "c": (1, 2), "d": 4096, "e": math.nan}
    assert number_rows("it", numbers)[:4] == [
        NumberRow("it", "a", 2.0634, 1.0, 3.0, "2.063 [1, 3]"),
        NumberRow("it", "b", None, None, None, "yes"),
        NumberRow("it", "c", None, None, None, "(1, 2)"),
        NumberRow("it", "d", 4096.0, None, None, "4,096"),
    ]
    assert number_rows("it", numbers)[4].written == "nan"


@pytest.mark.full
def test_a_function_and_a_snippet_have_processes_of_their_own(tmp_path: Path) -> None:
    row, numbers = check(EXERCISE, "cpu", tmp_path / "log")
    assert (row.verdict, row.status) == (HOLDS, "ok")
    assert row.printed == "(5, 3, 4) (1, 20, 5) 0 False\n"
    assert (numbers[0].label, numbers[0].written) == ("strides", "(1, 20, 5)")
