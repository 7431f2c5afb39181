"""Facts -> doubts, line by line; and that the facts are those of the step that is timed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from bench import evidence, modes
from bench.devices import Cpu
from bench.evidence import Compiled, Facts, Seen, doubts
from bench.graph_breaks import GraphBreaks, Site
from bench.records import Variant
from bench.subject import build
from tests.probes import (
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

COMPILED = Compiled(frames=0, graphs=1, autotuned=0, graph_skips=0)
NOTHING = Compiled(frames=0, graphs=0, autotuned=0, graph_skips=0)
UNBROKEN = GraphBreaks((), ())


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    yield
    torch.compiler.reset()


def facts(asked: Variant, **changes: Any) -> Facts:
    """What is found where everything is as asked on a GPU, but for the changes."""
    has_autocast = asked.mode.autocast
    dtype = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}[asked.dtype]
    usual = Facts(
        variant=asked,
        fullgraph=True,
        device_type="cuda",
        seen=Seen(
            grad=asked.mode.grad,
            autocast=dtype if has_autocast else "none",
            weight_dtype="float32" if has_autocast else dtype,
        ),
        compiled=replace(COMPILED, autotuned=3) if asked.mode.compile != "none" else NOTHING,
        broken=UNBROKEN,
        graph_launches=1 if asked.mode.uses_graphs else 0,
        cold=True,
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
    "cuda-graph": variant(graph=True),
    "compile-cuda-graph": variant(compile="default", graph=True),
}


@pytest.mark.parametrize("asked", AS_ASKED.values(), ids=AS_ASKED)
def test_no_doubt_where_all_is_as_asked(asked: Variant) -> None:
    assert doubts(facts(asked)) is None


AMP = variant("bf16", autocast=True)
CAST = variant("bf16")

ONE_WRONG: list[tuple[Facts, str]] = [
    (
        facts(variant(grad="no_grad"), seen=Seen("enabled", "none", "float32")),
        "the model ran under enabled instead of no_grad",
    ),
    (
        facts(variant(grad="inference_mode"), seen=Seen("no_grad", "none", "float32")),
        "the model ran under no_grad instead of inference_mode",
    ),
    (
        facts(AMP, seen=Seen("enabled", "none", "float32")),
        "autocast was none instead of bfloat16",
    ),
    (
        facts(AMP, seen=Seen("enabled", "float16", "float32")),
        "autocast was float16 instead of bfloat16",
    ),
    (
        facts(CAST, seen=Seen("enabled", "bfloat16", "bfloat16")),
        "autocast was bfloat16 instead of none",
    ),
    (
        facts(AMP, seen=Seen("enabled", "bfloat16", "bfloat16")),
        "weights were bfloat16 instead of float32",
    ),
    (
        facts(CAST, seen=Seen("enabled", "none", "float32")),
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
        "CUDA graphs need a GPU: on a CPU this runs without them",
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
        "torch gave up on CUDA graphs for 2 piece(s) of the model",
    ),
    (
        facts(variant(compile="max-autotune-no-cudagraphs"), compiled=COMPILED),
        "autotuning found nothing to choose between: the kernels are those of compile=default",
    ),
]


@pytest.mark.parametrize(("found", "note"), ONE_WRONG, ids=[note for _, note in ONE_WRONG])
def test_each_doubt_alone(found: Facts, note: str) -> None:
    assert doubts(found) == note


def test_every_line_of_the_table_is_raised() -> None:
    raised = {line for found, _ in ONE_WRONG for line in evidence.DOUBTS if line[0](found)}
    assert raised == set(evidence.DOUBTS)


def test_doubts_add_up() -> None:
    on_cpu = facts(variant(compile="max-autotune"), compiled=COMPILED, device_type="cpu")
    assert doubts(on_cpu) == (
        "CUDA graphs need a GPU: on a CPU this runs without them; autotuning found nothing to "
        "choose between: the kernels are those of compile=default"
    )


def test_several_graphs_are_fine_where_breaks_are_allowed() -> None:
    several = replace(COMPILED, graphs=3)
    assert doubts(facts(variant(compile="default"), compiled=several, fullgraph=False)) is None


def test_a_model_without_weights_raises_no_doubt() -> None:
    assert doubts(facts(CAST, seen=Seen("enabled", "none", "none"))) is None


class Captures(Cpu):
    """A CPU on which a capture is a replay that calls nothing."""

    def capture(self, step: Callable[[], object]) -> Callable[[], object]:
        output = step()
        return lambda: output


def built(
    asked: Variant, of: Callable[..., Built] = tells, fullgraph: bool = True, **arguments: Any
) -> modes.Built:
    torch.manual_seed(0)
    made = build(model(of, **arguments), {}).cast(modes.weight_dtype(asked))
    return modes.build(made, asked, fullgraph, Captures())


@pytest.mark.parametrize("axes", [{}, {"compile": "default"}, {"graph": True}], ids=str)
@pytest.mark.parametrize("grad", ["enabled", "no_grad", "inference_mode"])
@pytest.mark.parametrize(
    ("autocast", "dtype", "seen"),
    [
        (False, "fp32", ("none", "float32")),
        (False, "fp16", ("none", "float16")),
        (True, "bf16", ("bfloat16", "float32")),
    ],
)
def test_the_state_is_observed(
    axes: dict[str, Any], grad: str, autocast: bool, dtype: str, seen: tuple[str, str]
) -> None:
    made = built(variant(dtype, grad=grad, autocast=autocast, **axes))
    assert evidence.observe(made, Cpu()) == Seen(grad, *seen)


def test_a_step_that_drops_its_contexts_is_found_out() -> None:
    """The witness stands in the step that is timed, not in one made for the occasion."""
    asked = variant("bf16", grad="no_grad", autocast=True)
    made = built(asked)

    def bare() -> object:
        return made.target(*made.subject.inputs.args)

    seen = evidence.observe(replace(made, live=bare, step=bare), Cpu())
    assert seen == Seen("enabled", "none", "float32")
    assert doubts(facts(asked, seen=seen)) == (
        "the model ran under enabled instead of no_grad; autocast was none instead of bfloat16"
    )


def test_weights_of_another_dtype_are_found_out() -> None:
    made = built(variant("bf16"))
    made.subject.module.float()
    made.subject.inputs.args[0].data = made.subject.inputs.args[0].float()
    assert evidence.observe(made, Cpu()).weight_dtype == "float32"


def test_a_module_without_weights_has_no_weight_dtype() -> None:
    made = built(variant(), of=weightless)
    assert evidence.observe(made, Cpu()).weight_dtype == "none"


@pytest.mark.parametrize("compile_mode", ["none", "default"])
def test_observing_leaves_nothing_behind(compile_mode: str) -> None:
    made = built(variant(compile=compile_mode), of=counts)
    made.step()
    before = evidence.compiled_so_far()
    evidence.observe(made, Cpu())
    assert made.subject.module.get_buffer("calls") == 2
    assert not made.target._forward_pre_hooks
    made.step()
    assert evidence.compiled_so_far().since(before) == NOTHING


@pytest.mark.parametrize("fullgraph", [True, False])
def test_a_compilation_and_a_recompilation_are_counted(fullgraph: bool) -> None:
    """Torch counts frames only without fullgraph; with it, only graphs tell."""
    start = evidence.compiled_so_far()
    made = built(variant(compile="default"), of=remembers, fullgraph=fullgraph)
    assert evidence.compiled_so_far().since(start).compilations == 0
    made.step()
    first = evidence.compiled_so_far()
    assert (first.since(start).compilations, first.since(start).graphs) == (1, 1)
    made.step()
    assert evidence.compiled_so_far().since(first).compilations == 0
    assert isinstance(made.subject.module, Remembers)
    made.subject.module.number = 1
    made.step()
    assert evidence.compiled_so_far().since(first).compilations == 1


def test_eager_compiles_nothing() -> None:
    before = evidence.compiled_so_far()
    built(variant(), of=scaled).step()
    assert evidence.compiled_so_far().since(before) == NOTHING


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
def test_a_model_in_pieces_took_effect_with_a_remark(
    broken: GraphBreaks | None, expected: str | None
) -> None:
    in_pieces = facts(variant(compile="default"), broken=broken, fullgraph=False)
    assert doubts(in_pieces) is None
    assert evidence.remark(in_pieces) == expected


def test_a_cpu_launches_no_graphs() -> None:
    asked = variant(compile="reduce-overhead")
    assert evidence.graph_launches(built(variant()).step, asked.mode, Cpu()) == 0


def test_launches_are_counted_in_one_call() -> None:
    def step() -> None:
        for name in ("cudaGraphLaunch", "cuGraphLaunch", "cudaLaunchKernel"):
            with torch.profiler.record_function(name):
                torch.ones(1)

    assert evidence.launches_seen(step, Cpu()) == 2


def test_a_warm_cache_may_have_been_tuned_before() -> None:
    untuned = facts(variant(compile="max-autotune-no-cudagraphs"), compiled=COMPILED)
    assert "nothing to choose between" in str(doubts(untuned))
    assert doubts(replace(untuned, cold=False)) is None
    assert "nothing was tuned in this run" in str(evidence.remark(replace(untuned, cold=False)))


def test_a_model_that_is_captured_in_part_is_doubted() -> None:
    partly = replace(COMPILED, graph_skips=1)
    assert "gave up on CUDA graphs for 1 piece(s)" in str(
        doubts(facts(variant(compile="reduce-overhead"), compiled=partly))
    )
    assert doubts(facts(variant(compile="default"), compiled=partly)) is None
