"""Claims about CUDA's caching allocator and about CUDA graphs."""

from __future__ import annotations

import gc
import math
from typing import Any

import torch
from torch import Tensor, cuda
from torch.nn import functional

from modescope.bench.devices.cuda import Cuda, CudaStream
from modescope.bench.devices.cuda_allocator import CudaAllocator
from modescope.bench.devices.devices import Hardware, Mark, Step
from modescope.bench.stats.estimates import MARGIN
from modescope.bench.tools.claims.claim import Answer, claim, holds, in_range, refuted, undecided
from modescope.bench.tools.claims.measuring import refusal, speedup

MIB = 2**20


def allocate(size: int) -> Tensor:
    """Returns a tensor of `size` bytes on the current GPU."""
    return torch.empty(size, dtype=torch.uint8, device="cuda")


@claim(
    "the caching allocator rounds small requests to 512 B and large ones to 2 MiB",
    "003 §12.2 Mechanism",
    "cuda",
)
def cache_rounding(device: Hardware) -> Answer:
    """Bytes allocated for requests below 1 MiB, reserved for 10 MiB or more, in an empty cache.

    import torch
    from torch import cuda
    for size in (1, 513, 3 * 2**20, 33 * 2**20):
        cuda.empty_cache()
        x = torch.empty(size, dtype=torch.uint8, device="cuda")
        print(size, cuda.memory_allocated(), cuda.memory_reserved())
        del x
    """
    numbers, wrong = {}, {}
    for size in (1, 513, 100_001, MIB - 1, 10 * MIB + 1, 33 * MIB, 101 * MIB):
        unit, count = (
            (512, cuda.memory_allocated) if size < MIB else (2 * MIB, cuda.memory_reserved)
        )
        cuda.empty_cache()
        before = count()
        tensor = allocate(size)
        numbers[f"for {size:,} bytes"] = given = count() - before
        del tensor
        if given != -(-size // unit) * unit:
            wrong[f"for {size:,} bytes"] = given
    if wrong:
        return refuted("some are rounded otherwise", numbers, wrong)
    return holds("small blocks are rounded to 512 B, large segments to 2 MiB", numbers)


@claim(
    "freeing a tensor does not return memory to the driver; empty_cache does; it does not "
    "shrink what is in use",
    "003 §12.2 Mechanism; 003 §12.3 empty_cache",
    "cuda",
)
def free_keeps(device: Hardware) -> Answer:
    """What the allocator keeps, and the driver gets back, once 256 MiB are freed.

    Read before and after empty_cache. Half of it decides for the driver's count, which other
    processes change. Also whether a segment stays reserved while one of its tensors is in use.

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
    tensor, driver = allocate(size), cuda.mem_get_info()[0]
    del tensor
    kept, early = cuda.memory_reserved() - empty, cuda.mem_get_info()[0] - driver
    cuda.empty_cache()
    left, late = cuda.memory_reserved() - empty, cuda.mem_get_info()[0] - driver
    used = [allocate(shared).fill_(7) for _ in range(4)][1]
    cuda.empty_cache()
    held = cuda.memory_reserved() - empty
    numbers = {
        "bytes still reserved once it is freed": kept,
        "bytes given back by then, by the driver's count": early,
        "bytes still reserved after empty_cache": left,
        "bytes given back after that, by the driver's count": late,
        "bytes reserved for a tensor in use after empty_cache": held,
    }
    if kept < size or 2 * early > size or held < shared or not bool((used == 7).all()):
        return refuted("memory is given back too early", numbers)
    if left > 0 or 2 * late < size:
        return refuted("empty_cache does not give it back", numbers)
    return holds("memory stays until empty_cache, what is in use longer", numbers)


@claim(
    "a block freed on one stream is not reused on another until events confirm",
    "003 §12.2 Mechanism",
    "cuda",
)
def stream_reuse(device: Hardware) -> Answer:
    """Whether a stream gets a block that was freed on a busy stream.

    Also whether a stream gets its own block back while a busy stream uses it (record_stream).
    Undecided if no stream was busy.

    import torch
    from torch import cuda
    first, second = cuda.Stream(), cuda.Stream()
    with cuda.stream(first):
        address = torch.empty(2**25, device="cuda").data_ptr()
    cuda.synchronize()
    for stream in (second, first):
        with cuda.stream(stream):
            print(torch.empty(2**25, device="cuda").data_ptr() == address)
    """
    assert isinstance(device, Cuda)
    first, second = device.stream(), device.stream()

    def address_on(stream: CudaStream) -> int:
        with device.on(stream):
            return allocate(32 * MIB).data_ptr()

    def work_on(stream: CudaStream) -> Mark:
        with device.on(stream):
            device.hold(0.3)  # s, far longer than the few calls that are made meanwhile
            return device.mark()

    freed = address_on(first)
    own, end = address_on(first) == freed, work_on(first)
    numbers = {"another stream gets the block": address_on(second) == freed}
    busy = not end.reached()
    device.synchronize()
    with device.on(first):
        used = allocate(32 * MIB)
    recorded, end = used.data_ptr(), work_on(second)
    used.record_stream(second)
    del used
    numbers["its own stream gets it after record_stream"] = address_on(first) == recorded
    busy = busy and not end.reached()
    if any(numbers.values()) and busy:
        return refuted("a stream gets a block that another is busy with", numbers)
    numbers |= {"streams are busy meanwhile": busy, "a stream gets its own block again": own}
    if not busy or not own:
        return undecided("no stream was busy, or none gets its own block again", numbers)
    return holds("no stream gets a block that another is busy with", numbers)


@claim(
    "a cache in pieces fails a request smaller than its sum; expandable segments mend it",
    "003 §12.5 Fragmentation; 003 Exercise 5",
    "cuda",
)
def fragmentation(device: Hardware) -> Answer:
    """Whether five cached segments of 200 MiB serve 400 MiB when the driver has none left.

    Tried with nothing in use, with 40 MiB used in each segment, and then with expandable segments.

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
    allocator, numbers = CudaAllocator(cuda.current_device()), {}
    for name, used, expandable in (
        ("a whole cache", slice(0), False),
        ("a cache in pieces", slice(None, None, 5), False),
        ("expandable segments in pieces", slice(None, None, 5), True),
    ):
        with allocator.expandable_segments(expandable):
            wholes = [allocate(200 * MIB) for _ in range(5)]
            wholes.clear()
            kept = [allocate(40 * MIB) for _ in range(25)][used]
            with allocator.limit_reserved(2 * MIB):
                numbers[f"{name} serves it"] = refusal(lambda: allocate(400 * MIB)) is None
            expands = allocator.expandable_bytes() > 0
            kept.clear()
    whole, pieces, expanded = numbers.values()
    if not whole or not expands:
        return undecided("a whole cache does not serve it, or segments do not expand", numbers)
    if pieces or not expanded:
        return refuted("it is served in pieces, or not by expandable segments", numbers)
    return holds("it fails in pieces, not with expandable segments", numbers)


@claim(
    "tensors created while a CUDA graph is captured stay valid over replays, in a private pool;"
    " static inputs from outside must be kept alive by the user",
    "001",
    "cuda",
)
def capture_alloc_safe(device: Hardware) -> Answer:
    """Five replays of a step that makes tensors, while other tensors are made.

    Then a replay with a freed input. Undecided if no other tensor takes the input's memory.

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

    def step() -> Tensor:
        inner = torch.arange(len(x), device="cuda", dtype=torch.float32)
        return (x + inner).mul(2) + torch.ones_like(x)

    x, right = _full(0.0), True
    replay: Any = device.capture(step)
    pool = device.allocator.pools().get("graph_pool_live_bytes")
    for value in range(5):
        others = [_full(-1.0) for _ in range(32)]
        x.fill_(value)
        right &= torch.equal(replay(), step()) and all(bool((y == -1).all()) for y in others)
    device.allocator.release_unused()  # so that there are fewer free blocks than others
    held = [_full(3.0)]
    address = held[0].data_ptr()
    replay = device.capture(lambda: held[0] * 2)
    before = float(replay()[0])
    held.clear()
    gc.collect()
    others = [_full(7.0) for _ in range(32)]
    reused, after = any(y.data_ptr() == address for y in others), float(replay()[0])
    numbers = {
        "replays are right and change no other tensor": right,
        "bytes of tensors in the graph's own memory": pool,
        "twice the input of 3": before,
        "the same, once the input is freed and overwritten by 7": after,
    }
    if not right or not pool or (reused and after == before):
        return refuted("a replay is wrong, or keeps a freed input", numbers)
    if not reused or after != 14.0:
        return undecided("no other tensor got the memory of the freed input", numbers)
    return holds("replays are right, and a freed input is not kept alive", numbers)


def _full(value: float) -> Tensor:
    return torch.full((2**20,), value, device="cuda")


@claim(
    '"self CPU far above self CUDA, kernels short" marks launch-bound work that CUDA graphs '
    "speed up",
    "003 §13.3",
    "cuda clock",
)
def profiler_launch_bound(device: Hardware) -> Answer:
    """Speedup of eight layers by a CUDA graph, and torch profiler's self CPU and self CUDA.

    A size is marked if self CPU is at least twice self CUDA and kernels take 10 µs or less. It is
    sped up if it gains over 1 %.

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
    """Returns a step of eight layers on a `side` × `side` matrix, without gradients."""
    x, weight = (torch.randn(side, side, device=device.torch_device) for _ in range(2))
    weight /= side**0.5

    def step() -> Tensor:
        y = x
        for _ in range(8):
            y = functional.layer_norm(functional.gelu(torch.mm(y, weight) + 1), (side,))
        return y

    return step


def profiled(step: Step, device: Hardware) -> tuple[float, float, float]:
    """Returns self CPU and self CUDA of a call, and the time of a kernel, by torch's profiler.

    All are in seconds. The last is the mean of all kernels.
    """
    for _ in range(3):
        step()
    device.synchronize()
    with torch.profiler.profile(activities=list(device.activities)) as profiler:
        for _ in range(10):
            step()
        device.synchronize()
    rows: Any = profiler.key_averages()
    kernels = [r for r in rows if r.device_type.name == "CUDA" and not r.is_user_annotation]
    # Other rows of the CPU are waits for the device and the profiler's own buffers.
    own = ("aten::", "cudaLaunch", "cuLaunch")
    cpu_s = sum(row.self_cpu_time_total for row in rows if row.key.startswith(own)) * 1e-6
    cuda_s = sum(row.self_device_time_total for row in kernels) * 1e-6
    return cpu_s / 10, cuda_s / 10, cuda_s / max(1, sum(row.count for row in kernels))
