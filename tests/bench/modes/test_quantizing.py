"""Fewer bits of weights: what is done, its proof, its bytes, its error, and what is refused."""

from __future__ import annotations

import importlib.util
import warnings
from dataclasses import replace
from typing import Any

import pytest
import torch
import torchao
from torch import nn
from torchao import quantization

from modescope.bench import refusals
from modescope.bench.case import runner
from modescope.bench.devices.allocators import parts, storage_bytes
from modescope.bench.devices.devices import Cpu
from modescope.bench.evidence import observing
from modescope.bench.model.building import build
from modescope.bench.modes import axes, modes, quantizing
from modescope.bench.modes.phases import ONE_CALL
from modescope.bench.passes import counting, memory
from modescope.bench.records import tolerances
from modescope.bench.records.cases import Case, Inference, Mode, Model, Training, Variant
from modescope.bench.records.environment import DeviceFacts
from modescope.bench.records.results import Result
from modescope.bench.timing import memory_layout
from tests.helpers import made_up_records
from tests.helpers.made_up_records import COMPILE, CPU, H100
from tests.helpers.probe_models import EAGER, case, linear, model, preset, silent, smoke
from tests.helpers.programs import lines

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

MLP = Model("mlp", "modescope.models.mlp:build")
BLOCK = Model("transformer", "modescope.models.transformer:build")
WIDTH = 64
SIZES = {
    MLP: f'{{"batch":8,"depth":2,"width":{WIDTH}}}',
    BLOCK: f'{{"batch":1,"heads":4,"seq":16,"width":{WIDTH}}}',
}
INT8 = ("int8-dynamic", "int8-weights")
TAKEN = ("Tensor", "Int8Tensor")
COMPILED = pytest.param(preset("compile"), marks=pytest.mark.full)


def asked(value: str, mode: Mode = EAGER) -> Variant:
    return Variant(replace(mode, axes=(*mode.axes, ("quantize", value))), "fp32")


def measured(work: Case) -> Result:
    torch.compiler.reset()
    return runner.run(silent, work, replace(smoke(), memory=True))


def of(made: Model, value: str, mode: Mode = EAGER) -> Case:
    work = case(made, asked(value, mode), Variant(EAGER, "fp32"))
    return replace(work, shape_json=SIZES.get(made, "{}"))


def prepared(value: str) -> Any:
    subject = build(MLP, {"batch": 8, "depth": 2, "width": WIDTH})
    return modes.prepare(subject, asked(value), ONE_CALL)


class Own(nn.Module):
    """A model as users write them: two layers of one size, a norm, a branch, logits by name."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 12, bias=False)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        hidden = self.norm(x + self.second(self.first(x).relu()))
        return {"logits": self.head(hidden), "hidden": hidden}


def own() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    return Own(), (torch.randn(3, 5, WIDTH),)


@pytest.mark.usefixtures("restored_settings")
@pytest.mark.parametrize("value", INT8)
@pytest.mark.parametrize("made", [MLP, BLOCK, model(own)], ids=["mlp", "transformer", "own"])
@pytest.mark.parametrize("mode", [EAGER, COMPILED], ids=["eager", "compile"])
def test_a_case_is_right_proven_and_smaller(mode: Mode, made: Model, value: str) -> None:
    result = measured(of(made, value, mode))
    assert result.status == "ok", result.reason
    found = result.findings
    assert (found.checks.in_effect, found.checks.in_effect_note) == (True, None)
    assert found.checks.seen_axes == f'{{"quantize":"{value}"}}'
    assert 1e-4 < found.checks.error < found.checks.error_limit
    assert found.checks.error_limit > tolerances.QUANTIZED[value]
    assert found.checks.baseline_error < 1e-5
    assert 0.999 < found.quantized.output_cosine < 1
    assert 0.9 < found.quantized.quantized_share < 1
    assert found.quantized.quantizer == f"torchao {torchao.__version__}"
    full_bytes = storage_bytes(build(made, of(made, value).shape).module.parameters())
    assert found.memory.weights_bytes < 0.35 * full_bytes
    assert found.memory.resident_bytes < 0.6 * full_bytes
    assert "baseline_failed" not in found.flags


def test_logits_are_told_by_name_or_form_and_agree() -> None:
    found = measured(of(model(own), "int8-dynamic")).findings.quantized
    assert 0.8 <= found.top1_agreement <= 1
    assert measured(of(BLOCK, "int8-dynamic")).findings.quantized.top1_agreement is None


@pytest.mark.usefixtures("restored_settings")
def test_a_quantizer_that_does_nothing_is_not_in_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantization, "quantize_", lambda model, config: None)
    found = measured(of(MLP, "int8-dynamic")).findings
    assert found.checks.in_effect is False
    assert "int8-dynamic" in found.checks.in_effect_note
    assert found.quantized.quantized_share is None


class Kept(nn.Module):
    """A model that multiplies a tensor of its own in place of its layer's weight."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)
        self.own = [self.layer.weight.detach().clone()]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert self.layer.weight.shape == self.own[0].shape
        return x @ self.own[0].t()


