"""Recognises errors that mean: not enough memory."""

from __future__ import annotations

import torch

TEXTS = (
    "can't allocate memory",
    "not enough memory",
    "out of memory",
    "_STATUS_ALLOC_FAILED",
)
"""Texts of plain RuntimeErrors of torch's CPU allocator, the CUDA driver, cuBLAS and cuDNN."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether `error` means that memory did not suffice."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in TEXTS)
