"""Phases and reasons from torch's own records, made up and of a real compilation."""

from __future__ import annotations

import json

import pytest
import torch
from torch._dynamo.utils import CompilationMetrics

from modescope.bench.records.columns import Compilations
from modescope.bench.steps.evidence import compilation_log, mode_effect

FORWARD = CompilationMetrics(
    dynamo_cumulative_compile_time_us=10_000_000,
    aot_autograd_cumulative_compile_time_us=8_000_000,
    inductor_cumulative_compile_time_us=7_000_000,
    triton_compile_time_us=4_000_000,
    compile_time_autotune_time_us=1_000_000,
)
BACKWARD = CompilationMetrics(
    inductor_cumulative_compile_time_us=3_000_000, triton_compile_time_us=500_000
)
"""A backward is compiled on its own, by Inductor alone; what torch did not record is zero."""


def test_each_phase_is_without_those_inside_it() -> None:
    skipped = CompilationMetrics(cudagraph_skip_reason="due to cpu device")
    found = compilation_log._columns([FORWARD, BACKWARD, skipped], hits=0, misses=1)
    assert json.loads(found.compile_phases_s or "") == {
        "dynamo": 2.0, "aot": 1.0, "inductor": 4.5, "kernels": 4.5, "autotune": 1.0
    }  # fmt: skip
    assert json.loads(found.cudagraph_skip_reasons or "") == ["due to cpu device"]
    assert json.loads(found.recompile_reasons or "") == []


def reasons(*recorded: str | None) -> list[CompilationMetrics]:
    return [CompilationMetrics(recompile_reason=each) for each in recorded]


def test_each_reason_counts_once_without_the_number_of_its_compilation() -> None:
    again = "0/0: tensor 'x' size mismatch at index 0. expected 4, actual 5"
    recorded = reasons(None, again, again.replace("0/0", "3/1"), "y" * 500)
    found = compilation_log.recompile_reasons(recorded)
    assert found == [again.removeprefix("0/0: "), found[-1]]
    assert len(found[-1]) == compilation_log.LONGEST_REASON


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
    assert compilation_log.recompile_reasons(reasons(recorded)) == [kept]


@pytest.mark.full
def test_a_real_recompilation_has_torchs_reason() -> None:
    torch.compiler.reset()  # code of an earlier test would give a reason, too
    with compilation_log.watch() as watched:
        pass
    assert watched.columns == Compilations()
    module = torch.compile(torch.nn.ReLU(), backend="eager", dynamic=False)
    reasons = mode_effect.recompile_reasons()
    with compilation_log.watch() as watched:
        for count in (2, 3):
            module(torch.ones(count))
    assert json.loads(watched.columns.compile_phases_s or "")["dynamo"] > 0
    (reason,) = reasons()
    assert "size mismatch at index 0. expected 2, actual 3" in reason
    assert json.loads(watched.columns.recompile_reasons or "") == [reason]
    assert mode_effect.recompile_reasons()() == []
    torch.compiler.reset()
