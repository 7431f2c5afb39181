"""The steps between eager and a compiled mode, on real models that compile without C++."""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from modescope.bench.evidence import compiler_counts
from modescope.bench.model import torch_settings
from modescope.bench.passes import gap_steps, gap_variants
from modescope.bench.passes.gap_steps import REASONS
from modescope.bench.passes.gap_variants import Scene
from modescope.bench.records.cases import Training, Variant
from modescope.bench.records.columns.passes import GapSteps
from modescope.bench.stats import gap
from tests.helpers import gaps, probe_models
from tests.helpers.gaps import Entered

BUDGET = probe_models.smoke().budget
SPIN_S = 3e-3


class Scaled(nn.Module):
    """A product times a number that guards watch."""

    def __init__(self, copies: int = 1) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(8, 8))
        self.copies = copies

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(self.copies):
            x = x @ self.weight
        return x


def scaled() -> Any:
    return Scaled(), (torch.rand(4, 8),)


def transposed() -> Any:
    return Scaled(), (torch.rand(8, 4).t(),)


def encoder() -> Any:
    return nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(), (torch.rand(2, 3, 8),)


def _wait() -> None:
    until_s = time.perf_counter() + SPIN_S
    while time.perf_counter() < until_s:
        pass


_spin: Callable[[], None] = torch.compiler.disable(_wait)


class Broken(nn.Module):
    """Two products with Python between them that Dynamo leaves out."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        _spin()
        result: Tensor = self.second(x)
        return result


def broken() -> Any:
    return Broken(), (torch.rand(4, 8),)


def _read(entered: Entered, **options: Any) -> GapSteps:
    return gap_steps.read(entered.built, entered.case, entered.device, BUDGET, 0, **options)


def _scene(entered: Entered) -> Scene:
    return Scene(entered.built, entered.case, entered.device)


def _inputs(entered: Entered) -> tuple[Tensor, ...]:
    return entered.built.subject.inputs.args


def test_every_variant_is_timed_in_every_round() -> None:
    found = _read(gaps.enter(scaled))
    variants = gap.by_variant(found.steps, found.steps_rounds_s)
    assert gap.rungs(variants) == ["eager", "autograd", "python", "code", "entry", "guards"]
    assert {"again", "keep_tensor_guards", "skip_all_guards", "flush_denormal"} <= set(variants)
    assert "skip_guard_on_inbuilt_nn_modules" not in variants  # the model has none
    assert len({len(rounds) for rounds in variants.values()} - {0}) == 1
    assert (found.steps_note, found.steps_unlike) == (None, "{}")


@pytest.mark.parametrize(
    ("mode", "has", "lacks"),
    [
        ("compile-dynamic", "static", "autocast"),
        ("amp-compile", "autocast", "static"),
    ],
)
def test_variants_follow_from_the_mode(mode: str, has: str, lacks: str) -> None:
    steps = _read(gaps.enter(scaled, mode)).steps or ()
    assert (has in steps, lacks in steps) == (True, False)


def test_autocast_is_a_step_of_its_own() -> None:
    scene = _scene(gaps.enter(scaled, "amp-compile"))
    built = {rung.name: rung.build(scene) for rung in gap_variants.RUNGS[:3]}
    dtypes = {name: step().dtype for name, step in built.items() if step is not None}  # type: ignore[attr-defined]
    assert dtypes == {
        "eager": torch.float32, "autograd": torch.float32, "autocast": torch.bfloat16
    }  # fmt: skip


def test_contiguous_inputs_are_tried_where_they_are_not() -> None:
    assert "contiguous" in (_read(gaps.enter(transposed)).steps or ())
    assert "contiguous" not in (_read(gaps.enter(scaled)).steps or ())


def test_code_without_guards_serves_nothing_else() -> None:
    """Torch does not compare filters of guards, so other code would run without its guards."""
    entered = gaps.enter(scaled)
    scene, module = _scene(entered), entered.built.subject.module
    assert isinstance(module, Scaled)
    (x,) = _inputs(entered)
    unguarded = scene._compile(captures=False, guard_filter_fn=lambda guards: [False] * len(guards))
    guarded = scene._compile(captures=False)
    with torch.inference_mode():
        once = unguarded(x)
        module.copies = 2
        twice = once @ module.weight
        assert torch.equal(unguarded(x), once)  # else nothing was left out
        torch.testing.assert_close(guarded(x), twice)
        torch.testing.assert_close(entered.built.target(x), twice)


def test_variants_are_compiled_though_the_mode_has_the_same_options() -> None:
    entered = gaps.enter(scaled)
    scene, compilations = _scene(entered), compiler_counts.count_compilations()
    for count in (1, 2):
        scene.compiled(captures=True)
        assert compilations() == count


def test_sizes_stay_constant_after_a_call_on_an_empty_batch() -> None:
    entered = gaps.enter(scaled)
    with torch.inference_mode():
        entered.built.target(torch.rand(0, 8))
    graphs = list[torch.fx.GraphModule]()

    def keep(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    with gap_variants.own_frames():
        _scene(entered).recorded(keep)
    (graph,) = graphs
    shapes = [
        node.meta["example_value"].shape for node in graph.graph.nodes if node.op == "placeholder"
    ]
    assert torch.Size([4, 8]) in shapes


@pytest.mark.parametrize(("build", "graphs"), [(scaled, 1), (broken, 2)])
def test_each_graph_is_called_once(build: Callable[[], Any], graphs: int) -> None:
    recorders = list[gap_variants.Recorder]()

    class Kept(gap_variants.Recorder):
        def __init__(self) -> None:
            super().__init__()
            recorders.append(self)

    with pytest.MonkeyPatch.context() as patch, gap_variants.own_frames():
        scene = _scene(gaps.enter(build))
        patch.setattr(gap_variants, "Recorder", Kept)
        scene.recorded()
        scene.recorded(gap_variants._as_captured)
    assert [len(recorder.calls) for recorder in recorders] == [graphs, graphs]


def test_a_switch_that_changes_the_algorithm_is_told() -> None:
    """Without gradients torch takes a fast path through the layer."""
    unlike = json.loads(_read(gaps.enter(encoder)).steps_unlike or "{}")
    assert "_transformer_encoder_layer_fwd" in unlike["autograd"]


class Turns(nn.Module):
    """Three blocks of one class, of which the last makes more products than the others."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(map(Scaled, (1, 1, 3)))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
            torch._dynamo.graph_break()
        return x


