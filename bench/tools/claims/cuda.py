"""CUDA's caching allocator (sizes, what is given back when, streams, pieces) and CUDA graphs."""

from __future__ import annotations

import gc
import math
from functools import partial
from typing import Any

import torch
from torch import Tensor, cuda
from torch.nn import functional

from modescope.bench.devices.cuda import Cuda, CudaStream
from modescope.bench.devices.cuda_allocator import CudaAllocator
from modescope.bench.devices.devices import Hardware, Mark, Step
from modescope.bench.stats.estimates import MARGIN
from modescope.bench.tools.claims.claim import Answer, claim, holds, in_range, refuted, undecided
from modescope.bench.tools.claims.measuring import speedup

MIB = 2**20
BLOCK = 32 * MIB
BUSY_S = 0.3  # far longer than the few calls that are made meanwhile


def taken(size: int) -> Tensor:
    """A tensor of `size` bytes."""
    return torch.empty(size, dtype=torch.uint8, device="cuda")


@claim(
    "the caching allocator rounds small requests to 512 B and large ones to 2 MiB",
    "003 §12.2 Mechanism",
    needs="cuda",
)
def cache_rounding(device: Hardware) -> Answer:
    """Blocks of tensors of 13 sizes, and what the driver gives for each, in an empty cache.

    Refuted if a block for less than 1 MiB is not the next multiple of 512 B. Holds if each for more
    is the next multiple of 2 MiB. Otherwise within limits if at least what the driver gives for
    10 MiB or more is that multiple, refuted if not.

    import torch
    from torch import cuda
    for size in (1, 513, 3 * 2**20, 33 * 2**20):
        cuda.empty_cache()
        x = torch.empty(size, dtype=torch.uint8, device="cuda")
        print(size, cuda.memory_allocated(), cuda.memory_reserved())
        del x
    """
    sizes = 1, 511, 513, 1_000, 100_001, MIB - 1
    sizes += MIB + 1, 3 * MIB, 9 * MIB + 1, 10 * MIB + 1, 11 * MIB, 33 * MIB, 101 * MIB + 1
    numbers, small, large, given = {}, [], [], []
    for size in sizes:
        cuda.empty_cache()
        in_use, reserved = cuda.memory_allocated(), cuda.memory_reserved()
        tensor = taken(size)
        block, segment = cuda.memory_allocated() - in_use, cuda.memory_reserved() - reserved
        del tensor
        numbers[f"bytes of the block, of the segment for {size:,} bytes"] = block, segment
        if size < MIB and block != _next(size, 512):
            small.append(size)
        if size > MIB and block != _next(size, 2 * MIB):
            large.append(f"the block for {size:,} bytes has {block:,}")
        if size > 10 * MIB and segment != _next(size, 2 * MIB):
            given.append(size)
    if small or (large and given):
        return refuted("sizes are rounded otherwise", numbers, numbers)
    return holds("small blocks are rounded to 512 B", numbers, large)


