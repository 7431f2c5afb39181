"""channels_last is put on the weights and inputs of convolutions once, and is seen in a call."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from modescope.bench.case import runner
from modescope.bench.devices.devices import Cpu
from modescope.bench.evidence import observing
from modescope.bench.model.building import build
from modescope.bench.modes import axes, layout, modes
from modescope.bench.modes.axes import AXES
from modescope.bench.modes.phases import ONE_CALL
from modescope.bench.records.cases import Model, Training, Variant
from tests.helpers.image_models import convolutions
from tests.helpers.probe_models import EAGER, case, linear, model, preset, silent, smoke
from tests.helpers.programs import lines

LAST = torch.channels_last
IMAGES = Model("images", "tests.helpers.image_models:convolutions")


def asked(value: str = "channels_last", name: str = "eager") -> Variant:
    return Variant(replace(preset(name), axes=(("layout", value),)), "fp32")


def single(channels: int, side: int) -> tuple[nn.Module, tuple[torch.Tensor]]:
    """A convolution whose weight and input have the same strides in both formats."""
    return nn.Conv2d(channels, 4, side), (torch.randn(2, channels, side, side),)


def seen(variant: Variant) -> dict[str, axes.Value]:
    subject = modes.prepare(build(IMAGES, {}), variant, ONE_CALL)
    built = modes.build(subject, variant, True, Cpu(), ONE_CALL)
    return observing.observe(built, variant, Cpu()).axes


def test_weights_and_inputs_of_the_variants_own_copy_are_changed() -> None:
    subject = build(IMAGES, {})
    own = modes.prepare(subject, asked(), ONE_CALL)
    four = [each for each in own.tensors() if each.dim() == 4]
    assert len(four) == 4
    assert all(each.is_contiguous(memory_format=LAST) for each in four)
    assert own.inputs.args[0] is own.inputs.args[1]
    assert all(each.is_contiguous() for each in subject.tensors())
    further = own.another()
    assert all(w.stride() == o.stride() for w, o in zip(
        further.parameters(), own.module.parameters(), strict=True))  # fmt: skip
    torch.testing.assert_close(own.call(), subject.call())


@pytest.mark.parametrize("name", ["eager", pytest.param("compile", marks=pytest.mark.full)])
def test_the_strides_of_a_call_prove_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert axes.doubts(asked(name=name), seen(asked(name=name))) == []
    monkeypatch.setitem(AXES, "layout", replace(AXES["layout"], prepare=None))
    dropped = seen(asked(name=name))
    assert dropped["layout"] == "contiguous"
    assert len(axes.doubts(asked(name=name), dropped)) == 1


def test_a_part_that_lies_otherwise_is_seen() -> None:
    module, (image, _) = convolutions()
    last = image.to(memory_format=LAST)

    def read(*inputs: torch.Tensor) -> str:
        return layout.read(module, inputs)

    assert read(image, image) == "contiguous"
    assert read(last, image) == "partly channels_last"
    for weight in module.parameters():
        if weight.dim() == 4:
            weight.data = weight.data.to(memory_format=LAST)
    assert read(last, last) == "channels_last"
    assert read(last, image) == "partly channels_last"
    first = next(module.parameters())
    first.data = first.data.contiguous()
    assert read(last, last) == "partly channels_last"


@pytest.mark.parametrize("sizes", [{"channels": 1, "side": 3}, {"channels": 3, "side": 1}])
def test_what_lies_alike_in_both_formats_is_laid_out_as_by_the_program(
    sizes: dict[str, Any],
) -> None:
    own = modes.prepare(build(model(single, **sizes), {}), asked(), ONE_CALL)
    net, images = single(**sizes)
    names: dict[str, Any] = {"torch": torch, "model": net, "inputs": images}
    assert layout.read(net, images) == "contiguous"
    exec(lines(asked()).partition("output =")[0], names)
    assert [each.stride() for each in own.tensors()] == [
        each.stride() for each in (*net.parameters(), *names["inputs"])
    ]
    assert layout.read(own.module, own.inputs.args) == "channels_last"


def test_no_weight_of_four_dimensions_is_a_reason_to_refuse() -> None:
    assert layout.unfit(build(model(linear), {}).module) == layout.NO_CONVOLUTION
    images = build(IMAGES, {}).module
    assert layout.unfit(images) is None
    assert layout.unfit(images.to(memory_format=torch.channels_last)) == layout.LAID_ALREADY  # type: ignore[call-overload]
    assert layout.read(nn.Linear(1, 1), ()) == "contiguous"


@pytest.mark.usefixtures("restored_settings")
@pytest.mark.parametrize("trains", [False, True])
def test_a_case_is_right_and_in_effect(trains: bool) -> None:
    own = asked()
    against = Variant(EAGER, "fp32")
    if trains:
        own = replace(own, mode=replace(own.mode, grad="enabled"))
    work = case(IMAGES, own, against)
    work = replace(work, options=Training()) if trains else work
    result = runner.run(silent, work, smoke())
    assert result.status == "ok", result.reason
    found = result.findings
    assert (found.checks.in_effect, found.checks.in_effect_note) == (True, None)
    assert found.checks.seen_axes == '{"layout":"channels_last"}'
    assert found.checks.error < found.checks.error_limit


class Rearranges(nn.Conv2d):
    """Copies what is in channels_last, and nothing else."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.contiguous()).contiguous()


def rearranges() -> tuple[nn.Module, tuple[torch.Tensor]]:
    return Rearranges(3, 4, 3), (torch.randn(2, 3, 8, 8),)


@pytest.mark.usefixtures("restored_settings")
def test_copies_that_the_layout_needs_are_not_taken_for_growing_work() -> None:
    result = runner.run(silent, case(model(rearranges), asked(), Variant(EAGER, "fp32")), smoke())
    assert result.findings.checks.in_effect
    assert not {"work_grows", "other_operators"} & {*result.findings.flags}


@pytest.mark.parametrize("named", [False, True])
def test_a_program_lays_out_model_and_inputs(named: bool) -> None:
    program = lines(asked(), named_inputs=named)
    before = program.partition("output =")[0]  # what is done once
    images: Any = [torch.randn(2, 3, 4, 4), torch.randn(2, 3)]
    given: Any = {"x": images[0], "y": images[1]} if named else images
    net = nn.Conv2d(3, 4, 3)
    names: dict[str, Any] = {"torch": torch, "model": net, "inputs": given}
    exec(before, names)
    left = list(names["inputs"].values() if named else names["inputs"])
    assert left[0].is_contiguous(memory_format=LAST)
    assert left[1].is_contiguous()
    assert net.weight.is_contiguous(memory_format=LAST)
    assert "channels_last" not in lines(asked("contiguous"))
