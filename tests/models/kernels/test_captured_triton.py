"""What of the Triton operators shows without a GPU and without the interpreter."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import default_partition

from tests.helpers import kernels
from tests.helpers.kernels import INTERPRETED, OPERATORS
from tests.helpers.paths import ROOT

triton = pytest.importorskip("triton")
pytestmark = pytest.mark.skipif(INTERPRETED, reason="an interpreted kernel cannot be traced")

WIDE = ("rstd", "mean", "lse", "part", "weight_part", "bias_part")
"""Pointers to fp32 or fp64, whatever the dtype of the others."""

INTEGERS = ("width", "count", "seq", "heads", "half")
OFFSETS = {"modescope_cross_entropy": 1}
CONSTANTS = {"BLOCK": 128, "HEADS": 16, "HALF": 32}


class Seen(Exception):
    """Both graphs are known, and cannot be called without a GPU."""


@pytest.mark.parametrize("name", OPERATORS)
def test_compile_finds_the_kernel_in_forward_and_backward(name: str) -> None:
    graphs: list[torch.fx.GraphModule] = []

    def split(*given: Any, **options: Any) -> Any:
        graphs.extend(default_partition(*given, **options))
        raise Seen

    backend: Any = aot_autograd(fw_compiler=lambda graph, _: graph, partition_fn=split)
    operator = getattr(kernels.operators_of("triton"), name)
    compiled: Any = torch.compile(operator, backend=backend, fullgraph=True)
    with pytest.raises(Exception, match="Seen"):
        compiled(*kernels.arguments(name, 4, 24))
    for graph in graphs:
        targets = [str(node.target) for node in graph.graph.nodes]
        assert targets.count("triton_kernel_wrapper_functional") == 1
    assert len(graphs) == 2


def jitted() -> dict[str, Any]:
    """All kernels of the package, by name."""
    from modescope.models.kernels.of_triton import loss, norms, pointwise

    return {
        name: value
        for module in (loss, norms, pointwise)
        for name, value in vars(module).items()
        if isinstance(value, triton.JITFunction)
    }


def test_names_in_a_trace_are_ours() -> None:
    folder = ROOT / "models" / "kernels" / "of_triton"
    texts = [path.read_text() for path in Path(folder).glob("*.py")]
    names = [name for text in texts for name in re.findall(r"@triton\.jit\ndef (\w+)", text)]
    assert len(names) == 9
    assert {*names} == {*jitted()}
    assert all(name.startswith("modescope_") for name in names)


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16", "fp64"])
def test_kernels_compile_for_a_gpu_without_atomics_and_with_64_bit_offsets(dtype: str) -> None:
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    wide = "*fp64" if dtype == "fp64" else "*fp32"
    for name, kernel in jitted().items():
        types_of = {
            **dict.fromkeys(INTEGERS, "i32"),
            **dict.fromkeys(("eps", "sign"), "fp32"),
            **dict.fromkeys(CONSTANTS, "constexpr"),
            **dict.fromkeys(WIDE, wide),
            "target": "*i64",
        }
        names = [parameter.name for parameter in kernel.params]
        signature = {
            name: types_of.get(name, "i32" if name.endswith("stride") else f"*{dtype}")
            for name in names
        }
        constants = {key: value for key, value in CONSTANTS.items() if key in names}
        source = ASTSource(kernel, signature, constants)
        texts = triton.compile(source, target=GPUTarget("cuda", 80, 32)).asm
        assert f".entry {name}(" in texts["ptx"]
        assert not re.search(r"\b(atom|red)\.", texts["ptx"]), name
        products = re.findall(r"arith\.muli .* : (?:tensor<[\dx]*)?(i\d+)", texts["ttir"])
        assert products.count("i64") >= OFFSETS.get(name, 2), name  # of places in memory


@pytest.mark.parametrize(
    ("width", "block"), [(1, 16), (16, 16), (17, 32), (4096, 4096), (65_536, 65_536)]
)
def test_a_block_holds_the_row(width: int, block: int) -> None:
    from modescope.models.kernels.of_triton import launch

    found, warps = launch.block_and_warps(width)
    assert found == block
    assert warps in (1, 2, 4, 8, 16, 32)


def test_a_row_beyond_all_blocks_is_refused_and_pieces_hold_it() -> None:
    from modescope.models.kernels.of_triton import launch

    with pytest.raises(ValueError, match="65537"):
        launch.block_and_warps(65_537)
    assert launch.pieces(128_256, 4096) == (4096, 32)
    assert launch.pieces(4097, 4096) == (4096, 2)
    assert launch.pieces(100, 4096) == (128, 1)


@pytest.mark.parametrize("name", OPERATORS)
def test_a_tensor_on_a_cpu_is_refused_in_a_sentence(name: str) -> None:
    given = kernels.arguments(name, 4, 24)
    with pytest.raises(ValueError, match=r"^kernels=triton .*cpu"):
        getattr(kernels.operators_of("triton"), name)(*given)
