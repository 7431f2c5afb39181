"""Each axis of a mode, observed inside forward: outputs alone cannot show a dropped one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from modescope.bench.devices.devices import Cpu, Step
from modescope.bench.evidence import compiler_counts, observing
from modescope.bench.model.building import build
from modescope.bench.model.subject import Built
from modescope.bench.modes import backends, modes
from modescope.bench.modes.phases import ONE_CALL
from modescope.bench.records.cases import Variant
from tests.helpers.probe_models import (
    PRESETS,
    Inside,
    inside,
    model,
    observed,
    preset,
    tells,
    variant,
)

LIVE = [name for name in PRESETS if not backends.is_prebuilt(preset(name))]  # a package is built
ON_CPU = [name for name in LIVE if not (preset(name).graph or preset(name).axes)]
NAMES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


class Captures(Cpu):
    """A CPU whose graphs replay the output of their capture until the step is called again."""

    def __init__(self) -> None:
        self.captured: list[Step] = []

    def capture(self, step: Step) -> Step:
        self.captured.append(step)
        output = step()
        return lambda: output


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    yield
    torch.compiler.reset()


def output(step: Step) -> Any:
    return step()


def built(asked: Variant, device: Cpu | None = None, of: Any = tells) -> Built:
    torch.manual_seed(0)
    subject = build(model(of), {}).cast(modes.weight_dtype(asked))
    return modes.build(subject, asked, True, device or Cpu(), ONE_CALL)


def expected(asked: Variant) -> Inside:
    dtype = modes.DTYPES[asked.dtype]
    stored = torch.float32 if asked.mode.autocast else dtype
    return Inside(asked.mode.grad == "enabled", asked.mode.autocast, stored, stored, product=dtype)


def check(asked: Variant) -> None:
    before = compiler_counts.read_compiled()
    made = built(asked)
    for _ in range(2):
        y, code = output(made.step)
        assert inside(code) == expected(asked)
        assert y.requires_grad == (asked.mode.grad == "enabled")
        assert y.is_inference() == (asked.mode.grad == "inference_mode")
        assert torch.is_grad_enabled()
        assert not torch.is_inference_mode_enabled()
        assert not torch.is_autocast_enabled("cpu")
    graphs = compiler_counts.read_compiled().since(before).graphs
    assert graphs == (asked.mode.compile != "none")
    autocast = NAMES[asked.dtype] if asked.mode.autocast else "none"
    weight = "float32" if asked.mode.autocast else NAMES[asked.dtype]
    assert observing.observe(made, asked, Cpu()) == observed(asked.mode.grad, autocast, weight)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(each, marks=[pytest.mark.full] * (preset(each).compile != "none"))
        for each in ON_CPU
    ],
)
def test_every_preset_is_in_effect_inside_forward(name: str) -> None:
    check(Variant(preset(name), "bf16"))


def test_torch_compile_is_called_with_the_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def compile_nothing(module: torch.nn.Module, **given: Any) -> torch.nn.Module:
        asked.append(given)
        return module

    monkeypatch.setattr(torch, "compile", compile_nothing)
    more: dict[str, Any] = {"dynamic": True}
    for fullgraph, options in ((True, {}), (False, more)):
        asked_for = variant(compile="max-autotune", **options)
        modes.build(build(model(tells), {}), asked_for, fullgraph, Cpu(), ONE_CALL)
        assert asked.pop() == {"mode": "max-autotune", "fullgraph": fullgraph, **options}


@pytest.mark.parametrize("compile_mode", ["none", pytest.param("default", marks=pytest.mark.full)])
def test_a_graph_is_captured_from_the_live_step(compile_mode: str) -> None:
    device = Captures()
    asked = variant("bf16", grad="no_grad", autocast=True, compile=compile_mode, graph=True)
    made = built(asked, device)
    assert device.captured == [made.live]
    assert made.step is not made.live
    replayed = output(made.step)
    assert output(made.step) is replayed  # a replay calls nothing
    assert inside(replayed[1]) == expected(asked)
    plain = built(variant("bf16"), device)
    assert len(device.captured) == 1
    assert plain.step is plain.live
