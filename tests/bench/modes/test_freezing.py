"""Freezing: what it is refused with, the process's switch, its proof, and what a program has."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch._inductor.config

from modescope.bench import refusals
from modescope.bench.case import torch_setup
from modescope.bench.evidence.mode_effect import Facts, ModeEffect, effect
from modescope.bench.modes import axes, freezing
from modescope.bench.records.cases import Case, Inference, Mode, PhaseOptions, Training, Variant
from modescope.bench.records.columns.compiling import CompiledCode
from modescope.bench.records.environment import DeviceFacts
from tests.helpers.made_up_records import COMPILE, CPU, EAGER, H100, case
from tests.helpers.probe_models import case as of_probe
from tests.helpers.probe_models import linear, model, observed, preset, smoke
from tests.helpers.programs import lines

FROZEN = preset("freezing")
TUNED = preset("max-autotune-freezing")
CODE = "torch._inductor.config.freezing = True"


def frozen(**changes: Any) -> Mode:
    return replace(FROZEN, **changes)


AOTI = preset("aoti")


@pytest.mark.parametrize(("mode", "imports"), [(EAGER, False), (AOTI, False), (COMPILE, True)])
def test_only_what_compiles_here_imports_the_compiler_to_set_it_up(
    mode: Mode, imports: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "torch._inductor.config"
    monkeypatch.setitem(sys.modules, name, sys.modules[name])  # put back afterwards
    del sys.modules[name]
    freezing.set_up([Variant(mode, "fp32")])
    assert (name in sys.modules) is imports


def test_what_builds_a_package_freezes_nothing_whatever_was_set_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch._inductor.config, "freezing", True)
    freezing.set_up([Variant(AOTI, "fp32")])
    assert not torch._inductor.config.freezing


def of(mode: Mode, baseline: Mode | None = EAGER, options: PhaseOptions = Inference()) -> Case:  # noqa: B008
    against = Variant(baseline, "fp32") if baseline else None
    return case(variant=Variant(mode, "fp32"), baseline=against, options=options)


REFUSED = [
    (of(FROZEN), None),
    (of(FROZEN, None), None),
    (of(TUNED, FROZEN), None),  # both are frozen
    (of(EAGER, FROZEN), None),
    (of(frozen(grad="no_grad")), None),
    (of(FROZEN, COMPILE), "a compiled baseline would be frozen, too"),
    (of(COMPILE, FROZEN), "this compiled mode would be frozen, too"),
    (of(frozen(grad="enabled")), "leave out mode.grad=enabled"),
    (of(frozen(grad="enabled"), options=Training()), "training changes the weights"),
    (of(frozen(compile="none")), "only Inductor freezes"),
    (of(frozen(backend="aot_eager")), "only Inductor freezes"),
    (of(replace(COMPILE, options='{"freezing":true}')), "use mode.freezing=true"),
]


@pytest.mark.parametrize(("asked", "reason"), REFUSED)
@pytest.mark.parametrize("device", [CPU, H100])
def test_what_freezing_is_refused_with(
    asked: Case, reason: str | None, device: DeviceFacts
) -> None:
    found = refusals.refusal(asked, device)
    assert (found is None) == (reason is None)
    assert reason is None or reason in str(found)


@pytest.mark.parametrize(
    ("asked", "cache", "refused"),
    [
        (of(FROZEN), "warm", True),
        (of(EAGER, FROZEN), "warm", True),
        (of(FROZEN), "cold", False),
        (of(COMPILE), "warm", False),
    ],
)
def test_a_cache_that_never_holds_frozen_code_is_not_called_warm(
    asked: Case, cache: str, refused: bool
) -> None:
    plan = replace(smoke(), compile_cache=cache)
    assert (refusals.no_cache(asked, plan) is not None) == refused


def test_the_switch_of_the_process_is_that_of_its_modes() -> None:
    """Whatever it was before, as TORCHINDUCTOR_FREEZING=1 sets it."""
    states = []
    for before in (False, True):
        for mode, baseline in ((FROZEN, EAGER), (EAGER, FROZEN), (COMPILE, EAGER)):
            torch._inductor.config.freezing = before
            both = Variant(mode, "fp32"), Variant(baseline, "fp32")
            torch_setup.set_up_torch(of_probe(model(linear), *both), smoke())
            states.append(torch._inductor.config.freezing)
    assert states == [True, True, False] * 2


def facts(mode: Mode, code: CompiledCode) -> Facts:
    from modescope.bench.evidence.compiler_counts import Compiled

    compiled = Compiled(0, int(mode.compiles), 0, 0)
    seen = observed(mode.grad, "none", "float32")
    return Facts(Variant(mode, "fp32"), True, "cpu", compiled, True, 0, seen, None, code=code)


@pytest.mark.parametrize(
    ("mode", "frozen_weights", "expected"),
    [
        (FROZEN, 8, ModeEffect(True, freezing.REMARK, None)),
        (FROZEN, 0, ModeEffect(False, "no weight was frozen", None)),
        (FROZEN, None, ModeEffect(False, "no weight was frozen", None)),
        (COMPILE, 0, ModeEffect(True, None, None)),
        (COMPILE, None, ModeEffect(True, None, None)),
        (COMPILE, 8, ModeEffect(False, "weights were frozen", None)),
        (replace(EAGER, grad="no_grad"), 0, ModeEffect(True, None, None)),
    ],
)
def test_the_proof_is_the_number_of_constants(
    mode: Mode, frozen_weights: int | None, expected: ModeEffect
) -> None:
    assert effect(facts(mode, CompiledCode(frozen_weights=frozen_weights))) == expected


def test_a_program_freezes_before_it_compiles() -> None:
    program = lines(Variant(FROZEN, "fp32")).splitlines()
    assert program.index(CODE) < program.index("model = torch.compile(model, fullgraph=True)")
    assert CODE not in lines(Variant(COMPILE, "fp32"))
    assert axes.settings()["freezing"] == (False, True)


def test_case_ids_tell_frozen_from_unfrozen() -> None:
    ids = [of(each).case_id for each in (FROZEN, TUNED, preset("compile"))]
    assert len(set(ids)) == 3
