"""Doubts that follow from facts, line by line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from modescope.bench.evidence import mode_effect
from modescope.bench.evidence.compiler_counts import Compiled
from modescope.bench.evidence.mode_effect import Facts, GraphBreaks, ModeEffect, Site
from modescope.bench.modes import backends
from modescope.bench.modes.backends import BACKENDS
from modescope.bench.records.cases import Variant
from modescope.bench.records.columns.compiling import Regions
from tests.helpers.probe_models import (
    observed,
    variant,
)

COMPILES = pytest.mark.full

COMPILED = Compiled(frames=0, graphs=1, autotuned=0, graph_skips=0)
NOTHING = Compiled(frames=0, graphs=0, autotuned=0, graph_skips=0)
UNBROKEN = GraphBreaks((), ())


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    yield
    torch.compiler.reset()


def facts(asked: Variant, **changes: Any) -> Facts:
    """The facts of a mode in effect on a GPU, but for the changes."""
    has_autocast = asked.mode.autocast
    dtype = {"fp32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16"}[
        asked.dtype
    ]
    usual = Facts(
        variant=asked,
        fullgraph=True,
        device_type="cuda",
        observed=observed(
            asked.mode.grad,
            dtype if has_autocast else "none",
            "float32" if has_autocast else dtype,
            **dict[str, Any](asked.mode.axes),
        ),
        compiled=replace(COMPILED, autotuned=3) if asked.mode.compiles else NOTHING,
        breaks=UNBROKEN,
        graph_launches=1 if backends.replays_graphs(asked.mode) else 0,
        cold=True,
        symbolic_sizes=1 if asked.mode.dynamic else 0,
    )
    return replace(usual, **changes)


AMP, CAST, TF32 = variant("bf16", autocast=True), variant("bf16"), variant("tf32")
COMPILE, REDUCED = variant(compile="default"), variant(compile="reduce-overhead")
TUNED, GRAPH = variant(compile="max-autotune-no-cudagraphs"), variant(graph=True)
DYNAMIC = variant(compile="default", dynamic=True)

REGIONAL = variant(compile="default", axes=(("regions", "blocks"),))
OF_BLOCKS = Regions(8, 8, "[]")

IN_EFFECT = {
    "eager": facts(variant()),
    "cast": facts(variant("fp16", grad="inference_mode")),
    "amp": facts(AMP),
    "tf32": facts(TF32, observed=observed("enabled", "none", "float32", "tf32")),
    "products unknown": facts(TF32),
    "reduce-overhead": facts(REDUCED),
    "max-autotune": facts(variant(compile="max-autotune")),
    "dynamic": facts(DYNAMIC),
    "compile-cuda-graph": facts(variant(compile="default", graph=True)),
    "symbolic sizes unknown": facts(DYNAMIC, symbolic_sizes=None),
    "breaks allowed": facts(COMPILE, compiled=replace(COMPILED, graphs=3), fullgraph=False),
    "no graphs to skip": facts(COMPILE, compiled=replace(COMPILED, graph_skips=1)),
    "blocks share graphs": facts(REGIONAL, regions=OF_BLOCKS),
    "blocks differ and calls vary": facts(
        REGIONAL, regions=OF_BLOCKS, compiled=replace(COMPILED, graphs=20), varies=True
    ),
    "some blocks are called": facts(REGIONAL, regions=Regions(8, 3, "[]")),
    "no weights": facts(
        CAST, built_dtypes=frozenset(), observed=observed("enabled", "none", "none")
    ),
    "other dtypes stay": facts(
        CAST,
        built_dtypes=frozenset({"float32", "float64"}),
        observed=observed("enabled", "none", "bfloat16, float64"),
    ),
}


@pytest.mark.parametrize("name", IN_EFFECT)
def test_a_mode_in_effect_has_no_doubt(name: str) -> None:
    assert mode_effect.effect(IN_EFFECT[name]).in_effect


def seen(
    asked: Variant, grad: str, autocast: str, weight_dtype: str, products: str | None = None
) -> Facts:
    return facts(asked, observed=observed(grad, autocast, weight_dtype, products))


ONE_WRONG = {
    "enabled instead of no_grad": seen(variant(grad="no_grad"), "enabled", "none", "float32"),
    "autocast was float16 instead of bfloat16": seen(AMP, "enabled", "float16", "float32"),
    "autocast was bfloat16 instead of none": seen(CAST, "enabled", "bfloat16", "bfloat16"),
    "weights were bfloat16 instead of float32": seen(AMP, "enabled", "bfloat16", "bfloat16"),
    "weights were float32 instead of bfloat16": seen(CAST, "enabled", "none", "float32"),
    "compiled nothing": facts(COMPILE, compiled=NOTHING),
    "made 3 graphs instead of one": facts(COMPILE, compiled=replace(COMPILED, graphs=3)),
    "CUDA graphs need a GPU": facts(REDUCED, device_type="cpu", graph_launches=0),
    "no CUDA graph was launched": facts(REDUCED, graph_launches=0),
    "was launched in a steady call": facts(GRAPH, graph_launches=0),
    "2 piece(s) of the model": facts(REDUCED, compiled=replace(COMPILED, graph_skips=2)),
    "autotuning had nothing to choose": facts(TUNED, compiled=COMPILED),
    "no size is symbolic": facts(DYNAMIC, symbolic_sizes=0),
    "bf16 changes no other": facts(AMP, has_fp32=False),
    "multiplied in fp32 instead of tf32": seen(TF32, "enabled", "none", "float32", "fp32"),
    "multiplied in tf32 instead of fp32": seen(variant(), "enabled", "none", "float32", "tf32"),
    "weights were bfloat16 instead of bfloat16, float64": facts(
        CAST, built_dtypes=frozenset({"float32", "float64"})
    ),
    "weights were float32, float64 instead of bfloat16, float64": facts(
        CAST,
        built_dtypes=frozenset({"float32", "float64"}),
        observed=observed("enabled", "none", "float32, float64"),
    ),
    "another backend": facts(COMPILE, other_backend=True),
    "the model was compiled instead of its blocks": facts(
        REGIONAL, observed=observed("enabled", "none", "float32"), regions=OF_BLOCKS
    ),
    "calls none of its 8 blocks": facts(REGIONAL, compiled=NOTHING, regions=Regions(8, 0, "[]")),
    "8 blocks have 8 graphs": facts(
        REGIONAL, compiled=replace(COMPILED, graphs=8), regions=OF_BLOCKS
    ),
    "in eager ran f": facts(COMPILE, left_to_eager="f"),
    "nothing in bf16": facts(variant(), rounds_products=False),
    "the model's own forward": facts(variant(), runs_forward=True),
    "nothing of the optimizer's step": facts(variant(), compiles_optimizer=True),
}

LINES = (*mode_effect.DOUBTS, *(line for backend in BACKENDS.values() for line in backend.doubts))


@pytest.mark.parametrize("doubt", ONE_WRONG)
def test_each_doubt_is_raised_by_its_facts_alone(doubt: str) -> None:
    effect = mode_effect.effect(ONE_WRONG[doubt])
    assert not effect.in_effect
    assert doubt in str(effect.note)
    assert "; " not in str(effect.note)
    assert effect.graph_launches == ONE_WRONG[doubt].graph_launches


def test_every_doubt_of_the_tables_can_be_raised_and_several_are_joined() -> None:
    assert {line for found in ONE_WRONG.values() for line in LINES if line[0](found)} == set(LINES)
    both = facts(variant(compile="max-autotune"), compiled=COMPILED, device_type="cpu")
    assert str(mode_effect.effect(both).note).count("; ") == 1


def test_what_to_know_about_a_mode_in_effect() -> None:
    sites = (Site("net.py:12", "a print"), Site(None, "an item"))
    breaks = GraphBreaks(sites, ("f", "g"))
    in_pieces = facts(COMPILE, breaks=breaks, fullgraph=False)
    note = "compiled in pieces around a print at net.py:12 and 1 more; not compiled: f, g"
    assert mode_effect.effect(in_pieces) == ModeEffect(True, note, 0)
    unknown = facts(COMPILE, breaks=None, fullgraph=False)
    assert mode_effect.effect(unknown) == ModeEffect(True, None, 0)
    tuned_before = mode_effect.effect(facts(TUNED, compiled=COMPILED, cold=False))
    assert tuned_before.in_effect
    assert "nothing was tuned in this run" in str(tuned_before.note)
    some = mode_effect.effect(IN_EFFECT["some blocks are called"])
    assert some == ModeEffect(True, mode_effect.SOME_BLOCKS.format(Regions(8, 3)), 0)


def test_switches_are_named_beside_doubts_and_remarks() -> None:
    on = {"switches": ("A=1 does a", "B does b")}
    for fact, in_effect, first in (
        (facts(COMPILE, **on), True, ""),
        (facts(TUNED, compiled=COMPILED, cold=False, **on), True, mode_effect.TUNED_BEFORE + "; "),
        (facts(COMPILE, compiled=NOTHING, **on), False, "torch.compile compiled nothing; "),
    ):
        expected = ModeEffect(in_effect, f"{first}A=1 does a; B does b", 0)
        assert mode_effect.effect(fact) == expected
