"""Each switch of torch.compile is named where it is on, and only there."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import pytest
import torch

from modescope.bench.evidence import compiler_switches

ONE = {"TORCH_COMPILE_DISABLE": "1"}

ON: dict[str, tuple[dict[str, str], dict[str, Any], dict[str, Any]]] = {
    "TORCHDYNAMO_DISABLE=1": ({"TORCHDYNAMO_DISABLE": "1"}, {}, {}),
    "TORCH_COMPILE_DISABLE=1": (ONE, {"disable": True}, {}),
    "torch._dynamo.config.disable": ({}, {"disable": True}, {}),
    **{
        f'torch.compiler.set_stance("{stance}")': ({}, {}, {"stance": stance})
        for stance in (
            *("force_eager", "eager_on_recompile", "fail_on_recompile"),
            *("eager_then_compile", "aot_eager_then_compile"),
        )
    },
    "torch.compiler.set_stance(force_backend=…)": ({}, {}, {"force_backend": "eager"}),
    "TORCHDYNAMO_SUPPRESS_ERRORS": (
        {"TORCHDYNAMO_SUPPRESS_ERRORS": "0"},
        {"suppress_errors": True},
        {},
    ),
    "torch._dynamo.config.suppress_errors": ({}, {"suppress_errors": True}, {}),
    "TORCHDYNAMO_DEBUG_FUNCTION": ({"TORCHDYNAMO_DEBUG_FUNCTION": "forward"}, {}, {}),
}
"""Variables, settings of torch._dynamo.config, and arguments of set_stance."""


@pytest.mark.parametrize("name", ON)
def test_a_switch_that_is_on_is_named(name: str) -> None:
    variables, settings, stance = ON[name]
    assert compiler_switches.active() == ()
    with ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ, variables))
        stack.enter_context(torch._dynamo.config.patch(settings))
        if stance:
            stack.enter_context(torch.compiler.set_stance(**stance))
        (text,) = compiler_switches.active()
        assert compiler_switches.backend_is_replaced() is ("force_backend" in stance)
    assert text.startswith(f"{name} ")


def test_every_switch_is_tested_and_what_torch_does_not_read_is_none() -> None:
    assert list(ON) == [name for name, *_ in compiler_switches.SWITCHES]
    with patch.dict(os.environ, ONE | {"TORCHDYNAMO_DISABLE": "0"}):
        assert compiler_switches.active() == (), "too late for torch to read it"
