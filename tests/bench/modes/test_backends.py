"""The table of backends: everything follows from an entry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from modescope.bench.devices.devices import Cpu
from modescope.bench.evidence import compiler_counts, mode_effect, observing
from modescope.bench.evidence.compiler_counts import Compiled
from modescope.bench.model.building import build
from modescope.bench.model.subject import Inputs
from modescope.bench.modes import backends, modes
from modescope.bench.modes.backends import BACKENDS, Backend, BuildContext
from modescope.bench.modes.phases import ONE_CALL
from modescope.bench.records.caches import CACHES
from modescope.bench.records.cases import Mode, Variant
from modescope.bench.refusals import refusal
from modescope.bench.settings import LIMITS
from tests.helpers.made_up_records import COMPILE, CPU, case
from tests.helpers.paths import ROOT
from tests.helpers.probe_models import PRESETS, linear, model, observed, preset, tells, variant
from tests.helpers.programs import lines


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
    of_caches = {state.backend for state in CACHES.values()} - {None}
    assert {preset(name).compile for name in PRESETS} | of_caches == set(backends.modes())


def test_a_further_backend_is_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def function(
        module: torch.nn.Module, inputs: Inputs, mode: Mode, context: BuildContext
    ) -> Callable[..., Any]:
        given.extend((module, inputs, mode, context))
        return lambda *args: ("called", module(*args))

    entry = Backend(
        function,
        code=lambda mode, fullgraph: f"{mode.compile}(model, {fullgraph})",
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
    made = modes.build(subject, asked, True, Cpu(), ONE_CALL)
    module, inputs, mode, context = given
    assert (module is subject.module, inputs is subject.given) == (True, True)
    assert (mode, context.device_type, context.fullgraph) == (asked.mode, "cpu", True)
    assert list(context.make_folder().iterdir()) == []
    output: Any = made.step()
    assert output[0] == "called"
    assert observing.observe(made, asked, Cpu()) == observed("enabled", "none", "float32")
    assert lines(asked).splitlines()[-2:] == [
        "model = third(model, True)",
        "output = model(*inputs)",
    ]

    seen = observed("enabled", "none", "float32")
    found = mode_effect.Facts(
        asked, True, "cpu", Compiled(0, 0, 0, 0), True, None, seen, None, graph_launches=0
    )
    assert mode_effect.effect(found) == mode_effect.ModeEffect(False, "third made nothing", 0)

    assert refusal(case(variant=asked), CPU) is None
    dynamic = Variant(replace(asked.mode, dynamic=True), "fp32")
    taken = str(refusal(case(variant=dynamic, baseline=None), CPU))
    assert "mode.compile=third does not take mode.dynamic" in taken


def test_the_example_in_the_documentation_builds_and_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "docs" / "adding.md").read_text(encoding="utf-8")
    example = text.split("```python\n")[1].partition("```")[0]
    names: dict[str, Any] = {"Backend": Backend}
    exec(example, names)
    monkeypatch.setattr(backends, "BACKENDS", BACKENDS | names["BACKENDS"])
    asked = Variant(Mode("mine", "no_grad", False, "aot"), "fp32")
    subject = build(model(linear), {})
    made = modes.build(modes.prepare(subject, asked, ONE_CALL), asked, True, Cpu(), ONE_CALL)
    assert torch.equal(torch.as_tensor(made.step()), subject.call())
    assert 'model = torch.compile(model, backend="aot_eager", fullgraph=True)' in lines(asked)


@pytest.mark.parametrize(
    ("compile_mode", "expected"),
    [("default", {}), ("reduce-overhead", {"triton.cudagraphs": True})],
)
def test_options_of_the_compiler_add_to_those_of_its_mode(
    compile_mode: str, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch.compile takes either a mode or options."""
    asked: list[dict[str, Any]] = []

    def compiling(module: torch.nn.Module, **given: Any) -> torch.nn.Module:
        asked.append(given)
        return module

    monkeypatch.setattr(torch, "compile", compiling)
    wanted = variant(compile=compile_mode, options='{"max_fusion_size":8}')
    made = modes.build(build(model(tells), {}), wanted, True, Cpu(), ONE_CALL)
    assert made.target is made.subject.module
    assert asked == [{"options": {**expected, "max_fusion_size": 8}, "fullgraph": True}]
    assert wanted.mode.compile_options == {"options": {"max_fusion_size": 8}}
    program = next(line for line in lines(wanted).splitlines() if "torch.compile" in line)
    exec(program, {"torch": torch, "model": torch.nn.Identity()})
    assert asked[1] == asked[0]
    off = variant(compile="reduce-overhead", options='{"triton.cudagraphs":false}')
    modes.build(build(model(tells), {}), off, True, Cpu(), ONE_CALL)
    assert asked[2]["options"] == {"triton.cudagraphs": False}, "they win over the mode's"
    graphs = replace(wanted.mode, options='{"triton.cudagraphs":true}')
    assert backends.captures(graphs)
    assert not backends.captures(replace(graphs, options='{"triton.cudagraphs":false}'))
    eager = Variant(replace(wanted.mode, compile="none"), "fp32")
    assert "does not take mode.options" in str(refusal(case(variant=eager, baseline=None), CPU))


