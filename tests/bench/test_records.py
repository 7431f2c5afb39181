"""What decides a case's identity, and what does not."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import pytest

from bench.records import (
    AUTOTUNING,
    CAPTURING,
    Case,
    Findings,
    Mode,
    Model,
    Training,
    Variant,
    canonical_json,
    flagged,
    noted,
    row,
    work_of,
)
from tests.made_up import AMP, COMPILE, EAGER, MODEL, case, plan, record

WORK = (
    '{"baseline":{"dtype":"fp32","grad":"enabled"},'
    '"device":"cpu","model":{"target":"models.mlp:build"},"phase":"inference",'
    '"shape":{"batch":8,"width":64},"threads":1,'
    '"variant":{"compile":"default","dtype":"fp32","grad":"inference_mode"}}'
)


def test_the_id_is_the_hash_of_what_is_not_at_its_default() -> None:
    """A changed id orphans every result measured so far: old ones are never reused again."""
    assert case().case_id == hashlib.sha256(WORK.encode()).hexdigest()[:16]
    assert case().case_id == "4255d7ed5b4e08a7"


@dataclass(frozen=True)
class WiderMode(Mode):
    backend: str = "inductor"


@dataclass(frozen=True)
class WiderTraining(Training):
    momentum: float = 0.0


@dataclass(frozen=True)
class WiderModel(Model):
    layout: str = "contiguous"


def widened(record: Any, wider: Any, **given: Any) -> Any:
    return wider(**vars(record), **given)


def test_a_new_option_at_its_default_changes_no_id() -> None:
    old = case(training=Training(optimizer="adamw"))
    new = replace(
        old,
        model=widened(old.model, WiderModel),
        variant=Variant(widened(COMPILE, WiderMode), "fp32"),
        baseline=Variant(widened(EAGER, WiderMode), "fp32"),
        training=widened(old.training, WiderTraining),
    )
    assert new.case_id == old.case_id
    ids = {
        replace(new, model=widened(old.model, WiderModel, layout="channels_last")).case_id,
        replace(
            new, variant=Variant(widened(COMPILE, WiderMode, backend="aot_eager"), "fp32")
        ).case_id,
        replace(new, training=widened(old.training, WiderTraining, momentum=0.9)).case_id,
        old.case_id,
    }
    assert len(ids) == 4


NO_FULLGRAPH = replace(MODEL, fullgraph=False)


@pytest.mark.parametrize(
    ("variant", "baseline", "counts"),
    [
        (EAGER, None, False),
        (AMP, EAGER, False),
        (COMPILE, EAGER, True),
        (EAGER, COMPILE, True),
    ],
)
def test_fullgraph_counts_where_something_is_compiled(
    variant: Mode, baseline: Mode | None, counts: bool
) -> None:
    def of(model: Model) -> str:
        against = Variant(baseline, "fp32") if baseline else None
        return case(model=model, variant=Variant(variant, "bf16"), baseline=against).case_id

    assert (of(MODEL) != of(NO_FULLGRAPH)) is counts


SAME_WORK = {
    "order of sizes": case(shape_json='{"width":64,"batch":8}'),
    "spaces": case(shape_json='{"batch": 8, "width": 64}'),
    "name of the mode": case(variant=Variant(replace(COMPILE, name="mine"), "fp32")),
    "name of the baseline": case(baseline=Variant(replace(EAGER, name="mine"), "fp32")),
    "name of the model": case(model=replace(MODEL, name="mine")),
}


@pytest.mark.parametrize("same", SAME_WORK.values(), ids=SAME_WORK)
def test_equal_work_has_equal_ids(same: Case) -> None:
    assert same.case_id == case().case_id


def test_the_order_of_arguments_does_not_matter() -> None:
    one = case(model=replace(MODEL, args_json='{"a":1,"b":{"c":2,"d":3}}'))
    other = case(model=replace(MODEL, args_json='{"b":{"d":3,"c":2},"a":1}'))
    assert one.case_id == other.case_id


def test_which_gpu_does_not_matter() -> None:
    assert case(device="cuda").case_id == case(device="cuda:1").case_id


def mode(**axes: Any) -> Variant:
    return Variant(replace(COMPILE, **axes), "fp32")


OTHER_WORK = {
    "grad": case(variant=mode(grad="no_grad")),
    "autocast": case(variant=mode(autocast=True)),
    "compile": case(variant=mode(compile="max-autotune")),
    "graph": case(variant=mode(graph=True)),
    "dtype": case(variant=Variant(COMPILE, "bf16")),
    "shape": case(shape_json='{"batch":9,"width":64}'),
    "name of a size": case(shape_json='{"batch":8,"depth":64}'),
    "phase": case(training=Training()),
    "optimizer": case(training=Training(optimizer="adamw")),
    "recomputing": case(training=Training(checkpoint="model")),
    "baseline": case(baseline=Variant(AMP, "fp32")),
    "baseline's dtype": case(baseline=Variant(EAGER, "bf16")),
    "no baseline": case(baseline=None),
    "device": case(device="cuda"),
    "threads": case(threads=2),
    "target": case(model=replace(MODEL, target="models.mlp:other")),
    "arguments": case(model=replace(MODEL, args_json='{"depth":2}')),
    "fullgraph": case(model=replace(MODEL, fullgraph=False)),
    "batch_dim": case(model=replace(MODEL, batch_dim=1)),
    "no batch_dim": case(model=replace(MODEL, batch_dim=None)),
}


def test_other_work_has_another_id() -> None:
    ids = {name: other.case_id for name, other in OTHER_WORK.items()}
    assert len({*ids.values(), case().case_id}) == len(ids) + 1, ids


@pytest.mark.parametrize(("device", "kind"), [("cpu", "cpu"), ("cuda", "cuda"), ("cuda:1", "cuda")])
def test_device_type(device: str, kind: str) -> None:
    assert case(device=device).device_type == kind


@pytest.mark.parametrize("compiler", ["none", "default", *AUTOTUNING, *CAPTURING])
@pytest.mark.parametrize("graph", [False, True])
def test_what_a_mode_uses(compiler: str, graph: bool) -> None:
    asked = replace(COMPILE, compile=compiler, graph=graph)
    assert asked.uses_graphs == (graph or compiler in ("reduce-overhead", "max-autotune"))
    assert asked.autotunes == compiler.startswith("max-autotune")


def test_the_case_as_columns() -> None:
    work = work_of(case(model=Model("custom:net:build", "net:build")), plan(compile_cache="warm"))
    assert (work.model, work.mode, work.grad, work.compile) == (
        "custom:net:build",
        "compile",
        "inference_mode",
        "default",
    )
    assert (work.batch, work.seq) == (8, None)
    assert (work.baseline_mode, work.baseline_dtype) == ("eager", "fp32")
    assert work.compile_cache == "warm"


def test_without_a_baseline_its_columns_are_null() -> None:
    work = work_of(case(baseline=None), plan())
    assert (work.baseline_mode, work.baseline_dtype) == (None, None)


def test_columns_of_different_parts_do_not_collide() -> None:
    made = record()
    sizes = [len(vars(part)) for part in vars(made).values()]
    assert len(row(made)) == sum(sizes)


def test_notes_are_added_to_what_is_noted_already() -> None:
    findings = Findings(memory_note="sparse")
    assert noted(findings, [], "lost") == findings
    found = noted(findings, ["memory_note", "work_note"], "lost")
    assert (found.memory_note, found.work_note) == ("sparse; lost", "lost")
    assert noted(findings, ["work_note"], None) == findings
    assert flagged(flagged(findings, "a"), "b").flags == ("a", "b")


def test_canonical_json_does_not_depend_on_the_order() -> None:
    assert canonical_json({"b": [1, None], "a": {"d": True, "c": "é"}}) == (
        '{"a":{"c":"\\u00e9","d":true},"b":[1,null]}'
    )
