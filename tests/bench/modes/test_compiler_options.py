"""Options of Inductor: dotted names, and mistakes in them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from omegaconf import OmegaConf

from modescope.bench.modes import backends, compiler_options
from modescope.bench.modes.compiler_options import NEAREST, SECTIONS
from modescope.bench.records.cases import canonical_json
from modescope.bench.records.errors import UsageError
from modescope.bench.settings import ModeSettings


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"epilogue_fusion": False}, {"epilogue_fusion": False}),
        ({"triton": {"cudagraphs": True}}, {"triton.cudagraphs": True}),
        ({"triton.cudagraphs": True}, {"triton.cudagraphs": True}),
        ({"pre_grad_fusion_options": {"a": {}}}, {"pre_grad_fusion_options": {"a": {}}}),
    ],
)
def test_options_in_a_section_have_dotted_names(
    given: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert compiler_options.flat(given) == expected
    made = OmegaConf.merge(OmegaConf.structured(ModeSettings), {"options": given, "name": "mine"})
    made.update(grad="no_grad", autocast=False, compile="default", graph=False)
    settings: Any = OmegaConf.to_object(made)
    assert settings.mode().compile_options == {"options": expected}
    assert backends.captures(settings.mode()) is bool(expected.get(backends.GRAPHS_OPTION))


def test_every_section_of_torch_is_known() -> None:
    dotted = {name.partition(".")[0] for name in torch._inductor.list_options() if "." in name}
    assert dotted <= set(SECTIONS)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, None),
        ({"epilogue_fusion": False, "cpp.simdlen": 1, "max-autotune": True}, None),
        ({"cpp.simdlen": None}, None),
        ({"nonsense": 1}, "mode.options.nonsense=1: "),
        ({"epilogue_fusion": "no"}, "takes bool there, not str"),
        ({"cpp.simdlen": "x"}, "takes int | None there, not str"),
        ({"cudagraphs": True}, "the nearest are triton.cudagraphs, "),
        ({"package": True}, "the nearest are aot_inductor.package, "),
        ({"epilog_fusion": True}, "the nearest are epilogue_fusion, "),
    ],
)
def test_a_mistake_is_named_before_torch_compiles(
    options: dict[str, Any], said: str | None
) -> None:
    if said is None:
        compiler_options.check(canonical_json(options))
        return
    with pytest.raises(UsageError) as caught:
        compiler_options.check(canonical_json(options))
    text = str(caught.value)
    assert said in text
    assert "\n" not in text
    assert len(text) < 200


def test_the_nearest_names_are_few() -> None:
    assert len(compiler_options.nearest("x", torch._inductor.list_options())) == NEAREST
