"""The table of backends: everything follows from an entry."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import torch

from modescope.bench.devices.devices import Cpu
from modescope.bench.records.cases import Mode, Variant
from modescope.bench.refusals import refusal
from modescope.bench.settings import LIMITS
from modescope.bench.steps import backends, modes
from modescope.bench.steps.backends import BACKENDS, Backend, Compiled
from modescope.bench.steps.building import build
from modescope.bench.steps.evidence import mode_effect
from modescope.bench.steps.phases import ONE_CALL
from tests.helpers.made_up_records import COMPILE, CPU, case
from tests.helpers.probe_models import PRESETS, model, preset, tells, variant


@pytest.mark.parametrize("compiler", backends.modes())
@pytest.mark.parametrize("graph", [False, True])
def test_backends_state_what_a_mode_uses(compiler: str, graph: bool) -> None:
    asked = replace(COMPILE, compile=compiler, graph=graph)
    captures = compiler in ("reduce-overhead", "max-autotune")
    assert backends.captures(asked) == captures
    assert backends.replays_graphs(asked) == (graph or captures)
    assert backends.autotunes(asked) == compiler.startswith("max-autotune")


def test_each_compile_mode_belongs_to_one_backend() -> None:
    assert set(Counter(backends.modes()).values()) == {1}
    assert LIMITS["mode.compile"]["choices"] == backends.modes()
    assert {preset(name).compile for name in PRESETS} == set(backends.modes())


def test_a_further_backend_is_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrapped(module: torch.nn.Module, mode: Mode, fullgraph: bool) -> torch.nn.Module:
        return torch.nn.Sequential(module)

    entry = Backend(
        wrapped,
        modes=("third", "third-captured"),
        capturing={"third-captured": "third"},
        dynamic=False,
        doubts=((lambda f: f.compiled.graphs == 0, "{f.mode.compile} made nothing"),),
    )
    monkeypatch.setitem(BACKENDS, "third", entry)
    asked = variant(compile="third")
    assert backends.modes()[-2:] == ("third", "third-captured")
    assert backends.replays_graphs(replace(asked.mode, compile="third-captured"))

    subject = build(model(tells), {})
    target = modes.build(subject, asked, True, Cpu(), ONE_CALL).target
    assert isinstance(target, torch.nn.Sequential)
    assert target[0] is subject.module

    seen = mode_effect.Observed("enabled", "none", "float32")
    found = mode_effect.Facts(
        asked, True, "cpu", Compiled(0, 0, 0, 0), True, None, seen, None, graph_launches=0
    )
    assert mode_effect.effect(found) == mode_effect.ModeEffect(False, "third made nothing", 0)

    assert refusal(case(variant=asked), CPU) is None
    dynamic = Variant(replace(asked.mode, dynamic=True), "fp32")
    taken = str(refusal(case(variant=dynamic, baseline=None), CPU))
    assert "mode.compile=third does not take mode.dynamic" in taken