def kept() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    return Kept(), (torch.randn(8, WIDTH),)


@pytest.mark.usefixtures("restored_settings")
@pytest.mark.parametrize("value", INT8)
def test_weights_that_no_call_takes_are_not_in_effect(value: str) -> None:
    found = measured(of(model(kept), value)).findings
    assert found.checks.in_effect is False
    assert "which no call takes" in found.checks.in_effect_note


@pytest.mark.usefixtures("restored_settings")
@pytest.mark.parametrize("value", INT8)
def test_a_wrong_scale_is_a_wrong_result(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    quantize_ = quantization.quantize_

    def wrongly(module: nn.Module, config: Any) -> None:
        quantize_(module, config)
        for part in module.modules():
            if isinstance(part, nn.Linear):
                dict(vars(part.weight))["scale"].mul_(1.1)

    monkeypatch.setattr(quantization, "quantize_", wrongly)
    result = measured(of(MLP, value))
    assert result.status == "wrong_result"
    assert result.findings.checks.error > 0.09


def test_inputs_that_keep_their_bits_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        quantization,
        "Int8DynamicActivationInt8WeightConfig",
        quantization.Int8WeightOnlyConfig,
    )
    variant = asked("int8-dynamic")
    subject = modes.prepare(build(MLP, {"batch": 8, "depth": 2, "width": WIDTH}), variant, ONE_CALL)
    built = modes.build(subject, variant, True, Cpu(), ONE_CALL)
    seen = observing.observe(built, variant, Cpu()).axes
    assert seen["quantize"] == "int8-weights"
    assert len(axes.doubts(variant, seen)) == 1


def test_the_proof_reads_the_types_of_weights_and_the_operators() -> None:
    integers = prepared("int8-dynamic").module
    assert quantizing.read(integers, {"aten::_int_mm"}, TAKEN) == "int8-dynamic"
    assert (
        quantizing.read(integers, {"aten::addmm"}, TAKEN)
        == "int8-dynamic without _int_mm or qlinear_pointwise"
    )
    assert quantizing.read(integers[:0], (), ()) == "none"


def test_bytes_and_places_are_those_of_the_parts() -> None:
    own_copy = prepared("int8-dynamic")
    weight = own_copy.module[1].weight
    assert weight.dtype == torch.float32
    assert weight.untyped_storage().nbytes() == 4 * WIDTH * WIDTH  # which lies
    assert sum(part.nbytes for part in parts(weight)) < 1.3 * WIDTH * WIDTH
    layers, biases = 2 * WIDTH * (WIDTH + 4), 2 * 4 * WIDTH
    assert memory.weights_bytes(own_copy.module) in range(layers + biases, layers + biases + 300)
    before = {part.data_ptr() for part in parts(weight)}
    held = [memory_layout.make_redraw(own_copy.tensors(), Cpu(), seed)() for seed in range(3)]
    assert {part.data_ptr() for part in parts(weight)}.isdisjoint(before)
    assert held


def test_counted_bytes_have_the_weights_of_fewer_bits() -> None:
    variant = asked("int8-weights")
    built = modes.build(prepared("int8-weights"), variant, False, Cpu(), ONE_CALL)
    full = modes.prepare(
        build(MLP, {"batch": 8, "depth": 2, "width": WIDTH}), Variant(EAGER, "fp32"), ONE_CALL
    )
    plain = modes.build(full, Variant(EAGER, "fp32"), False, Cpu(), ONE_CALL)
    few, all_bits = counting.count(built), counting.count(plain)
    assert few.work_note is None
    assert few.flops == all_bits.flops
    assert few.least_bytes < all_bits.least_bytes - 2.5 * 2 * WIDTH * WIDTH


