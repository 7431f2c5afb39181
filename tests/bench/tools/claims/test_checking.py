"""A claim in processes of its own: what it lacks, how several devices agree, what fails."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from modescope.bench.sweep.process import isolation
from modescope.bench.sweep.process.isolation import Outcome
from modescope.bench.tools.claims import needs
from modescope.bench.tools.claims.checking import check
from modescope.bench.tools.claims.figures import Figure
from modescope.bench.tools.claims.inside import DeviceResult
from modescope.bench.tools.claims.table import CLAIMS
from modescope.bench.tools.claims.verdict import (
    HOLDS,
    REFUTED,
    UNDECIDED,
    WITHIN_LIMITS,
    Verdict,
    combined,
    holds,
    inconclusive,
    limited,
    refuted,
)

EXERCISE = CLAIMS["permute-exercise"]
BOTH = replace(EXERCISE, needs=("cpu", "cuda"))
GPU_ALONE = replace(EXERCISE, needs=("cuda",))
TWO = ["cpu", "cuda:1"]
FIGURE = Figure("permute-exercise", "strides", "cpu", None, None, None, "(1, 20, 5)", "")


@pytest.mark.parametrize(
    ("verdicts", "answer"),
    [
        ([holds("a")], HOLDS),
        ([holds("a"), holds("b")], HOLDS),
        ([refuted("a", "b"), refuted("c", "d")], REFUTED),
        ([holds("a"), refuted("b", "c")], WITHIN_LIMITS),
        ([holds("a"), limited("b", "c")], WITHIN_LIMITS),
        ([limited("a", "b"), refuted("c", "d")], WITHIN_LIMITS),
        ([inconclusive("a"), refuted("c", "d")], REFUTED),
        ([holds("a"), inconclusive("b")], HOLDS),
        ([inconclusive("a"), inconclusive("b")], UNDECIDED),
    ],
)
def test_devices_together(verdicts: list[Verdict], answer: str) -> None:
    for order in (verdicts, verdicts[::-1]):
        result = combined(dict(zip(TWO, order, strict=False)))
        assert result.answer == answer
        assert bool(result.limits) == (answer == WITHIN_LIMITS)
        assert bool(result.counter_example) == (answer == REFUTED)


def test_where_devices_differ_the_limits_say_on_which() -> None:
    result = combined({"cpu": limited("mostly", "not if small"), "cuda": refuted("no", "x.T")})
    assert result.because == "on cpu: mostly; on cuda: no"
    assert result.limits == ("on cpu: not if small", "not on cuda: x.T")


def test_a_device_that_decided_nothing_is_named_with_its_reason() -> None:
    result = combined({"cpu": limited("mostly", "not if small"), "cuda": inconclusive("1.0")})
    assert result == limited("mostly; on cuda: undecided, 1.0", "not if small")
    result = combined({"cpu": inconclusive("it broke"), "cuda": inconclusive("1.0")})
    assert result == inconclusive("on cpu: it broke; on cuda: 1.0")


@pytest.mark.parametrize(
    ("claim", "devices", "reason"),
    [
        (EXERCISE, ["cpu"], None),
        (BOTH, ["cpu"], None),
        (GPU_ALONE, TWO, None),
        (GPU_ALONE, ["cpu"], needs.NO_GPU),
        (
            replace(EXERCISE, needs=("cpu", "compiler")),
            ["cpu"],
            r"no C\+\+ compiler: nowhere/g\+\+",
        ),
        (replace(EXERCISE, needs=("cuda", "compiler")), ["cpu"], r"no GPU.*; no C\+\+ compiler"),
    ],
)
def test_what_is_lacking(
    claim: Any, devices: list[str], reason: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "nowhere/g++")
    result = needs.lacking(claim, devices)
    assert result is None if reason is None else re.match(reason, result)


def test_what_inductor_compiles_on_a_cpu_needs_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "nowhere/g++")
    on_a_cpu = {id for id, each in CLAIMS.items() if each.compiles and "cpu" in each.needs}
    assert on_a_cpu >= {"compile-speedup", "fused-pointwise", "custom-op-autograd", "cpp-op"}
    lacking = {id for id, claim in CLAIMS.items() if needs.lacking(claim, ["cpu", "cuda:0"])}
    assert lacking == on_a_cpu
    assert "recompile-dynamic" not in on_a_cpu, "the backend eager generates no code"


@pytest.mark.parametrize(
    ("CXX", "command", "inductor"),
    [
        ("", ["g++"], r"there is no program ''"),
        ("env g++", ["env", "g++"], r"there is no program 'env g\+\+'"),
        ("env", ["env"], None),
    ],
)
def test_how_a_compiler_is_named(
    CXX: str, command: list[str], inductor: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", CXX)
    monkeypatch.setattr(shutil, "which", lambda name: name in ("env", "g++") or None)
    assert needs.compiler_command() == command
    assert needs.lacking(replace(EXERCISE, needs=("cpu", "compiler")), ["cpu"]) is None
    result = needs.lacking(replace(EXERCISE, needs=("cpu", "inductor")), ["cpu"])
    assert result is None if inductor is None else re.search(inductor, result or "")


def test_a_quote_that_is_not_closed_names_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "'g++")
    missing = needs.lacking(replace(EXERCISE, needs=("cpu", "compiler")), ["cpu"])
    assert missing is not None
    assert "No closing quotation" in missing


def test_a_claim_that_lacks_something_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(isolation, "call")
    answer, figures = check(GPU_ALONE, ["cpu"], tmp_path)
    assert (answer.verdict, answer.status, answer.because) == (UNDECIDED, "skipped", needs.NO_GPU)
    assert (answer.printed, answer.seconds, answer.devices, figures) == (None, None, (), [])


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


def observed(verdict: Verdict) -> Outcome:
    return Outcome("returned", DeviceResult(verdict, [FIGURE], 1.5))


PRINTED = Outcome("returned", "(5, 3, 4)\n")


def test_what_comes_back_is_the_answer(ends: Ends, tmp_path: Path) -> None:
    ends({"observe cpu": observed(holds("so it is")), "run_snippet": PRINTED})
    answer, figures = check(EXERCISE, TWO, tmp_path)
    assert (answer.verdict, answer.because, answer.status) == (HOLDS, "so it is", "ok")
    assert (answer.devices, answer.printed, answer.seconds) == (("cpu",), "(5, 3, 4)\n", 1.5)
    assert figures == [FIGURE]
    assert list(tmp_path.iterdir()) == [], "logs of what went well are of no use"


@pytest.mark.parametrize("kind", ["failed", "oom", "timeout", "crashed"])
def test_an_experiment_that_fails_is_undecided_and_says_why(
    kind: str, ends: Ends, tmp_path: Path
) -> None:
    ends({"observe cpu": Outcome(kind, reason="it broke"), "run_snippet": PRINTED})
    answer, figures = check(EXERCISE, ["cpu"], tmp_path)
    assert (answer.verdict, answer.status) == (UNDECIDED, kind)
    assert (answer.because, answer.reason) == ("it broke", "on cpu: it broke")
    assert (answer.printed, figures) == ("(5, 3, 4)\n", [])
    assert [path.name for path in tmp_path.iterdir()] == ["permute-exercise-observe-cpu.log"]


def test_one_device_that_fails_leaves_the_answer_to_the_other(ends: Ends, tmp_path: Path) -> None:
    ends({
        "observe cpu": observed(holds("so it is")),
        "observe cuda:1": Outcome("crashed", reason="it broke"),
        "run_snippet": PRINTED,
    })  # fmt: skip
    answer, _ = check(BOTH, TWO, tmp_path)
    assert answer.verdict == HOLDS
    assert answer.because == "so it is; on cuda:1: undecided, it broke"
    assert (answer.status, answer.reason) == ("crashed", "on cuda:1: it broke")


def test_a_snippet_that_fails_is_a_failure(ends: Ends, tmp_path: Path) -> None:
    broken = Outcome("failed", reason="NameError: x")
    ends({"observe cpu": observed(holds("so it is")), "run_snippet": broken})
    answer, _ = check(EXERCISE, ["cpu"], tmp_path)
    assert (answer.verdict, answer.status, answer.printed) == (HOLDS, "failed", None)
    assert answer.reason == "the snippet: NameError: x"


def test_an_experiment_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    answer, _ = check(replace(EXERCISE, limit_s=1e-3), ["cpu"], tmp_path)
    assert (answer.verdict, answer.status) == (UNDECIDED, "timeout")
    assert "still running after timeout_s=0.001" in answer.because


def test_what_compiles_finds_empty_caches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    noted: list[Any] = []

    def call(*_: str, variables: dict[str, str], **how: Any) -> Outcome:
        noted.append({name: list(Path(path).glob("*")) for name, path in variables.items()})
        return PRINTED

    monkeypatch.setattr(isolation, "call", call)
    check(replace(EXERCISE, compiles=True), ["cpu"], tmp_path)
    assert noted == [{"TORCHINDUCTOR_CACHE_DIR": [], "TRITON_CACHE_DIR": []}] * 2