def _next(size: int, unit: int) -> int:
    """The next multiple of `unit`."""
    return -(-size // unit) * unit


@claim(
    "freeing a tensor does not return memory to the driver; empty_cache does; it does not "
    "shrink what is in use",
    "003 §12.2 Mechanism; 003 §12.3 empty_cache",
    needs="cuda",
)
def free_keeps(device: Hardware) -> Answer:
    """What the allocator holds, and what the driver got, when 256 MiB are freed, then returned.

    The same of a tensor of 5 MiB that shares a segment with three others, which are freed. Refuted
    unless memory stays until empty_cache, and what is in use after it. Of the driver's own count
    half counts, as other processes change it, too.

    import torch
    from torch import cuda
    x = torch.empty(2**28, dtype=torch.uint8, device="cuda")
    print(cuda.memory_allocated(), cuda.memory_reserved())
    del x
    print(cuda.memory_allocated(), cuda.memory_reserved())
    cuda.empty_cache()
    print(cuda.memory_allocated(), cuda.memory_reserved())
    """
    size, shared = 256 * MIB, 5 * MIB
    cuda.empty_cache()
    empty = cuda.memory_reserved()
    tensor, driver = taken(size), cuda.mem_get_info()[0]
    del tensor
    kept, early = cuda.memory_reserved() - empty, cuda.mem_get_info()[0] - driver
    cuda.empty_cache()
    left, late = cuda.memory_reserved() - empty, cuda.mem_get_info()[0] - driver
    used = [taken(shared).fill_(7) for _ in range(4)][1]
    cuda.empty_cache()
    held = cuda.memory_reserved() - empty  # before the comparison takes memory, too
    intact = bool((used == 7).all())
    numbers = {
        "bytes still reserved once it is freed": kept,
        "bytes given back by then, by the driver's count": early,
        "bytes still reserved after empty_cache": left,
        "bytes given back after that, by the driver's count": late,
        "bytes reserved for a tensor in use after empty_cache": held,
        "that tensor keeps its elements": intact,
    }
    if kept < size or 2 * early > size or held < shared or not intact:
        return refuted("memory is given back too early", numbers, numbers)
    if left > 0 or 2 * late < size:
        return refuted("empty_cache does not give it back", numbers, numbers)
    return holds("memory stays until empty_cache, what is in use longer", numbers)


@claim(
    "a block freed on one stream is not reused on another until events confirm",
    "003 §12.2 Mechanism",
    needs="cuda",
)
def stream_reuse(device: Hardware) -> Answer:
    """Addresses of tensors of one size, taken and freed on two streams, with one kept busy.

    Then of a block that the second stream uses, too, which record_stream is told. Refuted if a
    stream gets the block while another is busy with it, undecided if none was busy or a stream does
    not get its own block again. A limit if it does not once all work is done.

    import torch
    from torch import cuda
    one, other = cuda.Stream(), cuda.Stream()
    with cuda.stream(one):
        address = torch.empty(2**25, device="cuda").data_ptr()
    cuda.synchronize()
    for stream in (other, one):
        with cuda.stream(stream):
            print(torch.empty(2**25, device="cuda").data_ptr() == address)
    """
    assert isinstance(device, Cuda)
    one, other = device.stream(), device.stream()
    with device.on(one):
        address = taken(BLOCK).data_ptr()
        own = taken(BLOCK).data_ptr() == address
        device.hold(BUSY_S)
        end = device.mark()
    asking = {"another stream": _ask(device, other, end, address)}
    with device.on(one):
        used = taken(BLOCK)
    address = used.data_ptr()
    with device.on(other):
        device.hold(BUSY_S)
        used.record_stream(other)
        end = device.mark()
    del used
    asking["its own, after record_stream"] = _ask(device, one, end, address)
    numbers: dict[str, object] = {"a freed block is used again on its stream": own}
    for who, (busy, meanwhile, afterwards) in asking.items():
        numbers |= {f"{who}: work goes on": busy, f"{who}: gets the block then": meanwhile}
        numbers[f"{who}: gets it once all is done"] = afterwards
    if not own or not all(busy for busy, _, _ in asking.values()):
        return undecided("no stream was busy, or none gets its own block again", numbers)
    if any(meanwhile for _, meanwhile, _ in asking.values()):
        return refuted("a stream gets a block that another is busy with", numbers, numbers)
    limits = [f"{who}: not once all is done, either" for who, got in asking.items() if not got[2]]
    return holds("no stream gets a block that another is busy with", numbers, limits)


def _ask(device: Cuda, stream: CudaStream, end: Mark, address: int) -> tuple[bool, bool, bool]:
    """Whether work goes on when `stream` asks, it gets the block then, and later."""
    with device.on(stream):
        meanwhile = taken(BLOCK)
        busy = not end.reached()
        device.synchronize()
        afterwards = taken(BLOCK)  # beside the block that this stream has by now
    return busy, meanwhile.data_ptr() == address, afterwards.data_ptr() == address


@claim(
    "a cache in pieces fails a request smaller than its sum; expandable segments mend it",
    "003 §12.5 Fragmentation; 003 Exercise 5",
    needs="cuda",
)
def fragmentation(device: Hardware) -> Answer:
    """A request of 400 MiB to a cache of five segments of 200 MiB, when the driver has none.

    Undecided unless it is served with nothing in use. Refuted if it is with 40 MiB in use in each
    segment, or is not then with expandable ones. A limit if these do not serve it with 5 MiB in use
    of every 20, the size of their pages.

    import torch
    from torch import cuda
    make = lambda mib: torch.empty(mib * 2**20, dtype=torch.uint8, device="cuda")
    wholes = [make(200) for _ in range(5)]
    wholes.clear()
    kept = [make(40) for _ in range(25)][::5]
    cuda.set_per_process_memory_fraction(2**30 / cuda.mem_get_info()[1])
    try: make(400)
    except torch.OutOfMemoryError: print(cuda.memory_reserved() - cuda.memory_allocated())
    """
    allocator = CudaAllocator(cuda.current_device())
    whole, _ = _serve(allocator, expandable=False, piece=40 * MIB, used=slice(0))
    pieces, free = _serve(allocator, expandable=False, piece=40 * MIB, used=slice(None, None, 5))
    coarse, _ = _serve(allocator, expandable=True, piece=40 * MIB, used=slice(None, None, 5))
    fine, _ = _serve(allocator, expandable=True, piece=5 * MIB, used=slice(None, None, 4))
    numbers = {
        "served by a whole cache": whole,
        "served by a cache in pieces": pieces,
        "bytes free in that": free,
        "served by expandable segments": coarse,
        "served by expandable segments in finer pieces": fine,
    }
    if not whole or free < 400 * MIB:
        return undecided("a whole cache does not serve it, or too little is free", numbers)
    if pieces or not coarse:
        return refuted("it is served in pieces, or not by expandable segments", numbers, numbers)
    limits = [] if fine else ["expandable segments: not of 15 MiB each"]
    return holds("it fails in pieces, not with expandable segments", numbers, limits)


def _serve(allocator: CudaAllocator, expandable: bool, piece: int, used: slice) -> tuple[bool, int]:
    """Whether a cache whose pieces are free but for `used` serves it, and the bytes free there."""
    with allocator.expandable_segments(expandable):
        wholes = [taken(200 * MIB) for _ in range(5)]
        wholes.clear()
        kept = [taken(piece) for _ in range(1000 * MIB // piece)][used]
        if expandable and not allocator.expandable_bytes():
            raise RuntimeError("this driver has no expandable segments")
        free = cuda.memory_reserved() - sum(tensor.nbytes for tensor in kept)
        with allocator.reserving_at_most(2 * MIB):
            try:
                taken(400 * MIB)
            except torch.OutOfMemoryError:
                return False, free
    return True, free


@claim(
    "tensors created while a CUDA graph is captured stay valid over replays, in a private pool;"
    " static inputs from outside must be kept alive by the user",
    "001",
    needs="cuda",
)
def capture_alloc_safe(device: Hardware) -> Answer:
    """Five replays of a captured step that makes tensors, while others are made and held.

    Refuted unless all are right, change no other tensor, and have memory of their own. Then one
    whose input is freed, and its memory taken by another tensor: refuted if the result stays,
    undecided if nobody takes it. An output that the next replay overwrites is a limit.

    import torch
    from torch import cuda
    x, g = torch.full((2**20,), 3.0, device="cuda"), cuda.CUDAGraph()
    with cuda.graph(g):
        y = x * 2 + torch.ones_like(x)
    del x
    others = [torch.full((2**20,), 7.0, device="cuda") for _ in range(8)]
    g.replay()
    print(y[0].item())
    """
    x = _full(0.0)
    replay: Any = device.capture(partial(_step, x))
    pools = device.allocator.pools()
    valid = True
    for value in range(5):
        others = [_full(-1.0) for _ in range(32)]
        x.fill_(value)
        valid &= torch.equal(replay(), _step(x)) and all(bool((y == -1).all()) for y in others)
    output, earlier = replay(), replay().clone()
    x.fill_(1)
    replay()
    stays = torch.equal(output, earlier)
    taken, before, after = _free_input(device)
    numbers = {
        "replays are right and change no other tensor": valid,
        "bytes reserved for graphs alone": pools.graph_pool_bytes,
        "of those, bytes of tensors made while capturing": pools.graph_pool_live_bytes,
        "an output keeps its values over the next replay": stays,
        "twice the input of 3": before,
        "the same, once the input is freed and overwritten by 7": after,
    }
    if not valid or not pools.graph_pool_live_bytes:
        return refuted("a replay is wrong, or has no memory of its own", numbers, numbers)
    if taken and after == before:
        return refuted("a freed input is kept alive", numbers, numbers)
    if not taken or after != 14.0:
        return undecided("no other tensor got the memory of the freed input", numbers)
    limits = [] if stays else ["an output is overwritten by the next replay"]
    return holds("replays are right, and a freed input is not kept alive", numbers, limits)


def _full(value: float) -> Tensor:
    return torch.full((2**20,), value, device="cuda")


def _step(x: Tensor) -> Tensor:
    """Makes several tensors, of which all but the last are gone by its end."""
    inner = torch.arange(len(x), device=x.device, dtype=torch.float32)
    return (x + inner).mul(2) + torch.ones_like(x)


def _free_input(device: Hardware) -> tuple[bool, float, float]:
    """Whether another tensor took its memory, and twice the input before and after that."""
    device.allocator.release_unused()  # so that there are fewer free blocks than others
    held = [_full(3.0)]
    address = held[0].data_ptr()
    replay: Any = device.capture(lambda: held[0] * 2)
    before = float(replay()[0])
    held.clear()
    gc.collect()
    others = [_full(7.0) for _ in range(32)]
    return any(y.data_ptr() == address for y in others), before, float(replay()[0])


@claim(
    '"self CPU far above self CUDA, kernels short" marks launch-bound work that CUDA graphs '
    "speed up",
    "003 §13.3",
    needs="cuda",
    timed=True,
)
def profiler_launch_bound(device: Hardware) -> Answer:
    """Speedup by a CUDA graph, and self CPU and self CUDA by torch's profiler, of eight layers.

    Work is marked if self CPU is twice self CUDA or more and kernels take 10 µs or less. Holds if
    all marked work is sped up by over 1 %, undecided if none is marked.

    import torch
    from modescope.bench.tools.claims.cuda import forward, profiled
    from modescope.bench.devices.cuda import find
    device = find("cuda")
    for side in (64, 4096):
        cpu_s, cuda_s, kernel_s = profiled(forward(side, device), device)
        print(side, "self CPU above twice self CUDA:", cpu_s > 2 * cuda_s)
    """
    steps = {f"{side} wide": forward(side, device) for side in (64, 256, 1024, 4096)}
    # All timing comes first: what a profiler attaches to the driver may stay there.
    gains = {width: speedup(device.capture(step), step, device) for width, step in steps.items()}
    numbers: dict[str, object] = {f"times as fast, {width}": gains[width] for width in gains}
    marked = {}
    for width, step in steps.items():
        cpu_s, cuda_s, kernel_s = profiled(step, device)
        numbers[f"µs of self CPU, {width}"] = 1e6 * cpu_s
        numbers[f"µs of self CUDA, {width}"] = 1e6 * cuda_s
        numbers[f"µs of a kernel in the mean, {width}"] = 1e6 * kernel_s
        if cpu_s >= 2 * cuda_s and kernel_s <= 10e-6:
            marked[f"times as fast, {width}, marked"] = gains[width]
    return in_range(marked, 1 + MARGIN, math.inf, numbers)


def forward(side: int, device: Hardware) -> Step:
    """Eight layers on a square of `side`, without gradients."""
    x, weight = (torch.randn(side, side, device=device.torch_device) for _ in range(2))
    weight /= side**0.5

    def step() -> Tensor:
        y = x
        for _ in range(8):
            y = functional.layer_norm(functional.gelu(torch.mm(y, weight) + 1), (side,))
        return y

    return step


def profiled(step: Step, device: Hardware, count: int = 10) -> tuple[float, float, float]:
    """Seconds of self CPU and self CUDA of a call, and of one of its kernels in the mean."""
    for _ in range(3):
        step()
    device.synchronize()
    with torch.profiler.profile(activities=list(device.activities)) as profiler:
        for _ in range(count):
            step()
        device.synchronize()
    rows: Any = profiler.key_averages()
    kernels = [r for r in rows if r.device_type.name == "CUDA" and not r.is_user_annotation]
    # Other rows of the CPU are waits for the device and the profiler's own buffers.
    own = ("aten::", "cudaLaunch", "cuLaunch")
    cpu_s = sum(row.self_cpu_time_total for row in rows if row.key.startswith(own)) * 1e-6
    cuda_s = sum(row.self_device_time_total for row in kernels) * 1e-6
    return cpu_s / count, cuda_s / count, cuda_s / max(1, sum(row.count for row in kernels))
