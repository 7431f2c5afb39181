"""Claims on a GPU: each that needs one is decided, and the monitor counts its memory."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from modescope.bench.allocations import watch_allocations
from modescope.bench.devices.cuda_allocator import CudaAllocator
from modescope.bench.tools.claims.checking import CLAIMS, OK, check, lacking
from modescope.bench.tools.claims.claim import HOLDS, REFUTED, UNDECIDED, WITHIN_LIMITS

pytestmark = pytest.mark.cuda

HERE = ["cpu", "cuda"]
ON_CUDA = [
    pytest.param(id, marks=[pytest.mark.full] if claim.timed else [])
    for id, claim in CLAIMS.items()
    if "cuda" in claim.devices
]
BLOCK_BYTES = 512
MIB = 2**20


@pytest.mark.parametrize("id", ON_CUDA)
def test_every_claim_is_decided_on_a_gpu(id: str, tmp_path: Path) -> None:
    """On the GPU alone: what a CPU says to them is tested without one."""
    claim = CLAIMS[id]
    missing = lacking(claim, ["cuda"])
    if missing:
        pytest.skip(missing)
    answer, numbers = check(claim, ["cuda"], tmp_path)
    assert (answer.status, answer.reason) == (OK, None)
    assert answer.printed
    assert answer.devices == ("cuda",)
    assert {number.checked_on for number in numbers} == {"cuda"}
    if not claim.timed:  # durations may lie on a bound
        assert answer.verdict != UNDECIDED


def test_empty_strided_works_on_cuda(tmp_path: Path) -> None:
    answer, _ = check(CLAIMS["empty-strided-cuda"], HERE, tmp_path)
    assert answer.verdict == REFUTED
    assert answer.printed == "cuda:0 (2, 1)\n"


@pytest.mark.parametrize(
    ("id", "verdict"),
    [
        ("cache-rounding", WITHIN_LIMITS),
        ("free-keeps", HOLDS),
        ("stream-reuse", WITHIN_LIMITS),
        ("fragmentation", WITHIN_LIMITS),
        ("capture-alloc-safe", WITHIN_LIMITS),
        ("custom-op-opaque", WITHIN_LIMITS),
    ],
)
def test_torch_behaves_as_the_claims_describe(id: str, verdict: str, tmp_path: Path) -> None:
    """The allocator, CUDA graphs and Inductor as they are written; not yet seen on a GPU."""
    answer, _ = check(CLAIMS[id], HERE, tmp_path)
    assert answer.verdict == verdict, answer


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
    before = allocator.driver_free_bytes()
    allocator.release_unused()
    assert allocator.driver_free_bytes() > before


def test_the_monitor_counts_blocks() -> None:
    with watch_allocations("two small ones", "cuda", None) as seen:
        kept = torch.empty(1, device="cuda")
        torch.empty(BLOCK_BYTES + 1, dtype=torch.uint8, device="cuda")
    assert (seen.allocations, seen.allocated_bytes) == (2, 3 * BLOCK_BYTES)
    assert (seen.freed_bytes, seen.left_bytes) == (2 * BLOCK_BYTES, BLOCK_BYTES)
    assert seen.peak_bytes == 3 * BLOCK_BYTES
    del kept


def test_the_monitor_counts_copies_but_not_views() -> None:
    x = torch.ones(1024, 1024, device="cuda")
    with watch_allocations("a view", "cuda", None) as view:
        x.T.view(1024, 2, 512)
    with watch_allocations("a copy", "cuda", None) as copy:
        y = x.T.contiguous()
    assert (view.allocations, copy.left_bytes) == (0, x.nbytes)
    assert y.shape == x.shape
