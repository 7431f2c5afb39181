"""All claims, and one in processes of its own: what it lacks, what fails, what becomes a row."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from modescope.bench.stats.estimates import Estimate
from modescope.bench.sweep import isolation
from modescope.bench.sweep.isolation import Outcome
from modescope.bench.tools.claims import checking
from modescope.bench.tools.claims.checking import CLAIMS, DOCUMENTS, NumberRow, check, lacking
from modescope.bench.tools.claims.claim import COMPILERS, HOLDS, UNDECIDED, Answer, Numbers

EXERCISE = CLAIMS["permute-exercise"]
BOTH = replace(EXERCISE, needs=("cpu", "cuda"))
TWO = ["cpu", "cuda:1"]


def test_there_are_44_claims_with_ids_of_their_own() -> None:
    assert len(CLAIMS) == len(checking._CLAIMS) == 44


@pytest.mark.parametrize("id", CLAIMS)
def test_a_claim_says_all_that_the_page_shows(id: str) -> None:
    claim = CLAIMS[id]
    assert re.fullmatch(r"[a-z0-9-]+", claim.id)
    assert claim.statement
    assert not claim.statement.endswith(".")
    assert {source.partition(" ")[0] for source in claim.source} <= set(DOCUMENTS)
    assert claim.devices
    assert set(claim.needs) - set(claim.devices) <= set(COMPILERS)
    assert claim.method.endswith(".")
    lines = claim.snippet.splitlines()
    assert 0 < len(lines) <= 10
    assert max(map(len, lines)) <= 100
    compile(claim.snippet, id, "exec")


def test_a_claim_without_its_device_is_lacking() -> None:
    gpu_alone = replace(EXERCISE, needs=("cuda",))
    assert lacking(gpu_alone, ["cpu"]) == checking.NO_GPU
    assert lacking(gpu_alone, TWO) is None
    assert lacking(BOTH, ["cpu"]) is None


@pytest.mark.parametrize(
    ("cxx", "compiler", "inductor"),
    [
        ("", True, False),
        ("env g++", True, False),  # Inductor takes it for one program
        ("env", True, True),
        ("nothing", False, False),
        ("'g++", False, False),  # a quote that is not closed
    ],
)
def test_what_is_a_compiler(
    cxx: str, compiler: bool, inductor: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", cxx)
    monkeypatch.setattr(shutil, "which", lambda name: name if name in ("env", "g++") else None)
    for needed, there in (("compiler", compiler), ("inductor", inductor)):
        missing = lacking(replace(EXERCISE, needs=("cpu", needed)), ["cpu"])
        assert (missing is None) == there


def test_a_claim_that_lacks_something_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(isolation, "call")
    row, numbers = check(replace(EXERCISE, needs=("cuda",)), ["cpu"], tmp_path)
    assert (row.verdict, row.status, row.because) == (UNDECIDED, "skipped", checking.NO_GPU)
    assert (row.printed, row.seconds, row.devices, numbers) == (None, None, (), [])


Ends = Callable[[dict[str, Outcome]], None]


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Ends:
    """How processes end, by what was asked of them."""

    def so(outcomes: dict[str, Outcome]) -> None:
        def call(function: str, claim: str, *more: str, **how: Any) -> Outcome:
            how["log"].write_text("what it said")
            return outcomes[" ".join([function.partition(":")[2], *more])]

        monkeypatch.setattr(isolation, "call", call)

    return so


OBSERVED = Outcome("returned", Answer(HOLDS, "so it is", {"offset [B]": 4}))
PRINTED = Outcome("returned", "(5, 3, 4)\n")


def test_what_comes_back_is_a_row(ends: Ends, tmp_path: Path) -> None:
    ends({"observe cpu": OBSERVED, "run_snippet": PRINTED})
    row, numbers = check(EXERCISE, TWO, tmp_path)
    assert (row.verdict, row.because, row.status) == (HOLDS, "so it is", "ok")
    assert (row.claim, row.devices, row.printed) == (EXERCISE.id, ("cpu",), "(5, 3, 4)\n")
    assert numbers == [NumberRow(EXERCISE.id, "offset", "cpu", 4.0, None, None, None, "B")]
    assert list(tmp_path.iterdir()) == [], "logs of what went well are of no use"


@pytest.mark.parametrize("kind", ["failed", "oom", "timeout", "crashed"])
def test_a_check_that_fails_is_undecided(kind: str, ends: Ends, tmp_path: Path) -> None:
    ends({"observe cpu": Outcome(kind, reason="it broke"), "run_snippet": PRINTED})
    row, numbers = check(EXERCISE, ["cpu"], tmp_path)
    assert (row.verdict, row.status, row.because) == (UNDECIDED, kind, "it broke")
    assert (row.printed, numbers) == ("(5, 3, 4)\n", [])
    assert [path.name for path in tmp_path.iterdir()] == ["permute-exercise-observe-cpu.log"]


def test_one_device_that_fails_leaves_the_answer_to_the_other(ends: Ends, tmp_path: Path) -> None:
    crashed = Outcome("crashed", reason="it broke")
    ends({"observe cpu": OBSERVED, "observe cuda:1": crashed, "run_snippet": PRINTED})
    row, _ = check(BOTH, TWO, tmp_path)
    assert (row.verdict, row.status, row.devices) == (HOLDS, "crashed", ("cpu", "cuda:1"))


def test_a_snippet_that_fails_is_a_failure(ends: Ends, tmp_path: Path) -> None:
    ends({"observe cpu": OBSERVED, "run_snippet": Outcome("failed", reason="NameError: x")})
    row, _ = check(EXERCISE, ["cpu"], tmp_path)
    assert (row.verdict, row.status, row.printed) == (HOLDS, "failed", None)


def test_what_compiles_finds_empty_caches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found: list[Any] = []

    def call(*_: str, variables: dict[str, str], **how: Any) -> Outcome:
        found.append({name: list(Path(path).glob("*")) for name, path in variables.items()})
        return PRINTED

    monkeypatch.setattr(isolation, "call", call)
    monkeypatch.setattr(checking, "lacking", lambda *_: None)
    check(replace(EXERCISE, needs=("cpu", "inductor")), ["cpu"], tmp_path)
    assert found == [{"TORCHINDUCTOR_CACHE_DIR": [], "TRITON_CACHE_DIR": []}] * 2


def test_a_number_is_a_row() -> None:
    numbers: Numbers = {
        "a [s]": Estimate(2.0, 1.0, 3.0),
        "b": True,
        "c": None,
        "d": (1, 2),
        "e [B]": 7,
    }
    found = checking.number_rows("it", "cpu", numbers)
    assert [(r.label, r.number, r.low, r.high, r.text, r.unit) for r in found] == [
        ("a", 2.0, 1.0, 3.0, None, "s"),
        ("b", None, None, None, "yes", ""),
        ("c", None, None, None, None, ""),
        ("d", None, None, None, "(1, 2)", ""),
        ("e", 7.0, None, None, None, "B"),
    ]


@pytest.mark.full
def test_a_check_and_a_snippet_have_processes_of_their_own(tmp_path: Path) -> None:
    row, numbers = check(EXERCISE, ["cpu"], tmp_path)
    assert (row.verdict, row.status) == (HOLDS, "ok")
    assert row.printed == "(5, 3, 4) (1, 20, 5) 0 False\n"
    assert [(each.label, each.text) for each in numbers][1] == ("strides", "(1, 20, 5)")
