"""What tests on a GPU share."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
import torch

from modescope.bench.devices.cuda import find
from modescope.bench.devices.devices import Hardware


@pytest.fixture(scope="module")
def device() -> Hardware:
    return find("cuda")


@pytest.fixture
def fresh_compiler() -> Iterator[None]:
    """What this test compiles is forgotten at its end."""
    yield
    torch.compiler.reset()


@pytest.fixture(autouse=True)
def no_stray_graphs() -> None:
    """Destroys the graphs of earlier tests, some of which only the garbage collector finds.

    If it finds one during a capture, the capture fails (github.com/pytorch/pytorch/pull/161037).
    """
    gc.collect()


@pytest.fixture
def no_pools() -> None:
    """Drops what graphs of earlier tests left reserved.

    The workspace that cuBLAS took during a capture lies in that graph's pool and outlives the graph
    (github.com/pytorch/pytorch/issues/193832).
    """
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
