"""Claims on a GPU: each that needs one is decided, and the monitor counts its memory."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from modescope.bench.allocations import watch_allocations
from modescope.bench.devices.cuda_allocator import CudaAllocator
from modescope.bench.records.outcomes import Status
from modescope.bench.tools.claims.check import CLAIMS, check
from modescope.bench.tools.claims.claim import HOLDS, REFUTED, UNDECIDED, WITHIN_LIMITS

pytestmark = pytest.mark.cuda

ON_CUDA = [
    pytest.param(id, marks=[pytest.mark.full] if "clock" in claim.needs else [])
    for id, claim in CLAIMS.items()
    if "cuda" in claim.needs
]
BLOCK_BYTES = 512
MIB = 2**20

EXPECTED = {
    "empty-strided-cuda": REFUTED,
    "cache-rounding": HOLDS,
    "free-keeps": HOLDS,
    "stream-reuse": HOLDS,
    "fragmentation": HOLDS,
    "capture-alloc-safe": HOLDS,
    "custom-op-opaque": HOLDS,
    "fused-pointwise": WITHIN_LIMITS,
}
"""The allocator, CUDA graphs and Inductor as they are written; not yet seen on a GPU."""


@pytest.mark.parametrize("id", ON_CUDA)
def test_every_claim_is_decided_on_a_gpu(id: str, tmp_path: Path) -> None:
    claim = CLAIMS[id]
    row, numbers = check(claim, "cuda", tmp_path / "log")
    assert (row.status, row.reason, row.tested_on) == (Status.OK, None, "cuda")
    assert row.printed
    assert numbers
    if "clock" not in claim.needs:  # durations may lie on a bound
        assert row.verdict != UNDECIDED
    assert row.verdict == EXPECTED.get(id, row.verdict), row


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
