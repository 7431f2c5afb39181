"""All claims, and one in processes of its own: where it is tested, what becomes of it."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from modescope.bench.stats.estimates import Estimate
from modescope.bench.sweep import isolation
from modescope.bench.sweep.isolation import ChildOutcome, Ending, Task
from modescope.bench.tools.claims.check import CLAIMS, NumberRow, check, choose_device, number_rows
from modescope.bench.tools.claims.claim import (
    HOLDS,
    REFUTED,
    SLOW,
    UNDECIDED,
    WITHIN_LIMITS,
    Answer,
    in_range,
)
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
    assert [CLAIMS[id].slow for id in ("view-dtype", "compile-speedup")] == [False, True]


def test_a_claim_is_tested_on_the_device_that_it_speaks_of() -> None:
    both, cuda = (replace(EXERCISE, needs=needs) for needs in ("cpu cuda", "cuda"))
    assert [choose_device(claim, "cuda:1") for claim in (EXERCISE, both, cuda)] == [
        "cpu",
        *["cuda:1"] * 2,
    ]
    assert choose_device(cuda, "cpu") is None


def test_a_claim_that_needs_a_gpu_runs_nothing_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(isolation, "call")
    row, numbers = check(replace(EXERCISE, needs="cuda"), "cpu", tmp_path / "log")
    assert (row.verdict, row.status, row.because) == (UNDECIDED, "skipped", row.reason)
    assert (row.printed, row.seconds, row.tested_on, numbers) == (None, None, None, [])


ANSWERED = ChildOutcome(Ending.RETURNED, Answer(HOLDS, "so it is", {"offset": 4}))
PRINTED = ChildOutcome(Ending.RETURNED, "(5, 3, 4)\n")
OFFSET = NumberRow(EXERCISE.id, "offset", 4.0, None, None, "4")


@pytest.mark.parametrize(
    ("observed", "snippet", "row", "numbers"),
    [
        (ANSWERED, PRINTED, (HOLDS, "so it is", "ok", "(5, 3, 4)\n"), [OFFSET]),
        *(
            (ChildOutcome(kind, reason="it broke"), PRINTED,
             (UNDECIDED, "it broke", status, "(5, 3, 4)\n"), [])
            for kind, status in ((Ending.TIMEOUT, "timeout"), (Ending.USAGE, "failed"))
        ),
        (ANSWERED, ChildOutcome(Ending.FAILED, reason="x"),
         (HOLDS, "so it is", "failed", None), [OFFSET]),
    ],
)  # fmt: skip
def test_what_comes_back_is_a_row(
    observed: ChildOutcome[Any], snippet: ChildOutcome[Any], row: tuple[str | None, ...],
    numbers: list[NumberRow],
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """And what compiles finds empty caches."""
    caches: list[dict[str, list[Path]]] = []

    def call(task: Task[Any], *_: str, variables: dict[str, str], **__: Any) -> ChildOutcome[Any]:
        caches.append({name: [*Path(path).glob("*")] for name, path in variables.items()})
        return {"observe": observed, "run_snippet": snippet}[task.function.partition(":")[2]]

    monkeypatch.setattr(isolation, "call", call)
    claim = replace(EXERCISE, needs="cpu inductor")
    found, of_it = check(claim, "cuda:1", tmp_path / "log")
    assert (found.verdict, found.because, found.status, found.printed) == row
    assert (found.claim, found.tested_on) == (EXERCISE.id, "cpu")
    assert (found.reason is None) == (found.status == "ok")
    assert of_it == numbers
    assert caches == [{"TORCHINDUCTOR_CACHE_DIR": [], "TRITON_CACHE_DIR": []}] * 2


def test_a_number_is_a_row() -> None:
    numbers = {"a": Estimate(2.0634, 1.0, 3.0), "b": True, "c": (1, 2), "d": 4096, "e": math.nan}
    assert number_rows("it", numbers)[:4] == [
        NumberRow("it", "a", 2.0634, 1.0, 3.0, "2.063 [1, 3]"),
        NumberRow("it", "b", None, None, None, "yes"),
        NumberRow("it", "c", None, None, None, "(1, 2)"),
        NumberRow("it", "d", 4096.0, None, None, "4,096"),
    ]
    assert number_rows("it", numbers)[4].written == "nan"


BELOW, ON_LOW, WITHIN, ABOVE, UNKNOWN = (
    Estimate(1.0, 0.9, 1.1),
    Estimate(4.0, 3.9, 4.1),
    Estimate(6.0, 5.0, 7.0),
    Estimate(9.0, 8.5, 9.5),
    Estimate(6.0, None, None),
)


@pytest.mark.parametrize(
    ("estimates", "verdict", "limits"),
    [
        ([WITHIN], HOLDS, 0),
        ([Estimate(6.0, 4.0, 8.0)], HOLDS, 0),
        ([WITHIN, BELOW], WITHIN_LIMITS, 1),
        ([WITHIN, BELOW, ABOVE, ON_LOW], WITHIN_LIMITS, 3),
        ([BELOW, ABOVE], REFUTED, 0),
        ([WITHIN, ON_LOW], UNDECIDED, 0),
        ([BELOW, UNKNOWN], UNDECIDED, 0),
        ([], UNDECIDED, 0),
    ],
)
def test_intervals_decide_a_range(estimates: list[Estimate], verdict: str, limits: int) -> None:
    named = {f"n{i}": each for i, each in enumerate(estimates)}
    answer = in_range(named, 4, 8, {"more": 1})
    assert (answer.verdict, len(answer.limits)) == (verdict, limits)
    assert answer.numbers == {**named, "more": 1}
