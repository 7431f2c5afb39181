"""Which fields are part of a case's id, and which are not."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields, replace
from typing import Any

import pytest

from modescope.bench.records.cases import (
    PLAIN_EAGER,
    Case,
    CompileOptions,
    Mode,
    Model,
    Training,
    Variant,
    canonical_json,
)
from tests.helpers.made_up_records import AMP, COMPILE, EAGER, MODEL, case

WORK = (
    '{"baseline":{"dtype":"fp32","grad":"enabled"},'
    '"device":"cpu","model":{"target":"models.mlp:build"},"phase":"inference",'
    '"shape":{"batch":8,"width":64},"threads":1,'
    '"variant":{"compile":"default","dtype":"fp32","grad":"inference_mode"}}'
)


def test_the_id_is_the_hash_of_all_values_not_at_their_default() -> None:
    """A changed id orphans every result measured so far: old ones are never reused again."""
    assert case().case_id == hashlib.sha256(WORK.encode()).hexdigest()[:16]
    assert case().case_id == "4255d7ed5b4e08a7"


@dataclass(frozen=True)
class WiderMode(Mode):
    layout: str = "contiguous"


@dataclass(frozen=True)
class WiderOptions(CompileOptions):
    freezing: bool = False
    options: str | None = None  # as the record itself is called in Mode


IDS = {
    "a122e337bf5930b7": {"variant": Variant(EAGER, "fp32")},
    "51b5c217833a7528": {"variant": Variant(Mode("", "no_grad"), "fp32"), "baseline": None},
    "f1494a2bb15c814a": {"variant": Variant(AMP, "bf16")},
    "c3e7fe2ddaab017b": {},
    "ca6ed7be1a49f1a9": {"model": replace(MODEL, fullgraph=False)},
    "b609a097d53708bc": {
        "model": replace(MODEL, fullgraph=False),
        "variant": Variant(EAGER, "fp32"),
        "baseline": Variant(COMPILE, "fp32"),
    },
    "69a3d32196feb9e7": {
        "variant": Variant(replace(COMPILE, compile="max-autotune"), "fp16"),
        "baseline": Variant(EAGER, "fp16"),
        "device": "cuda:1",
    },
    "d37b7bc9e4dad3d8": {
        "variant": Variant(replace(COMPILE, graph=True), "fp32"),
        "device": "cuda",
    },
    "2a54f4304015b1cf": {"variant": Variant(EAGER, "fp32"), "options": Training()},
    "c0febe35288028b4": {
        "variant": Variant(Mode("", "enabled", True, "default"), "bf16"),
        "options": Training(optimizer="adamw", activation_memory_budget=0.5),
    },
    "959ffdb11e923163": {
        "model": Model("custom:net:build", "net:build", '{"width":8}', batch_dim=None)
    },
}


@pytest.mark.parametrize(("case_id", "work"), IDS.items(), ids=IDS)
def test_ids_equal_those_of_the_kept_results(case_id: str, work: dict[str, Any]) -> None:
    assert case(**{"shape_json": '{"batch":8}', **work}).case_id == case_id


def test_a_compile_option_counts_where_it_differs_from_its_default() -> None:
    def of(options: CompileOptions) -> str:
        asked = Variant(replace(COMPILE, options=options), "fp32")
        assert asked.mode.options is options
        return case(variant=asked).case_id

    assert of(WiderOptions()) == of(CompileOptions()) == case().case_id
    assert of(WiderOptions(dynamic=True)) == of(CompileOptions(dynamic=True))
    ids = {of(WiderOptions(dynamic=dynamic)) for dynamic in (None, True, False)}
    others = {of(WiderOptions(freezing=True)), of(WiderOptions(options="{}"))}
    assert len(ids | others) == 5


def test_compile_options_do_not_share_names_with_axes_or_other_arguments() -> None:
    options = {each.name for each in fields(CompileOptions)}
    axes = {each.name for each in fields(Mode)} - {"options"}
    assert not options & (axes | {"mode", "fullgraph"})


@dataclass(frozen=True)
class WiderTraining(Training):
    momentum: float = 0.0


@dataclass(frozen=True)
class WiderModel(Model):
    layout: str = "contiguous"


def widened(record: Any, wider: Any, **given: Any) -> Any:
    return wider(**vars(record), **given)


def test_a_new_option_at_its_default_changes_no_id() -> None:
    old = case(options=Training(optimizer="adamw"))
    new = replace(
        old,
        model=widened(old.model, WiderModel),
        variant=Variant(widened(COMPILE, WiderMode), "fp32"),
        baseline=Variant(widened(EAGER, WiderMode), "fp32"),
        options=widened(old.options, WiderTraining),
    )
    assert new.case_id == old.case_id
    ids = {
        replace(new, model=widened(old.model, WiderModel, layout="channels_last")).case_id,
        replace(
            new, variant=Variant(widened(COMPILE, WiderMode, layout="channels_last"), "fp32")
        ).case_id,
        replace(new, options=widened(old.options, WiderTraining, momentum=0.9)).case_id,
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
def test_fullgraph_counts_only_in_compiled_modes(
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


def test_the_index_of_a_gpu_does_not_matter() -> None:
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
    "phase": case(options=Training()),
    "optimizer": case(options=Training(optimizer="adamw")),
    "recomputing": case(options=Training(checkpoint="model")),
    "baseline": case(baseline=Variant(AMP, "fp32")),
    "baseline's dtype": case(baseline=Variant(EAGER, "bf16")),
    "no baseline": case(baseline=None),
    "device": case(device="cuda"),
    "threads": case(threads=2),
    "target": case(model=replace(MODEL, target="modescope.models.mlp:other")),
    "arguments": case(model=replace(MODEL, args_json='{"depth":2}')),
    "fullgraph": case(model=replace(MODEL, fullgraph=False)),
    "batch_dim": case(model=replace(MODEL, batch_dim=1)),
    "architecture": case(model=replace(MODEL, architecture="gpt2")),
    "inputs": case(model=replace(MODEL, inputs_json='{"x":[2]}')),
    "other inputs": case(model=replace(MODEL, inputs_json='{"x":[3]}')),
    "no batch_dim": case(model=replace(MODEL, batch_dim=None)),
}


def test_different_work_has_a_different_id() -> None:
    ids = {name: other.case_id for name, other in OTHER_WORK.items()}
    assert len({*ids.values(), case().case_id}) == len(ids) + 1, ids


@pytest.mark.parametrize(("device", "kind"), [("cpu", "cpu"), ("cuda", "cuda"), ("cuda:1", "cuda")])
def test_the_type_of_a_device_ignores_its_index(device: str, kind: str) -> None:
    assert case(device=device).device_type == kind


@pytest.mark.parametrize("grad", [None, "no_grad"])
def test_the_eager_counterpart_of_a_mode_keeps_its_autocast(grad: str | None) -> None:
    dynamic = CompileOptions(dynamic=True)
    asked = Mode("some", "inference_mode", True, "max-autotune", True, dynamic)
    assert asked.eager_mode(grad) == Mode("some", grad or "inference_mode", autocast=True)


def test_plain_eager_has_every_axis_but_grad_at_its_default() -> None:
    mode = Mode("eager", "enabled")
    axes = {"autocast": mode.autocast, "compile_mode": mode.compile, "graph": mode.graph}
    assert (axes, mode.options) == (PLAIN_EAGER, CompileOptions())


def test_canonical_json_does_not_depend_on_the_order() -> None:
    assert canonical_json({"b": [1, None], "a": {"d": True, "c": "é"}}) == (
        '{"a":{"c":"\\u00e9","d":true},"b":[1,null]}'
    )
