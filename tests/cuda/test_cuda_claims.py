"""What claims and the monitor ask of the allocator of a GPU; `make claims` tests the claims."""

from __future__ import annotations

import pytest
import torch

from modescope.bench.allocations import watch_allocations
from modescope.bench.devices.cuda_allocator import CudaAllocator

pytestmark = pytest.mark.cuda

BLOCK_BYTES = 512
MIB = 2**20


def test_an_allocator_setting_ends_with_its_block() -> None:
    allocator = CudaAllocator(0)
    with allocator.expandable_segments(True):
        kept = torch.empty(32 * MIB, dtype=torch.uint8, device="cuda")
        assert allocator.expandable_bytes() >= kept.nbytes
        del kept
    kept = torch.empty(32 * MIB, dtype=torch.uint8, device="cuda")
    assert allocator.expandable_bytes() == 0
    del kept


def test_device_memory_can_be_limited() -> None:
    allocator = CudaAllocator(0)
    allocator.release_unused()
    with allocator.limit_reserved(64 * MIB):
        torch.empty(32 * MIB, dtype=torch.uint8, device="cuda")
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(128 * MIB, dtype=torch.uint8, device="cuda")
    torch.empty(128 * MIB, dtype=torch.uint8, device="cuda")
    before = torch.cuda.mem_get_info()[0]
    allocator.release_unused()
    assert torch.cuda.mem_get_info()[0] > before


def test_the_monitor_counts_blocks() -> None:
    with watch_allocations("two small ones", "cuda", None) as seen:
        kept = torch.empty(1, device="cuda")
        torch.empty(BLOCK_BYTES + 1, dtype=torch.uint8, device="cuda")
    assert (seen.allocations, seen.allocated_bytes) == (2, 3 * BLOCK_BYTES)
    assert (seen.freed_bytes, seen.left_bytes) == (2 * BLOCK_BYTES, BLOCK_BYTES)
    assert seen.peak_bytes == 3 * BLOCK_BYTES
    del kept
