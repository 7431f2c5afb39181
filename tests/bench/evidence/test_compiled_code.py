"""The hash of generated code, and the count of frozen weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._inductor.config

from modescope.bench.case import runner
from modescope.bench.evidence import compiled_code
from modescope.bench.evidence.compiled_code import code_hash
from modescope.bench.modes import axes
from modescope.bench.modes.axes import AXES
from modescope.bench.records.cases import Variant
from modescope.bench.records.columns.compiling import CompiledCode
from tests.helpers.probe_models import case, model, preset, silent, smoke, two_layers

LAYERS = 2
"""Of `two_layers`, each with a weight and a bias."""

CODE = """\
# AOT ID: ['0_inference']
#include "/tmp/a/2r/c2rnilspx43ivnzu4uieul65kx65dfhfbptbh5og4wk6rqebuxoo.h"
cpp_fused = async_compile.cpp_pybinding(['float*'], '''#pragma omp simd''')
def call(args):
    buf0 = f(arg0)  # reuse
    return (buf0, )
"""


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.mark.parametrize(
    ("old", "new", "equal"),
    [
        ("/tmp/a/2r", "/home/user/torchinductor", True),
        ("c2rnilspx43ivnzu4uieul65kx65dfhfbptbh5og4wk6rqebuxoo", "c" + "2" * 51, True),
        ("0_inference", "7_inference", True),
        ("  # reuse", "", True),
        ("cpp_fused", "cpp_fused_gelu", False),
        ("#pragma omp simd", "", False),
        ("f(arg0)", "f(arg0, 1)", False),
    ],
)
def test_equal_code_has_an_equal_hash(old: str, new: str, equal: bool) -> None:
    assert old in CODE
    assert (code_hash([CODE]) == code_hash([CODE.replace(old, new)])) is equal


def test_the_pieces_and_their_order_count() -> None:
    hashes = [code_hash(each) for each in (["a"], ["a", "a"], ["a", "b"], ["b", "a"])]
    assert len(set(hashes)) == 4
    assert code_hash([]) is None


def watched(folder: Path, **given: Any) -> CompiledCode:
    """What is found of `two_layers`, compiled with an empty cache in `folder`."""
    torch.compiler.reset()
    net, inputs = two_layers()
    with (
        pytest.MonkeyPatch.context() as patch,
        torch.inference_mode(),
        compiled_code.watch() as watch,
    ):
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(folder))
        torch.compile(net, **given)(*inputs)
    return watch.columns


@pytest.mark.full
def test_options_alone_freeze_nothing_and_the_axis_does(tmp_path: Path) -> None:
    """If the first ever fails, torch has changed, and mode.freezing may become an option."""
    packed_before = _packed()
    alone = watched(tmp_path / "option", options={"freezing": True})
    assert (alone.frozen_weights, _packed() - packed_before) == (None, 0)
    axes.set_up([Variant(preset("freezing"), "fp32")])
    found = watched(tmp_path / "axis")
    assert (found.frozen_weights, found.packed_weights) == (2 * LAYERS, LAYERS)
    axes.set_up([Variant(preset("compile"), "fp32")])
    assert watched(tmp_path / "off").frozen_weights is None


def _packed() -> int:
    from torch._dynamo.utils import counters

    return sum(counters["inductor"][name] for name in compiled_code.PACKED)


@pytest.mark.full
def test_the_hash_tells_whether_an_option_changed_the_code(tmp_path: Path) -> None:
    plain, again, unchanged, narrow = (
        watched(tmp_path / str(number), options=options).code_hash
        for number, options in enumerate(
            ({}, {}, {"triton.unique_kernel_names": False}, {"cpp.simdlen": 1})
        )
    )
    assert plain is not None
    assert plain == again == unchanged != narrow


@pytest.mark.full
@pytest.mark.parametrize("dropped", [False, True])
def test_a_switch_that_is_dropped_is_seen(dropped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if dropped:
        monkeypatch.setitem(AXES, "freezing", replace(AXES["freezing"], set_up=None))
    asked = case(model(two_layers), Variant(preset("freezing"), "fp32"))
    result = runner.run(silent, asked, smoke())
    found = result.findings
    assert (result.status, found.checks.in_effect) == ("ok", not dropped)
    expected = (None, None) if dropped else (2 * LAYERS, LAYERS)
    assert (found.compiled_code.frozen_weights, found.compiled_code.packed_weights) == expected
    assert (found.compilations.compiler_cache_hits, found.compilations.compiler_cache_misses) == (
        0,
        0,
    ) or dropped
