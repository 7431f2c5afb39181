"""fp32 multiplied in bf16 on a CPU, beside fp32 in one process: each call as its side is set."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from modescope.bench.case import runner
from modescope.bench.devices import processor
from modescope.bench.devices.devices import Cpu, Prepared
from modescope.bench.evidence import observing
from modescope.bench.model.building import build
from modescope.bench.modes import fp32_products, modes
from modescope.bench.modes.phases import ONE_CALL
from modescope.bench.records.cases import Case, Model, Training, Variant
from modescope.bench.records.environment import DeviceFacts
from modescope.bench.records.results import Findings
from modescope.bench.refusals import refusal
from tests.helpers.made_up_records import CPU
from tests.helpers.probe_models import (
    EAGER,
    WIDTH,
    Applies,
    case,
    model,
    preset,
    silent,
    smoke,
    variant,
)
from tests.helpers.programs import lines
from tests.helpers.watched_runs import Watch

pytestmark = pytest.mark.usefixtures("as_in_a_child", "restored_settings")

BF32, FP32 = Variant(EAGER, "bf32"), Variant(EAGER, "fp32")
MLP = Model("mlp", "modescope.models.mlp:build")
SHAPE = '{"batch":64,"depth":2,"width":256}'
LINK = replace(case(MLP, BF32, FP32), shape_json=SHAPE)
COMPILED = replace(LINK, variant=Variant(preset("compile"), "bf32"))
needs_bf16 = pytest.mark.skipif(
    not fp32_products.rounds(), reason="this CPU does not multiply fp32 in bf16"
)


def run(asked: Case) -> Findings:
    result = runner.run(silent, asked, smoke())
    assert result.status == "ok", result.reason
    return result.findings


@needs_bf16
@pytest.mark.parametrize(
    "asked",
    [
        LINK,
        replace(LINK, variant=FP32, baseline=BF32),
        replace(LINK, options=Training()),
        pytest.param(COMPILED, marks=pytest.mark.full),
    ],
    ids=["link", "swapped", "trained", "compiled"],
)
def test_either_side_multiplies_as_it_asks(asked: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.compiler.reset()
    watch = Watch(monkeypatch)
    found = run(asked)
    assert (found.checks.in_effect, found.checks.in_effect_note) == (True, None)
    assert found.flags == tuple(each for each in found.flags if not each.startswith("baseline"))
    assert (
        found.checks.recompiles,
        found.models_own.settings_put_back,
        found.models_own.settings_in_calls,
    ) == (0, None, None)
    assert found.checks.checked_against == "float64"
    assert found.checks.error is not None
    assert found.checks.baseline_error is not None
    errors = {asked.variant.dtype: found.checks.error}
    assert asked.baseline is not None
    errors[asked.baseline.dtype] = found.checks.baseline_error
    assert errors["bf32"] > 100 * errors["fp32"]
    assert errors["bf32"] < 1e-2
    for built in (watch.candidate, watch.baseline):
        assert isinstance(built.step, Prepared)
        assert built.step.in_a_row


@needs_bf16
def test_a_baseline_in_bf32_needs_no_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch(monkeypatch)
    found = run(replace(LINK, baseline=BF32))
    assert (found.checks.in_effect, found.checks.matmul_precision) == (True, None)
    assert not any(isinstance(built.step, Prepared) for built in watch.built)


def test_equal_bits_are_not_in_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a CPU whose oneDNN does not take the switch."""
    told, use, used = ["fp32"], fp32_products.use, fp32_products.used

    def forget(dtype: str) -> None:
        told[0] = fp32_products.of(dtype)
        use("fp32")

    monkeypatch.setattr(fp32_products, "use", forget)
    monkeypatch.setattr(fp32_products, "used", lambda: told[0])
    found = run(LINK)
    assert used() == "fp32"
    assert found.checks.in_effect is False
    assert found.checks.in_effect_note == "torch multiplied nothing in bf16"


def test_another_order_of_sums_is_not_in_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a CPU whose oneDNN takes the switch, and multiplies in fp32."""
    monkeypatch.setattr(fp32_products, "_set", lambda name, value: None)
    monkeypatch.setattr(fp32_products, "used", lambda: "bf32")
    assert fp32_products.rounds() is False
    monkeypatch.setattr(observing, "_are_equal", lambda first, second: False)
    found = run(LINK)
    assert (found.checks.in_effect, found.checks.in_effect_note) == (
        False, "torch multiplied nothing in bf16"
    )  # fmt: skip


def not_numbers() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    return Applies(lambda weight, x: weight * x * torch.nan), (torch.ones(2, WIDTH),)


def test_results_that_are_no_numbers_are_equal_in_both() -> None:
    subject = modes.prepare(build(model(not_numbers), {}), BF32, ONE_CALL)
    built = modes.build(subject, BF32, True, Cpu(), ONE_CALL)
    assert observing.rounds_products(built, BF32) is False


def test_a_switch_that_is_never_set_is_not_in_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fp32_products, "use", lambda dtype: None)
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    found = run(LINK)
    assert found.checks.in_effect is False
    assert "fp32 was multiplied in fp32 instead of bf32" in str(found.checks.in_effect_note)


def test_the_switches_are_told_and_restored() -> None:
    for dtype in ("bf32", "fp32", "tf32", "bf32", "bf16"):
        fp32_products.use(dtype)
        assert fp32_products.used() == fp32_products.of(dtype)
    assert fp32_products.of("bf32") == "bf32"
    for outer, inner in (("bf32", "fp32"), ("tf32", "bf32"), ("fp32", "bf32")):
        fp32_products.use(outer)
        with fp32_products.kept():
            fp32_products.use(inner)
            assert fp32_products.used() == inner
        assert fp32_products.used() == outer


def test_what_cannot_multiply_in_bf16_is_refused() -> None:
    known = Cpu().facts()
    assert known.instructions == processor.instructions()
    for instructions, refused in (("avx2 fma", True), ("avx512_bf16", False), (None, False)):
        reason = refusal(LINK, replace(CPU, instructions=instructions))
        assert (reason is not None) == refused
    gpu = DeviceFacts("cuda", "a GPU", (9, 0))
    assert "dtype=tf32" in str(refusal(replace(LINK, device="cuda"), gpu))
    amp = Variant(preset("amp"), "bf32")
    assert "dtype=bf16" in str(refusal(replace(LINK, variant=amp), CPU))
    assert refusal(COMPILED, CPU) is None


def test_a_program_sets_the_switches() -> None:
    exec(lines(replace(variant(), dtype="bf32")).partition("output =")[0], {
        "torch": torch, "model": torch.nn.Linear(1, 1), "inputs": []
    })  # fmt: skip
    assert fp32_products.used() == "bf32"
    assert "mkldnn" not in lines(variant())
