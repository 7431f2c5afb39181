"""Which fields are part of a case's id, and which are not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from modescope.bench.records.cases import Inference, Mode, Model, Training, Variant
from tests.helpers.made_up_records import AMP, COMPILE, EAGER, MODEL, case

IDS = {
    "4255d7ed5b4e08a7": {"shape_json": '{"batch":8,"width":64}'},
    "a122e337bf5930b7": {"variant": Variant(EAGER, "fp32")},
    "f1494a2bb15c814a": {"variant": Variant(AMP, "bf16")},
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
    "c0febe35288028b4": {
        "variant": Variant(Mode("", "enabled", True, "default"), "bf16"),
        "options": Training(optimizer="adamw", activation_memory_budget=0.5),
    },
    "959ffdb11e923163": {
        "model": Model("custom:net:build", "net:build", '{"width":8}', batch_dim=None)
    },
    "c5839feec0bf6e92": {
        "model": Model(
            "timm:net",
            "modescope.models.libraries.of_timm:build",
            '{"width":8}',
            False,
            1,
            '{"x":["batch",2]}',
            "net",
        ),
        "variant": Variant(Mode("", "no_grad", True, "max-autotune", True, dynamic=True), "bf16"),
        "baseline": None,
        "threads": 2,
        "options": Inference('{"batch":[1,8]}', '{"batch":[8]}'),
    },
    "cdf3e673534647d1": {
        "options": Training("sgd", "fused", True, 0.1, False, "output", "forward_backward", "model")
    },
}


@pytest.mark.parametrize(("case_id", "work"), IDS.items(), ids=IDS)
def test_ids_equal_those_of_the_kept_results(case_id: str, work: dict[str, Any]) -> None:
    """A changed id orphans every result measured so far: old ones are never reused again."""
    assert case(**{"shape_json": '{"batch":8}', **work}).case_id == case_id


def test_fullgraph_counts_only_in_compiled_modes() -> None:
    for variant, baseline, counts in ((AMP, EAGER, False), (COMPILE, EAGER, True),
                                      (EAGER, COMPILE, True)):  # fmt: skip
        asked = case(variant=Variant(variant, "bf16"), baseline=Variant(baseline, "fp32"))
        other = replace(asked, model=replace(MODEL, fullgraph=False))
        assert (asked.case_id != other.case_id) is counts


SAME_WORK = {
    "order of sizes": case(shape_json='{"width":64,"batch":8}'),
    "name of the mode": case(variant=Variant(replace(COMPILE, name="mine"), "fp32")),
    "name of the baseline": case(baseline=Variant(replace(EAGER, name="mine"), "fp32")),
    "name of the model": case(model=replace(MODEL, name="mine")),
}


def test_equal_work_has_equal_ids() -> None:
    assert {each.case_id for each in SAME_WORK.values()} == {case().case_id}
    assert case(device="cuda").case_id == case(device="cuda:1").case_id
    orders = '{"a":1,"b":{"c":2,"d":3}}', '{"b":{"d":3,"c":2},"a":1}'
    assert len({case(model=replace(MODEL, args_json=each)).case_id for each in orders}) == 1
