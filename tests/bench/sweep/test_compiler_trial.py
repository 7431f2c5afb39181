"""Backends and options are tried in a child before anything is measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from modescope.bench.records.cases import Variant
from modescope.bench.records.errors import UsageError
from modescope.bench.sweep import compiler_trial, isolation
from modescope.bench.sweep.isolation import ChildOutcome, Ending
from tests.helpers.made_up_records import COMPILE, EAGER, case
from tests.helpers.probe_models import silent

NAMED = replace(COMPILE, backend="aot_eager")
OPTIONS = replace(COMPILE, options='{"cpp.simdlen":1}')


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    yield
    torch.compiler.reset()


@pytest.mark.parametrize(
    ("options", "backend", "parts"),
    [
        ("{}", "aot_eager", None),
        ("{}", "eager", None),
        ('{"cpp.simdlen":1}', None, None),
        ("{}", "tvm", ["mode.backend=tvm: ", "Please install apache-tvm"]),
        ("{}", "openvino", ["mode.backend=openvino: ", "aot_eager", "cudagraphs"]),
        ('{"nonsense":1}', None, ["mode.options.nonsense=1: "]),
    ],
)
def test_what_torch_does_not_take_is_one_line(
    options: str, backend: str | None, parts: list[str] | None
) -> None:
    trials = [("{}", None, "cpu"), (options, backend, "cpu")]
    if parts is None:
        compiler_trial.try_all(silent, trials)
        return
    with pytest.raises(UsageError) as caught:
        compiler_trial.try_all(silent, trials)
    assert all(part in str(caught.value) for part in parts)
    assert "\n" not in str(caught.value)
    assert "TORCHDYNAMO_VERBOSE" not in str(caught.value)


def test_only_what_the_user_gave_is_tried_and_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def call(function: str, trials: Any, timeout_s: float) -> ChildOutcome[Any]:
        asked.append(trials)
        return ChildOutcome(Ending.RETURNED)

    monkeypatch.setattr(isolation, "call", call)
    plain = case(variant=Variant(COMPILE, "fp32"), baseline=Variant(EAGER, "fp32"))
    compiler_trial.check([plain])
    assert asked == []
    named = replace(plain, variant=Variant(NAMED, "fp32"))
    both = replace(named, baseline=Variant(OPTIONS, "fp32"))
    compiler_trial.check([plain, named, both])
    assert asked == [[("{}", "aot_eager", "cpu"), (OPTIONS.options, None, "cpu")]]


@pytest.mark.parametrize("kind", [kind for kind in Ending if kind != Ending.RETURNED])
def test_a_trial_that_does_not_return_ends_the_command(
    kind: Ending, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = ChildOutcome(kind, None, "by SIGSEGV")
    monkeypatch.setattr(isolation, "call", lambda *given, **named: outcome)
    with pytest.raises(UsageError, match="by SIGSEGV"):
        compiler_trial.check([case(variant=Variant(NAMED, "fp32"))])