def test_further_copies_are_quantized_and_share_nothing() -> None:
    own_copy = prepared("int8-dynamic")
    further = own_copy.another()
    torch.testing.assert_close(further(*own_copy.inputs.args), own_copy.call())
    assert quantizing.columns(further) == quantizing.columns(own_copy.module)
    ids = {part.data_ptr() for weight in own_copy.module.parameters() for part in parts(weight)}
    assert ids.isdisjoint(
        part.data_ptr() for weight in further.parameters() for part in parts(weight)
    )


FROZEN = preset("freezing")
FP8, INT4 = asked("fp8-dynamic"), asked("int4-weights")
ADA = DeviceFacts("cuda", "NVIDIA L4", (8, 9), 24 * 2**30)


@pytest.mark.parametrize(
    ("variant", "device", "remedy"),
    [
        (asked("int8-dynamic", COMPILE), CPU, None),
        (asked("int8-weights", COMPILE), H100, None),
        (FP8, CPU, "8.9"),
        (FP8, replace(ADA, capability=(8, 6)), "8.9"),
        (FP8, ADA, None),
        (INT4, ADA, "9.0"),
        (INT4, H100, "mslk"),
        (asked("int8-dynamic", preset("aoti")), CPU, "mode=compile"),
        (asked("int8-weights", FROZEN), CPU, "one of the two"),
        (asked("int8-dynamic", FROZEN), CPU, None),
        (Variant(replace(asked("int8-dynamic").mode, autocast=True), "bf16"), CPU, "dtype=bf16"),
    ],
)
def test_what_is_missing_is_told_in_one_sentence(
    variant: Variant, device: DeviceFacts, remedy: str | None
) -> None:
    found = refusals.refusal(made_up_records.case(variant=variant, device=device.type), device)
    assert (found is None) == (remedy is None)
    assert remedy is None or (remedy in found and "\n" not in found)


def test_the_dtype_of_int4_is_told_where_the_package_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quantizing, "find_spec", lambda name: object())
    assert "dtype=bf16" in quantizing.refusal(INT4, H100)
    assert quantizing.refusal(replace(INT4, dtype="bf16"), H100) is None


def test_a_missing_torchao_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(quantizing, "find_spec", lambda n: None if n == "torchao" else find(n))
    found = refusals.refusal(made_up_records.case(variant=asked("int8-dynamic")), CPU)
    assert found == "quantize=int8-dynamic needs torchao: pip install 'modescope[quant]'"


def test_training_is_refused_and_so_are_starts_and_models_without_layers() -> None:
    variant = asked("int8-dynamic")
    trained = made_up_records.case(variant=variant, options=Training())
    assert "mode.quantize" in refusals.refusal(trained, CPU)
    started = made_up_records.case(variant=variant, options=Inference())
    plan = replace(smoke(), starts=3, compile_cache="cold")
    assert "mode.quantize" in refusals.no_cache(started, plan)
    assert quantizing.unfit(build(model(linear), {}).module) is None
    assert quantizing.unfit(nn.Sequential(nn.Conv2d(1, 1, 1), nn.ReLU())) == quantizing.NO_LINEAR
    computed = nn.utils.parametrizations.weight_norm(nn.Linear(WIDTH, WIDTH))
    assert quantizing.unfit(nn.Sequential(nn.Linear(1, 1), computed)) == quantizing.COMPUTED
    with warnings.catch_warnings(action="ignore"):
        hooked = nn.utils.weight_norm(nn.Linear(2, 2))
    assert quantizing.unfit(hooked) == quantizing.COMPUTED
    assert quantizing.unfit(nn.LazyLinear(2)) is None
    wide = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2, dtype=torch.float64))
    assert "(float64)" in quantizing.unfit(wide)
    few = nn.Linear(WIDTH, WIDTH)
    quantization.quantize_(few, quantization.Int8WeightOnlyConfig(set_inductor_config=False))
    assert "(Int8Tensor)" in quantizing.unfit(few)


@pytest.mark.parametrize("value", INT8)
def test_a_program_does_the_same(value: str) -> None:
    net = nn.Linear(WIDTH, WIDTH)
    names: dict[str, Any] = {"torch": torch, "model": net, "inputs": [torch.randn(2, WIDTH)]}
    exec(lines(asked(value)), names)
    assert quantizing.columns(net).quantized_share == pytest.approx(WIDTH / (WIDTH + 1))
    kind = value if value == "int8-weights" else f"{value} without _int_mm or qlinear_pointwise"
    assert quantizing.read(net, (), TAKEN) == kind
    assert "torchao" not in lines(asked("none"))
