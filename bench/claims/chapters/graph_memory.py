"""Tensors and CUDA graphs: what is made within a capture, and what comes from outside."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from bench.claims.claim import Verdict, claim, holds, inconclusive, refuted, within_limits
from bench.devices import Hardware

COUNT = 2**20  # elements
REPLAYS = 5
STRANGERS = 32  # tensors of the same size made between replays
STRANGE = -1.0
FIRST, SECOND = 3.0, 7.0


@dataclass(frozen=True)
class Captured:
    """Replays of a graph that makes tensors, and of one whose input was freed."""

    replays: Annotated[int, "replays"]
    right: Annotated[int, "replays with the right result"]
    strangers_hurt: Annotated[int, "tensors made between replays that a replay changed"]
    pool: Annotated[int, "reserved for the graph alone", "B"]
    pool_live: Annotated[int, "of that, held by tensors made while capturing", "B"]
    overwritten: Annotated[bool, "an output kept from one replay shows the next one's values"]
    reused: Annotated[bool, "another tensor got the memory of a freed static input"]
    before: Annotated[float, "result while the input is kept alive"]
    after: Annotated[float, "result once it is freed and others were made"]
    of_the_other: Annotated[float, "result if the graph read the other tensor"]


def inside_safe_outside_not(seen: Captured) -> Verdict:
    """Refuted if a replay is wrong or changes another tensor, or there is no pool for the graph.

    Refuted, too, if a tensor gets the memory of an input that the user freed and the replay still
    computes with the input's values: then nobody had to keep it. Undecided if no tensor gets it, or
    the replay computes with neither's values. Within limits if an output kept from one replay is
    overwritten by the next; else holds.
    """
    if seen.right < seen.replays or seen.strangers_hurt:
        return refuted(
            "memory of the capture was not safe",
            f"{seen.right} of {seen.replays} replays were right, {seen.strangers_hurt} other "
            "tensors were changed",
        )
    if not 0 < seen.pool_live <= seen.pool:
        return refuted("there is no pool for it", f"{seen.pool:,} B are reserved for the graph")
    if not seen.reused:
        return inconclusive("no other tensor got the memory of the freed input")
    if seen.after == seen.before:
        return refuted(
            "the input was kept alive",
            f"freed by the user, and a replay still gave {seen.after:g} as before",
        )
    if seen.after != seen.of_the_other:
        return inconclusive(
            f"a replay gave {seen.after:g}, neither {seen.before:g} from the freed input nor "
            f"{seen.of_the_other:g} from the tensor that got its memory"
        )
    told = (
        f"{seen.replays} replays were right among {STRANGERS} new tensors each, in a pool of "
        f"{seen.pool:,} B; once a static input was freed, a replay read the tensor that got its "
        f"memory ({seen.after:g} instead of {seen.before:g}), without an error"
    )
    if not seen.overwritten:
        return holds(told)
    return within_limits(told, "valid is the memory: an output has the values of the last replay")


@claim(
    id="capture-alloc-safe",
    statement="tensors created while a CUDA graph is captured stay valid over replays, in a "
    "private pool; static inputs from outside must be kept alive by the user",
    source=("001",),
    needs=("cuda",),
    decide=inside_safe_outside_not,
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
def capture_alloc_safe(device: Hardware) -> Captured:
    """Results of a captured step that makes tensors, replayed while others are made and held.

    Then of one whose input is freed after the capture and followed by tensors of its size.
    """
    before = device.allocator.pools()
    x = torch.zeros(COUNT, device=device.torch_device)
    replay = device.capture(lambda: _step(x))
    pools = device.allocator.pools()
    assert pools.graph_pool_bytes is not None
    assert before.graph_pool_bytes is not None
    right, hurt = 0, 0
    for i in range(REPLAYS):
        strangers = _strangers(device, STRANGE)
        right += bool((_replayed(replay, x, i) == _step(x)).all())
        hurt += sum(not bool((each == STRANGE).all()) for each in strangers)
    kept = _replayed(replay, x, 1)
    earlier = kept.clone()
    _replayed(replay, x, 2)
    reused, result, after = _freed_input(device)
    return Captured(
        replays=REPLAYS,
        right=right,
        strangers_hurt=hurt,
        pool=pools.graph_pool_bytes - before.graph_pool_bytes,
        pool_live=pools.graph_pool_live_bytes or 0,
        overwritten=not torch.equal(kept, earlier),
        reused=reused,
        before=result,
        after=after,
        of_the_other=2 * SECOND,
    )


def _step(x: Tensor) -> Tensor:
    """Makes several tensors, of which all but the last are gone by its end."""
    inner = torch.arange(COUNT, device=x.device, dtype=torch.float32)
    return (x + inner).mul(2) + torch.ones_like(x)


def _strangers(device: Hardware, value: float) -> list[Tensor]:
    return [torch.full((COUNT,), value, device=device.torch_device) for _ in range(STRANGERS)]


def _replayed(replay: object, x: Tensor, value: float) -> Tensor:
    x.fill_(value)
    assert callable(replay)
    output = replay()
    assert isinstance(output, Tensor)
    return output


def _freed_input(device: Hardware) -> tuple[bool, float, float]:
    """Whether its memory was taken; the result before, and after that."""
    device.allocator.release_unused()  # so that there are fewer free blocks than strangers
    held = [torch.full((COUNT,), FIRST, device=device.torch_device)]
    address = held[0].data_ptr()
    replay = device.capture(lambda: held[0] * 2)
    before = _first_of(replay())
    held.clear()
    gc.collect()
    strangers = _strangers(device, SECOND)
    reused = any(each.data_ptr() == address for each in strangers)
    return reused, before, _first_of(replay())


def _first_of(output: object) -> float:
    assert isinstance(output, Tensor)
    return float(output[0])
