"""What tests on a GPU share."""

from __future__ import annotations

import gc

import pytest
import torch


@pytest.fixture
def no_pools() -> None:
    """Drops what graphs of earlier tests left reserved.

    The workspace that cuBLAS took during a capture lies in that graph's pool and outlives the graph
    (github.com/pytorch/pytorch/issues/193832).
    """
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
