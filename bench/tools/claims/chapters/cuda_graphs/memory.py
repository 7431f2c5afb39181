"""Tensors and CUDA graphs: what is made within a capture, and what comes from outside."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from modescope.bench.tools.claims import lab

COUNT = 2**20  # elements
REPLAYS, STRANGERS = 5, 32  # tensors of the same size made between replays
STRANGE, FIRST, SECOND = -1.0, 3.0, 7.0


def inside_safe_outside_not(o: lab.Observed) -> lab.Rule:
    """Refuted, too, if no memory is reserved for the graph alone, or its tensors hold none of that.

    Then a static input is freed. Refuted if a replay still computes with its values though another
    tensor has its memory. Undecided if no tensor gets that memory, if the replay computes with
    other values than these two tensors', or if it is unknown what the graph's tensors hold.
    """
    sizes = o.say("pool", "pool_live")
    yield lab.undecided_if(o.pool_live is None, sizes)
    pool = 0 < o.pool_live <= o.pool
    held = (
        "memory is reserved for the graph alone, and tensors made while capturing hold some of it"
    )
    yield lab.require(held, pool, sizes)
    yield lab.undecided_if(not o.reused, "no other tensor got the memory of the freed input")
    results = o.say("before", "after", "of_the_other")
    yield lab.require("a static input is not kept alive", o.after != o.before, results)
    yield lab.undecided_if(o.after != o.of_the_other, results)
    yield lab.holds(results)


@lab.claim(
    "tensors created while a CUDA graph is captured stay valid over replays, in a private pool; "
    "static inputs from outside must be kept alive by the user",
    "001",
    needs="cuda",
    rule=inside_safe_outside_not,
    figures={
        "replays": "replays",
        "right": lab.must("replays with the right result", REPLAYS, "every replay is right"),
        "strangers_hurt": lab.must(
            "tensors made between replays that a replay changed",
            0,
            "no replay changes another tensor",
        ),
        "pool": "reserved for the graph alone [B]",
        "pool_live": "of that, held by tensors made while capturing [B]",
        "kept": lab.should("an output keeps its values over the next replay", True),
        "reused": "another tensor got the memory of a freed static input",
        "before": "result while the input is kept alive",
        "after": "result once it is freed and others were made",
        "of_the_other": "result if the graph read the other tensor",
    },
    snippet="""
        import torch
        from torch import cuda

        x, g = torch.full((2**20,), 3.0, device="cuda"), cuda.CUDAGraph()
        with cuda.graph(g):
            y = x * 2 + torch.ones_like(x)
        del x
        others = [torch.full((2**20,), 7.0, device="cuda") for _ in range(8)]
        g.replay()
        print(y[0].item())
    """,
)
def capture_alloc_safe(device: lab.Hardware) -> lab.Values:
    """Results of a captured step that makes tensors, replayed while others are made and held.

    Then of one whose input is freed after the capture and followed by tensors of its size.
    """
    before = device.allocator.pools()
    x = torch.zeros(COUNT, device=device.torch_device)
    replay: Callable[[], Any] = device.capture(lambda: _step(x))
    pools = device.allocator.pools()
    assert pools.graph_pool_bytes is not None
    assert before.graph_pool_bytes is not None

    def replayed(value: float) -> Tensor:
        x.fill_(value)
        output: Tensor = replay()
        return output

    right, hurt = 0, 0
    for i in range(REPLAYS):
        strangers = _strangers(device, STRANGE)
        right += bool((replayed(i) == _step(x)).all())
        hurt += sum(not bool((each == STRANGE).all()) for each in strangers)
    kept = replayed(1)
    earlier = kept.clone()
    replayed(2)
    yield from (REPLAYS, right, hurt, pools.graph_pool_bytes - before.graph_pool_bytes)
    yield from (pools.graph_pool_live_bytes, torch.equal(kept, earlier))
    yield from (*_freed_input(device), 2 * SECOND)


def _step(x: Tensor) -> Tensor:
    """Makes several tensors, of which all but the last are gone by its end."""
    inner = torch.arange(COUNT, device=x.device, dtype=torch.float32)
    return (x + inner).mul(2) + torch.ones_like(x)


def _strangers(device: lab.Hardware, value: float) -> list[Tensor]:
    return [torch.full((COUNT,), value, device=device.torch_device) for _ in range(STRANGERS)]


def _freed_input(device: lab.Hardware) -> tuple[bool, float, float]:
    """Whether its memory was taken; the result before, and after that."""
    device.allocator.release_unused()  # so that there are fewer free blocks than strangers
    held = [torch.full((COUNT,), FIRST, device=device.torch_device)]
    address = held[0].data_ptr()
    replay: Callable[[], Any] = device.capture(lambda: held[0] * 2)
    before = float(replay()[0])
    held.clear()
    gc.collect()
    strangers = _strangers(device, SECOND)
    reused = any(each.data_ptr() == address for each in strangers)
    return reused, before, float(replay()[0])
