"""Doubts that follow from facts, line by line; and that facts are those of the timed step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from modescope.bench.devices.devices import Cpu
from modescope.bench.records.cases import CompileOptions, Variant
from modescope.bench.steps import backends, modes
from modescope.bench.steps.backends import BACKENDS, Compiled
from modescope.bench.steps.building import build
from modescope.bench.steps.evidence import mode_effect
from modescope.bench.steps.evidence.mode_effect import (
    Facts,
    GraphBreaks,
    ModeEffect,
    Observed,
    Site,
)
from modescope.bench.steps.phases import ONE_CALL
from modescope.bench.steps.subject import Built as BuiltStep
from tests.helpers.probe_models import (
    Built,
    Remembers,
    counts,
    model,
    remembers,
    scaled,
    tells,
    variant,
    weightless,
)

COMPILES = pytest.mark.full

COMPILED = Compiled(frames=0, graphs=1, autotuned=0, graph_skips=0)
NOTHING = Compiled(frames=0, graphs=0, autotuned=0, graph_skips=0)
UNBROKEN = GraphBreaks((), ())


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    yield
    torch.compiler.reset()


def doubts(facts: Facts) -> str | None:
    """The note of a mode that did not take effect; None where it did."""
    effect = mode_effect.effect(facts)
    return None if effect.in_effect else effect.in_effect_note


def facts(asked: Variant, **changes: Any) -> Facts:
    """The facts of a mode in effect on a GPU, but for the changes."""
    has_autocast = asked.mode.autocast
    dtype = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}[asked.dtype]
    usual = Facts(
        variant=asked,
        fullgraph=True,
        device_type="cuda",
        observed=Observed(
            grad=asked.mode.grad,
            autocast=dtype if has_autocast else "none",
            weight_dtype="float32" if has_autocast else dtype,
        ),
        compiled=replace(COMPILED, autotuned=3) if asked.mode.compiles else NOTHING,
        breaks=UNBROKEN,
        graph_launches=1 if backends.replays_graphs(asked.mode) else 0,
        cold=True,
        symbolic_sizes=1 if asked.mode.options.dynamic else 0,
    )
    return replace(usual, **changes)


AS_ASKED = {
    "eager": variant(),
    "no_grad": variant(grad="no_grad"),
    "cast": variant("fp16", grad="inference_mode"),
    "amp": variant("bf16", autocast=True),
    "compile": variant(compile="default"),
    "reduce-overhead": variant(compile="reduce-overhead"),
    "max-autotune": variant(compile="max-autotune"),
    "no cudagraphs": variant(compile="max-autotune-no-cudagraphs"),
    "dynamic": variant(compile="default", options=CompileOptions(dynamic=True)),
    "cuda-graph": variant(graph=True),
    "compile-cuda-graph": variant(compile="default", graph=True),
}


@pytest.mark.parametrize("asked", AS_ASKED.values(), ids=AS_ASKED)
def test_a_mode_in_effect_has_no_doubt(asked: Variant) -> None:
    assert doubts(facts(asked)) is None


AMP = variant("bf16", autocast=True)
CAST = variant("bf16")

ONE_WRONG: list[tuple[Facts, str]] = [
    (
        facts(variant(grad="no_grad"), observed=Observed("enabled", "none", "float32")),
        "the model ran under enabled instead of no_grad",
    ),
    (
        facts(variant(grad="inference_mode"), observed=Observed("no_grad", "none", "float32")),
        "the model ran under no_grad instead of inference_mode",
    ),
    (
        facts(AMP, observed=Observed("enabled", "none", "float32")),
        "autocast was none instead of bfloat16",
    ),
    (
        facts(AMP, observed=Observed("enabled", "float16", "float32")),
        "autocast was float16 instead of bfloat16",
    ),
    (
        facts(CAST, observed=Observed("enabled", "bfloat16", "bfloat16")),
        "autocast was bfloat16 instead of none",
    ),
    (
        facts(AMP, observed=Observed("enabled", "bfloat16", "bfloat16")),
        "weights were bfloat16 instead of float32",
    ),
    (
        facts(CAST, observed=Observed("enabled", "none", "float32")),
        "weights were float32 instead of bfloat16",
    ),
    (
        facts(variant(compile="default"), compiled=NOTHING),
        "torch.compile compiled nothing",
    ),
    (
        facts(variant(compile="default"), compiled=replace(COMPILED, graphs=3)),
        "torch.compile made 3 graphs instead of one",
    ),
    (
        facts(variant(compile="reduce-overhead"), device_type="cpu", graph_launches=0),
        "CUDA graphs need a GPU: on a CPU this runs without CUDA graphs",
    ),
    (
        facts(variant(compile="reduce-overhead"), graph_launches=0),
        "no CUDA graph was launched in a steady call",
    ),
    (
        facts(variant(graph=True), graph_launches=0),
        "no CUDA graph was launched in a steady call",
    ),
    (
        facts(variant(compile="reduce-overhead"), compiled=replace(COMPILED, graph_skips=2)),
        "torch uses no CUDA graph for 2 piece(s) of the model",
    ),
    (
        facts(variant(compile="max-autotune-no-cudagraphs"), compiled=COMPILED),
        "autotuning had nothing to choose between: the kernels are those of compile=default",
    ),
    (
        facts(AS_ASKED["dynamic"], symbolic_sizes=0),
        "no size is symbolic: the code is compiled for these sizes only",
    ),
]

LINES = (*mode_effect.DOUBTS, *(line for backend in BACKENDS.values() for line in backend.doubts))


def test_every_doubt_of_the_tables_can_be_raised() -> None:
    raised = {line for found, _ in ONE_WRONG for line in LINES if line[0](found)}
    assert raised == set(LINES)


@pytest.mark.parametrize(("found", "note"), ONE_WRONG, ids=[note for _, note in ONE_WRONG])
def test_each_doubt_has_its_sentence(found: Facts, note: str) -> None:
    assert mode_effect.effect(found) == ModeEffect(False, note, found.graph_launches)


def test_unknown_symbolic_sizes_raise_no_doubt() -> None:
    assert doubts(facts(AS_ASKED["dynamic"], symbolic_sizes=None)) is None


def test_several_doubts_are_joined() -> None:
    on_cpu = facts(variant(compile="max-autotune"), compiled=COMPILED, device_type="cpu")
    assert doubts(on_cpu) == (
        "CUDA graphs need a GPU: on a CPU this runs without CUDA graphs; autotuning had nothing "
        "to choose between: the kernels are those of compile=default"
    )


def test_several_graphs_raise_no_doubt_where_breaks_are_allowed() -> None:
    several = replace(COMPILED, graphs=3)
    assert doubts(facts(variant(compile="default"), compiled=several, fullgraph=False)) is None


def test_a_model_without_weights_raises_no_doubt() -> None:
    assert doubts(facts(CAST, observed=Observed("enabled", "none", "none"))) is None


class Captures(Cpu):
    """A CPU on which a capture is a replay that calls nothing."""

    def capture(self, step: Callable[[], object]) -> Callable[[], object]:
        output = step()
        return lambda: output


def built(
    asked: Variant, of: Callable[..., Built] = tells, fullgraph: bool = True, **arguments: Any
) -> BuiltStep:
    torch.manual_seed(0)
    made = build(model(of, **arguments), {}).cast(modes.weight_dtype(asked))
    return modes.build(made, asked, fullgraph, Captures(), ONE_CALL)


@pytest.mark.parametrize(
    "axes", [{}, pytest.param({"compile": "default"}, marks=COMPILES), {"graph": True}], ids=str
)
@pytest.mark.parametrize("grad", ["enabled", "no_grad", "inference_mode"])
@pytest.mark.parametrize(
    ("autocast", "dtype", "seen"),
    [
        (False, "fp32", ("none", "float32")),
        (False, "fp16", ("none", "float16")),
        (True, "bf16", ("bfloat16", "float32")),
    ],
)
def test_the_state_inside_forward_is_observed(
    axes: dict[str, Any], grad: str, autocast: bool, dtype: str, seen: tuple[str, str]
) -> None:
    made = built(variant(dtype, grad=grad, autocast=autocast, **axes))
    assert mode_effect.observe(made, Cpu()) == Observed(grad, *seen)


def test_a_step_that_drops_its_contexts_is_found() -> None:
    """The timed step itself is observed, not another one built for observing."""
    asked = variant("bf16", grad="no_grad", autocast=True)
    made = built(asked)

    def bare() -> object:
        return made.target(*made.subject.inputs.args)

    seen = mode_effect.observe(replace(made, live=bare, step=bare), Cpu())
    assert seen == Observed("enabled", "none", "float32")
    assert doubts(facts(asked, observed=seen)) == (
        "the model ran under enabled instead of no_grad; autocast was none instead of bfloat16"
    )


def test_weights_of_another_dtype_are_found() -> None:
    made = built(variant("bf16"))
    made.subject.module.float()
    made.subject.inputs.args[0].data = made.subject.inputs.args[0].float()
    assert mode_effect.observe(made, Cpu()).weight_dtype == "float32"


def test_a_module_without_weights_has_no_weight_dtype() -> None:
    made = built(variant(), of=weightless)
    assert mode_effect.observe(made, Cpu()).weight_dtype == "none"


@pytest.mark.parametrize("compile_mode", ["none", pytest.param("default", marks=COMPILES)])
def test_observing_leaves_no_hook_and_causes_no_recompilation(compile_mode: str) -> None:
    made = built(variant(compile=compile_mode), of=counts)
    made.step()
    before = mode_effect.read_compiled()
    mode_effect.observe(made, Cpu())
    assert made.subject.module.get_buffer("calls") == 2
    assert not made.target._forward_pre_hooks
    made.step()
    assert mode_effect.read_compiled().since(before) == NOTHING


@COMPILES
@pytest.mark.parametrize("fullgraph", [True, False])
def test_a_compilation_and_a_recompilation_are_counted(fullgraph: bool) -> None:
    """Torch counts frames only without fullgraph; with it, only graphs tell."""
    start = mode_effect.read_compiled()
    made = built(variant(compile="default"), of=remembers, fullgraph=fullgraph)
    assert mode_effect.read_compiled().since(start).compilations == 0
    made.step()
    first = mode_effect.read_compiled()
    assert (first.since(start).compilations, first.since(start).graphs) == (1, 1)
    made.step()
    assert mode_effect.read_compiled().since(first).compilations == 0
    assert isinstance(made.subject.module, Remembers)
    made.subject.module.number = 1
    made.step()
    assert mode_effect.read_compiled().since(first).compilations == 1


def test_eager_compiles_nothing() -> None:
    before = mode_effect.read_compiled()
    built(variant(), of=scaled).step()
    assert mode_effect.read_compiled().since(before) == NOTHING


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        (UNBROKEN, None),
        (None, None),
        (
            GraphBreaks((Site("net.py:12", "a print"), Site("net.py:20", "an item")), ()),
            "compiled in pieces around a print at net.py:12 and 1 more",
        ),
        (
            GraphBreaks((Site("net.py:12", "a print"),), ("Net.forward", "f")),
            "compiled in pieces around a print at net.py:12; not compiled: Net.forward, f",
        ),
        (GraphBreaks((), ("f",)), "compiled in pieces; not compiled: f"),
    ],
)
def test_a_model_compiled_in_several_graphs_is_in_effect_with_a_note(
    broken: GraphBreaks | None, expected: str | None
) -> None:
    in_pieces = facts(variant(compile="default"), breaks=broken, fullgraph=False)
    assert mode_effect.effect(in_pieces) == ModeEffect(True, expected, 0)


def test_a_cpu_launches_no_graphs() -> None:
    asked = variant(compile="reduce-overhead")
    assert mode_effect.graph_launches(built(variant()).step, asked.mode, Cpu()) == 0


def test_graph_launches_are_counted_in_one_call() -> None:
    def step() -> None:
        for name in ("cudaGraphLaunch", "cuGraphLaunch", "cudaLaunchKernel"):
            with torch.profiler.record_function(name):
                torch.ones(1)

    assert mode_effect.count_graph_launches(step, Cpu()) == 2


def test_with_a_warm_cache_missing_autotuning_raises_no_doubt() -> None:
    untuned = facts(variant(compile="max-autotune-no-cudagraphs"), compiled=COMPILED)
    assert "nothing to choose between" in str(doubts(untuned))
    tuned_before = mode_effect.effect(replace(untuned, cold=False))
    assert tuned_before.in_effect
    assert "nothing was tuned in this run" in str(tuned_before.in_effect_note)


def test_a_partly_captured_model_raises_a_doubt() -> None:
    partly = replace(COMPILED, graph_skips=1)
    assert "no CUDA graph for 1 piece(s)" in str(
        doubts(facts(variant(compile="reduce-overhead"), compiled=partly))
    )
    assert doubts(facts(variant(compile="default"), compiled=partly)) is None
