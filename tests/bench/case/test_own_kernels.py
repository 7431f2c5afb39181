"""Cases of mode.kernels from start to end: checked against torch, counted as torch, proved."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch._dynamo.config

from modescope.bench.case import runner
from modescope.bench.devices.devices import Cpu
from modescope.bench.model import copies, plain_call
from modescope.bench.modes import modes
from modescope.bench.modes.phases import ONE_CALL
from modescope.bench.records.cases import Inference, Kernels, PhaseOptions, Training, Variant
from modescope.bench.records.errors import UsageError
from modescope.bench.records.results import Result
from modescope.bench.stats import estimates
from modescope.bench.sweep import host
from tests.helpers import own_kernels
from tests.helpers.own_kernels import asked, mine, with_kernels
from tests.helpers.probe_models import BASELINE, case, model, silent, smoke, variant

pytestmark = pytest.mark.usefixtures("as_in_a_child", "restored_settings")

NORM = "modescope_kernel_tests::norm"
COMPILE = {"compile": "default", "grad": "inference_mode"}
PHASES = [Inference(), Training()]


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch.compiler.reset()
    with torch._dynamo.config.patch(recompile_limit=8):
        yield
    torch.compiler.reset()


def run(
    name: str,
    options: PhaseOptions = PHASES[0],
    fullgraph: bool = True,
    dtype: str = "fp32",
    **mode: Any,
) -> Result:
    of = replace(with_kernels(name), fullgraph=fullgraph)
    given = case(of, replace(asked(name, **mode), dtype=dtype), BASELINE)
    plan = replace(smoke(), profile=True, trace_max_bytes=0)
    return runner.run(silent, replace(given, options=options), plan)


def proof(result: Result) -> tuple[Any, ...]:
    checks = result.findings.checks
    return (
        result.status,
        checks.in_effect,
        checks.kernel_use,
        json.loads(checks.kernel_names or "[]"),
    )


@pytest.mark.parametrize("options", PHASES, ids=["inference", "train"])
@pytest.mark.parametrize("mode", [{}, pytest.param(COMPILE, marks=pytest.mark.full)])
def test_a_right_kernel_is_in_effect_and_has_the_work_of_torch(
    options: PhaseOptions, mode: dict[str, Any]
) -> None:
    of_phase = mode | ({"grad": "enabled"} if options.phase == "train" and mode else {})
    result = run("mine", options, **of_phase)
    assert proof(result) == ("ok", True, "called", [NORM])
    plain = case(model(own_kernels.plain), variant(**of_phase), BASELINE)
    torchs = runner.run(
        silent,
        replace(plain, options=options),
        replace(smoke(), profile=True, trace_max_bytes=0),
    )
    assert result.findings.work.flops
    assert result.findings.work == torchs.findings.work
    assert torchs.findings.checks.kernel_use is None


@pytest.mark.parametrize("options", PHASES, ids=["inference", "train"])
@pytest.mark.parametrize("mode", [{}, pytest.param(COMPILE, marks=pytest.mark.full)])
def test_a_wrong_element_of_each_row_is_found(options: PhaseOptions, mode: dict[str, Any]) -> None:
    of_phase = mode | ({"grad": "enabled"} if options.phase == "train" and mode else {})
    result = run("wrong", options, **of_phase)
    assert result.status == "wrong_result"
    eager_error = result.findings.checks.eager_error
    assert eager_error is not None
    assert eager_error < 1e-3  # that of torch's code


@pytest.mark.parametrize("options", PHASES, ids=["inference", "train"])
def test_an_argument_that_only_the_kernel_changes_is_named(options: PhaseOptions) -> None:
    result = run("overwrites", options)
    assert result.status == "wrong_result"
    assert "argument [0]" in (result.reason or "")


@pytest.mark.parametrize("options", PHASES, ids=["inference", "train"])
@pytest.mark.parametrize(
    ("name", "status", "noted"),
    [
        ("mine", "ok", False),
        ("slightly", "wrong_result", False),
        ("only_half", "ok", True),
        ("in_half", "ok", True),
    ],
)
def test_a_row_in_bf16_also_checks_its_kernel_in_fp32(
    name: str, status: str, noted: bool, options: PhaseOptions
) -> None:
    for mode in ({}, {"autocast": True}):
        if (name, mode) == ("only_half", {"autocast": True}):
            continue  # whose weights are in fp32
        result = run(name, options, dtype="bf16", **mode)
        assert result.status == status, result.reason
        note = result.findings.checks.checked_note or ""
        assert ("checked at bf16 alone" in note) is noted, note


@pytest.mark.parametrize(
    ("name", "mode", "expected"),
    [
        ("composed", {}, ("ok", True, "called", ["modescope_kernel_tests::composed"])),
        ("guarded", {}, ("ok", True, "called", [NORM])),
        ("guarded", {"grad": "no_grad"}, ("ok", False, "absent", [])),
        ("plain", {}, ("ok", False, "absent", [])),
        pytest.param("composed", COMPILE, ("ok", False, "absent", []), marks=pytest.mark.full),
        pytest.param("breaks", COMPILE, ("ok", True, "broke", [NORM]), marks=pytest.mark.full),
    ],
)
def test_what_ran_is_told_by_the_names_of_operators(
    name: str, mode: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    assert proof(run(name, fullgraph=False, **mode)) == expected


@pytest.mark.full
def test_a_kernel_that_breaks_the_graph_fails_without_fullgraph_false() -> None:
    result = run("breaks", compile="default", grad="inference_mode")
    assert result.status == "failed"
    assert "model.fullgraph=false" in str(result.reason)


def test_a_model_that_keeps_an_operator_is_copied_and_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built, _ = mine()
    copied = copies.copy_module(built)
    assert copied.operator is built.operator
    assert copied.weight is not built.weight
    monkeypatch.setattr(plain_call, "SLOW_BUILD_S", -1.0)  # so that it is copied
    assert runner.run(silent, case(model(mine), variant(), BASELINE), smoke()).status == "ok"


def test_an_implementation_gets_the_weights_and_all_that_was_done_to_the_model() -> None:
    drawn = plain_call.build_drawn(case(with_kernels("mine"), asked("mine")), Cpu()).subject
    with torch.no_grad():
        drawn.module.get_parameter("weight").add_(1.0)  # as both builders draw the same weights
    half = drawn.cast(torch.bfloat16)
    own = modes.prepare(half, Variant(asked("mine").mode, "bf16"), ONE_CALL)
    for module in (own.module, own.another()):
        assert isinstance(module, own_kernels.Mine)
        theirs = half.module.state_dict()
        assert all(torch.equal(w, theirs[name]) for name, w in module.state_dict().items())
        assert {w.dtype for w in module.parameters()} == {torch.bfloat16}


@pytest.mark.parametrize("name", ["larger", "shared"])
def test_a_builder_that_cannot_stand_for_the_model_is_refused(name: str) -> None:
    drawn = plain_call.build_drawn(case(with_kernels(name), asked(name)), Cpu()).subject
    with pytest.raises(UsageError):
        _ = [modes.prepare(drawn, asked(name), ONE_CALL) for _ in range(2)]


def test_a_builder_that_is_missing_is_named_by_its_setting() -> None:
    of = replace(model(own_kernels.plain), kernels=(Kernels("mine", f"{__name__}:missing"),))
    with pytest.raises(UsageError, match=r"^model\.kernels\.mine="):
        host.try_model(silent, of, "cpu", [("{}", Inference())], {"mine"})


@pytest.mark.full
def test_a_kernel_against_itself_is_hardly_faster_or_slower() -> None:
    itself, told = asked("mine"), []
    for seed in range(20):
        plan = smoke(seed)
        short = replace(plan.budget, min_rounds=20, max_rounds=20, timed_max_s=1.0)
        plan = replace(plan, budget=short, latency_alone=True)
        found = runner.run(silent, case(with_kernels("mine"), itself, itself), plan).findings
        rounds = found.rounds
        assert rounds is not None
        assert rounds.baseline_latency_rounds_s is not None
        ratio = estimates.speedup(
            rounds.latency_rounds_s, rounds.baseline_latency_rounds_s, rounds.case_ran_first
        )
        told.append(estimates.verdict(ratio))
    assert None not in told
    assert sum(verdict in ("faster", "slower") for verdict in told) <= 1, told


def test_nothing_is_timed_with_interpreted_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert run("mine").status == "skipped"
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    assert run("mine").status == "ok"