NAMED = variant(compile="default", backend="aot_eager")


@pytest.mark.parametrize("name", ["aot_eager", "eager"])
def test_a_named_backend_of_torch_compile_is_passed_on(name: str) -> None:
    asked = variant(compile="default", backend=name, dynamic=True)
    subject = build(model(linear), {})
    made = modes.build(modes.prepare(subject, asked, ONE_CALL), asked, True, Cpu(), ONE_CALL)
    before = compiler_counts.read_compiled()
    assert torch.equal(torch.as_tensor(made.step()), subject.call())
    assert compiler_counts.read_compiled().since(before).graphs == 1
    assert f'model = torch.compile(model, fullgraph=True, backend="{name}", dynamic=True)' in lines(
        asked
    )
    torch.compiler.reset()


def test_a_named_backend_is_part_of_the_case_and_of_its_row() -> None:
    plain, named, other = (
        case(variant=replace(NAMED, mode=replace(NAMED.mode, backend=name)))
        for name in (None, "aot_eager", "eager")
    )
    assert len({each.case_id for each in (plain, named, other)}) == 3
    assert named.variant.mode.compile_options == {"backend": "aot_eager"}
    assert plain.variant.mode.compile_options == {}


@pytest.mark.parametrize(
    ("changes", "in_effect"),
    [
        ({}, True),
        ({"symbolic_sizes": None}, True),  # of Inductor's code, which this backend makes none of
        ({"compiled": Compiled(0, 0, 0, 0)}, False),
        ({"compiled": Compiled(0, 2, 0, 0)}, False),
        ({"other_backend": True}, False),
        ({"left_to_eager": "f"}, False),
    ],
)
def test_the_doubts_of_a_named_backend(changes: dict[str, Any], in_effect: bool) -> None:
    seen = observed("enabled", "none", "float32")
    facts = mode_effect.Facts(
        NAMED, True, "cpu", Compiled(0, 1, 0, 0), True, None, seen, None, graph_launches=0
    )
    assert mode_effect.effect(replace(facts, **changes)).in_effect is in_effect


def test_the_backend_that_captures_graphs_is_known_to_do_so() -> None:
    graphs = replace(NAMED.mode, backend=backends.GRAPHS_BACKEND)
    assert backends.replays_graphs(graphs)
    assert not backends.replays_graphs(NAMED.mode)
    assert backends.drop_graphs(NAMED.mode) == NAMED.mode
    assert backends.find(NAMED.mode) is BACKENDS[backends.NAMED]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"dynamic": True}, None),
        ({"options": '{"cpp.simdlen":1}'}, "ignores them"),
        ({"compile": "none"}, "use mode=compile"),
        ({"compile": "reduce-overhead"}, "use mode=compile"),
    ],
)
def test_what_a_named_backend_is_refused_with(changes: dict[str, Any], reason: str | None) -> None:
    asked = Variant(replace(NAMED.mode, **changes), "fp32")
    found = refusal(case(variant=asked, baseline=None), CPU)
    assert (found is None) == (reason is None)
    assert reason is None or reason in str(found)
