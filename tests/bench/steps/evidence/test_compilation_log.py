"""Phases and reasons from torch's own records, made up and of a real compilation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch._dynamo.utils import CompilationMetrics

from modescope.bench.records.columns import Compilations
from modescope.bench.steps.evidence import compilation_log, mode_effect


def phases_s(*compilations: CompilationMetrics) -> dict[str, float]:
    found = compilation_log._columns(list(compilations), hits=0, misses=1).compile_phases_s
    assert found is not None
    phases: dict[str, float] = json.loads(found)
    return phases


def compilation(**columns: Any) -> CompilationMetrics:
    return CompilationMetrics(**columns)


FORWARD = compilation(
    dynamo_cumulative_compile_time_us=10_000_000,
    aot_autograd_cumulative_compile_time_us=8_000_000,
    inductor_cumulative_compile_time_us=7_000_000,
    triton_compile_time_us=4_000_000,
    compile_time_autotune_time_us=1_000_000,
)


def test_each_phase_is_without_those_inside_it() -> None:
    assert phases_s(FORWARD) == {
        "dynamo": 2.0, "aot": 1.0, "inductor": 2.0, "kernels": 4.0, "autotune": 1.0
    }  # fmt: skip


def test_phases_of_several_compilations_add_up() -> None:
    """A backward is compiled on its own, by Inductor alone."""
    backward = compilation(
        inductor_cumulative_compile_time_us=3_000_000, triton_compile_time_us=500_000
    )
    both = phases_s(FORWARD, backward)
    assert (both["dynamo"], both["inductor"], both["kernels"]) == (2.0, 4.5, 4.5)
    assert sum(both.values()) == pytest.approx(13.0)


def test_times_that_torch_did_not_record_are_zero() -> None:
    assert phases_s(compilation(dynamo_cumulative_compile_time_us=2_000_000)) == {
        "dynamo": 2.0, "aot": 0.0, "inductor": 0.0, "kernels": 0.0, "autotune": 0.0
    }  # fmt: skip


def test_each_reason_counts_once_without_the_number_of_its_compilation() -> None:
    again = "0/0: tensor 'x' size mismatch at index 0. expected 4, actual 5"
    reasons = [None, again, again.replace("0/0", "3/1"), "y" * 500]
    found = compilation_log.recompile_reasons(compilation(recompile_reason=r) for r in reasons)
    assert found[0] == "tensor 'x' size mismatch at index 0. expected 4, actual 5"
    assert len(found) == 2
    assert len(found[1]) == compilation_log.LONGEST_REASON


@pytest.mark.parametrize(
    ("recorded", "kept"),
    [
        (
            "0/1: not self.log  # self.log.append(float(x.std()))  # mp/user/shop/net.py:24 in note"
            '  User stack trace:\n  File "/user/shop/net.py", line 24, in note',
            "not self.log (net.py:24)",
        ),
        ("0/2: self.calls == 7  # self.calls += 1  # net.py:3 in forward (HINT: mark it)",
         "self.calls == 7 (net.py:3)"),
        ("a global changed", "a global changed"),
        ("self.calls == 7 (HINT: torch.compile considers integer attributes)", "self.calls == 7"),
    ],
)  # fmt: skip
def test_a_reason_is_the_guard_that_failed_and_its_place(recorded: str, kept: str) -> None:
    assert compilation_log.recompile_reasons([compilation(recompile_reason=recorded)]) == [kept]


@pytest.mark.parametrize(
    ("reasons", "last"),
    [
        (["0/1: a changed", "0/2: b changed", "0/3: a changed", None], "a changed"),
        ([None], None),
    ],
)
def test_the_last_reason_may_have_come_before(reasons: list[str | None], last: str | None) -> None:
    recorded = [compilation(recompile_reason=reason) for reason in reasons]
    assert compilation_log.last_recompile_reason(recorded) == last


def test_reasons_against_a_graph_are_kept() -> None:
    skipped = compilation(cudagraph_skip_reason="skipping cudagraphs due to cpu device (x)")
    found = compilation_log._columns([FORWARD, skipped], hits=0, misses=1)
    assert json.loads(found.cudagraph_skip_reasons or "") == [
        "skipping cudagraphs due to cpu device (x)"
    ]
    assert json.loads(found.recompile_reasons or "") == []


def test_without_a_compilation_nothing_is_recorded() -> None:
    with compilation_log.watch() as watched:
        pass
    assert watched.columns == Compilations()


@pytest.fixture
def forgets() -> Iterator[None]:
    torch.compiler.reset()  # code of an earlier test would give a reason, too
    yield
    torch.compiler.reset()


@pytest.mark.full
def test_a_real_recompilation_has_torchs_reason(forgets: None) -> None:
    module = torch.compile(torch.nn.ReLU(), backend="eager", dynamic=False)
    reasons = mode_effect.recompile_reasons()
    with compilation_log.watch() as watched:
        for count in (2, 3):
            module(torch.ones(count))
    assert phases_s_of(watched.columns)["dynamo"] > 0
    (reason,) = reasons()
    assert "size mismatch at index 0. expected 2, actual 3" in reason
    assert json.loads(watched.columns.recompile_reasons or "") == [reason]
    assert mode_effect.recompile_reasons()() == []


def phases_s_of(columns: Compilations) -> dict[str, float]:
    phases: dict[str, float] = json.loads(columns.compile_phases_s or "")
    return phases
