"""Which blocks are found, and that compiling them changes nothing but how they run."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from modescope.bench.evidence import compiler_counts
from modescope.bench.model.compiler import OperatorMode
from modescope.bench.modes import regions
from modescope.bench.records.columns.compiling import Regions
from modescope.models import decoder, embedding, lstm, mlp, pointwise, resnet, transformer
from tests.helpers.probe_models import Built, tells
from tests.helpers.stacks import DEPTH, Block, Stack, different, encoder, sequentials, stack

MAKE: dict[str, tuple[Callable[[], Built], list[str]]] = {
    "stack": (stack, [f"blocks.{n}" for n in range(DEPTH)]),
    "sequentials": (sequentials, ["1", "2", "3"]),
    "encoder": (encoder, ["layers.0", "layers.1", "layers.2"]),
    "one block": (lambda: (Stack([nn.Identity()], 1, False), ()), []),
    "no list": (tells, []),
    "mlp": (partial(mlp.build, 2, 4, 4), ["0", "1", "2"]),
    "resnet": (
        partial(resnet.build, 1, 8, 4, 2), [f"{n}.{k}" for n in (1, 2, 3, 4) for k in (0, 1)]
    ),
    "decode": (partial(decoder.decode, 1, 4, 4, 2, 2, 5), ["blocks.0", "blocks.1"]),
    "prefill": (partial(decoder.prefill, 1, 4, 4, 2, 2, 5), ["blocks.0", "blocks.1"]),
    "transformer": (partial(transformer.build, 1, 4, 4, 2), []),
    "lstm": (partial(lstm.build, 1, 2, 4, 2), []),
    "embedding": (partial(embedding.build, 2, 3, 5, 4, 2), []),
    "pointwise": (partial(pointwise.build, 2, 3, 4), []),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    import torch._dynamo.config

    torch.compiler.reset()
    with torch._dynamo.config.patch(fail_on_recompile_limit_hit=True, recompile_limit=8):
        yield
    torch.compiler.reset()


@pytest.mark.parametrize("name", MAKE)
def test_repeated_blocks_are_found_by_their_class(name: str) -> None:
    make, names = MAKE[name]
    assert [*regions.find(make()[0])] == names


def test_a_block_that_is_in_two_lists_is_one() -> None:
    blocks = nn.ModuleList(regions.find(stack()[0]).values())
    twice = nn.ModuleList([blocks, nn.ModuleList([*blocks])])
    assert len(regions.find(twice)) == DEPTH


def in_graphs(module: nn.Module) -> nn.Module:
    return regions.compile_blocks(
        module, partial(torch.compile, backend="aot_eager", fullgraph=True)
    )


@pytest.mark.parametrize(
    ("make", "grad", "graphs"),
    [
        (stack, torch.no_grad, 1),
        (stack, torch.inference_mode, 2),
        (stack, torch.enable_grad, 2),
        (sequentials, torch.no_grad, 1),
        (encoder, torch.no_grad, 1),
        (different, torch.no_grad, 10),
    ],
)
def test_equal_blocks_share_a_graph(
    make: Callable[[], Built], grad: Callable[[], Any], graphs: int
) -> None:
    """The second one is for the first block: its input is made outside of the grad state."""
    net, inputs = make()
    net.eval()
    expected, known = net(*inputs), copy.deepcopy(regions.find(net))
    before = compiler_counts.read_compiled()
    in_graphs(net)
    with grad():
        made = net(*inputs)
        again = net(*inputs)
    assert compiler_counts.read_compiled().since(before).graphs == graphs
    torch.testing.assert_close(made, expected)
    assert torch.equal(made, again)
    assert all(
        isinstance(net.get_submodule(name), type(block)) and type(block) is regions.original(now)
        for (name, block), now in zip(known.items(), regions.find(net).values(), strict=True)
    )


def test_what_forward_keeps_stays_in_the_module() -> None:
    net, inputs = stack(counts=True)
    in_graphs(net)(*inputs)
    assert net.calls == 1


def test_under_a_dispatch_mode_blocks_run_in_eager() -> None:
    names: list[str] = []

    class Lists(OperatorMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
        ) -> Any:
            names.append(func.overloadpacket.__name__)
            return func(*args, **(kwargs or {}))

    net, inputs = stack()
    in_graphs(net)
    before = compiler_counts.read_compiled()
    with Lists(), torch.no_grad():
        net(*inputs)
    assert names.count("relu") == DEPTH
    assert compiler_counts.read_compiled().since(before).graphs == 0


def test_blocks_are_compiled_anew_in_a_copy_and_in_the_module_itself() -> None:
    net, inputs = stack()
    in_graphs(net)
    other = in_graphs(copy.deepcopy(net))
    kinds = [{type(block) for block in regions.compiled(each)} for each in (net, other)]
    in_graphs(net)
    kinds.append({type(block) for block in regions.compiled(net)})
    assert [len(kind) for kind in kinds] == [1, 1, 1]
    assert len(set().union(*kinds)) == 3
    assert {each.__bases__ for each in set().union(*kinds)} == {(Block,)}
    torch.testing.assert_close(other(*inputs), net(*inputs))


@pytest.mark.parametrize(("whole", "called"), [(DEPTH, DEPTH), (3, 3), (0, 0)])
def test_blocks_that_are_called_are_counted(whole: int, called: int) -> None:
    net, inputs = stack(whole)
    assert regions.observe(net, lambda: net(*inputs)) == Regions()
    in_graphs(net)
    seen = regions.observe(net, lambda: net(*inputs))
    assert (seen.regions, seen.regions_called) == (DEPTH, called)
    before = compiler_counts.read_compiled()
    net(*inputs)
    assert compiler_counts.read_compiled().since(before).graphs == 0