def turns() -> Any:
    return Turns(), (torch.rand(4, 8),)


def test_code_without_guards_that_serves_several_blocks_gives_no_steps() -> None:
    found = _read(gaps.enter(turns))
    assert (found.steps, found.steps_note) == (None, gap_steps.UNGUARDED)


def test_a_tried_change_with_other_results_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    entered = gaps.enter(scaled)

    def wrong(scene: Scene, keeps: Any) -> Any:
        return lambda: torch.zeros(4, 8)

    monkeypatch.setattr(Scene, "filtered", wrong)
    steps = _read(entered).steps or ()
    assert "entry" in steps
    assert "keep_tensor_guards" not in steps


class Halves(nn.Module):
    """Changes in place, after a break, what the graph before it returned."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        torch._dynamo.graph_break()
        result: Tensor = self.second(x.mul_(0.5))
        return result


def halves() -> Any:
    return Halves(), (torch.rand(4, 8),)


class Again(nn.Module):
    """Computes a part once more in the backward, which is an operator of a function."""

    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Linear(8, 8, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = checkpoint(self.part, x, use_reentrant=False)
        return result


def again() -> Any:
    return Again(), (torch.rand(4, 8),)


@pytest.mark.parametrize(
    ("build", "reason"),
    [(halves, gap_variants.UNREPEATABLE), (again, gap_variants.OF_FUNCTIONS)],
)
def test_what_cannot_be_called_alone_gives_no_steps(build: Any, reason: str) -> None:
    found = _read(gaps.enter(build))
    assert (found.steps, found.steps_note) == (None, reason)


def test_all_is_restored_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch._dynamo.config as dynamo
    from torch._inductor import compile_fx as module

    entered = gaps.enter(scaled)
    before = dynamo.recompile_limit, module.compile_fx

    def fail(*given: Any) -> Any:
        torch.set_flush_denormal(True)
        raise ZeroDivisionError

    monkeypatch.setattr(gap_steps, "play", fail)
    with pytest.raises(ZeroDivisionError):
        _read(entered)
    assert (dynamo.recompile_limit, module.compile_fx) == before
    assert not torch_settings.flushes()


def test_python_behind_a_break_is_saved_and_paid_again() -> None:
    found = _read(gaps.enter(broken))
    rounds_s = gap.by_variant(found.steps, found.steps_rounds_s)
    shares = gap.split(rounds_s)
    python, entry, eager_s = shares["step_python"], shares["step_entry"], median(rounds_s["eager"])
    assert python is not None
    assert entry is not None
    assert python.value * eager_s > 0.8 * SPIN_S
    assert entry.value * eager_s < -0.8 * SPIN_S


def test_code_without_fusion_is_timed_if_asked() -> None:
    entered = gaps.enter(scaled)
    assert "unfused" in (_read(entered, fusion=True).steps or ())
    assert "unfused" not in (_read(entered).steps or ())


def test_all_is_restored() -> None:
    import torch._dynamo.config as dynamo

    entered = gaps.enter(scaled)
    before = dynamo.recompile_limit, dynamo.automatic_dynamic_shapes
    (x,) = _inputs(entered)
    values = x.clone()
    _read(entered)
    assert (dynamo.recompile_limit, dynamo.automatic_dynamic_shapes) == before
    assert (torch.tensor(1e-40) * 1).item() > 0  # subnormal numbers are not flushed
    assert torch.equal(x, values)


def test_code_compiled_during_the_rounds_gives_no_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    entered, race = gaps.enter(scaled), gap_steps.race

    def compiling(*given: Any) -> Any:
        torch.compile(lambda x: x + x, backend="eager")(torch.rand(2))
        return race(*given)

    monkeypatch.setattr(gap_steps, "race", compiling)
    found = _read(entered)
    assert (found.steps, found.steps_note) == (None, gap_steps.COMPILED_AGAIN)


def test_older_versions_of_torch_have_no_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    entered = gaps.enter(scaled)

    def compile(model: Any, *, fullgraph: bool = False) -> None: ...

    monkeypatch.setattr(torch, "compile", compile)
    assert "isolate_recompiles" not in inspect.signature(torch.compile).parameters
    assert "2.13" in (_read(entered).steps_note or "")


def test_each_mode_without_steps_has_its_reason() -> None:
    entered = gaps.enter(scaled)
    built, case, mode = entered.built, entered.case, entered.case.variant.mode

    def reasons(**changed: Any) -> list[int]:
        of, at = replace(built, **changed.pop("built", {})), replace(case, **changed)
        return [place for place, (holds, _) in enumerate(REASONS) if holds(at, of)]

    def of(**changed: Any) -> dict[str, Any]:
        return {"variant": Variant(replace(mode, **changed), "fp32")}

    assert reasons() == []
    assert reasons(options=Training()) == [0]
    assert reasons(built={"parts": {"1": built}}) == [1]
    assert reasons(built={"evictor": object()}) == [2]
    assert reasons(built={"subject": replace(built.subject, changes=("[0]",))}) == [3]
    assert reasons(built={"subject": replace(built.subject, state=("count",))}) == [3]
    assert reasons(built={"subject": replace(built.subject, switches=("attention",))}) == [4]
    assert reasons(**of(compile="aoti")) == [5]
    assert reasons(**of(backend="eager")) == [6]
    assert reasons(**of(axes=(("regions", "blocks"),))) == [6]
