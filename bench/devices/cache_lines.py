"""Evicts memory from a CPU's caches, line by line, with a function compiled on first use."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

from modescope.bench.devices import processor

LARGE_BYTES = 2**26
"""Taken for the size of a last-level cache whose size is unknown."""

SIZES = Path("/sys/devices/system/cpu/cpu0/cache")

EVICTS = {"x86_64": ("clflushopt", "-mclflushopt"), "aarch64": ("dc civac", "-march=armv8-a")}
"""Architecture -> the instruction that evicts a line from all caches (Intel SDM, Arm ARM), and the
compiler's option for it. Linux lets user programs use both."""

SOURCE = r"""
#include <stddef.h>
#include <stdint.h>
#define LINE 64
#if defined(__x86_64__)
#include <immintrin.h>
#define EVICT(line) _mm_clflushopt((void *)(line))
#define DONE() _mm_mfence()
#else
#define EVICT(line) __asm__ volatile("dc civac, %0" ::"r"(line) : "memory")
#define DONE() __asm__ volatile("dsb ish" ::: "memory")
#endif
void evict(const uintptr_t *begins, const size_t *sizes, size_t ranges) {
  for (size_t i = 0; i < ranges; i++) {
    uintptr_t end = begins[i] + sizes[i];
    for (uintptr_t line = begins[i] / LINE * LINE; line < end; line += LINE) EVICT(line);
  }
  DONE();
}
uint8_t read_lines(const uintptr_t *begins, const size_t *sizes, size_t ranges) {
  uint8_t sum = 0;
  for (size_t i = 0; i < ranges; i++)
    for (size_t at = 0; at < sizes[i]; at += LINE) sum += *(volatile uint8_t *)(begins[i] + at);
  return sum;
}
"""


@dataclass(frozen=True)
class Functions:
    """The instruction that evicts a line, and functions of C that evict and read ranges once."""

    instruction: str
    evict: Callable[..., object]
    read: Callable[..., object]


@cache
def functions() -> Functions | None:
    """Compiles the functions. None if the instruction is unknown, or there is no compiler of C."""
    known = EVICTS.get(platform.machine())
    compilers = map(shutil.which, (os.environ.get("CC", "cc"), "gcc", "clang"))
    compiler = next(filter(None, compilers), None)
    if known is None or compiler is None:
        return None
    if platform.machine() == "x86_64" and known[0] not in processor.flags():
        return None
    with tempfile.TemporaryDirectory() as folder:
        library = str(Path(folder) / "cache_lines.so")
        command = [compiler, "-O2", known[1], "-shared", "-fPIC", "-x", "c", "-", "-o", library]
        try:
            subprocess.run(command, input=SOURCE, text=True, capture_output=True, check=True)
            loaded = ctypes.CDLL(library)
        except (OSError, subprocess.CalledProcessError):
            return None
    return Functions(known[0], loaded.evict, loaded.read_lines)


class Lines:
    """The cache lines of some tensors, wherever these lie when `locate` is called."""

    def __init__(self, functions: Functions, tensors: Sequence[torch.Tensor]) -> None:
        self._functions, self._tensors = functions, tensors
        self.locate()

    def locate(self) -> None:
        """Finds the memory of the tensors, which is kept until the next time.

        A call may give it up (`weight.data = ...`), and evicting lines of memory that was freed
        ends the process.
        """
        self._kept = [tensor.untyped_storage() for tensor in self._tensors]
        ranges = {storage.data_ptr(): storage.nbytes() for storage in self._kept}
        array = ctypes.c_size_t * len(ranges)
        self._ranges = array(*ranges), array(*ranges.values()), ctypes.c_size_t(len(ranges))

    def evict(self) -> None:
        """Evicts all lines."""
        self._functions.evict(*self._ranges)

    def read(self) -> None:
        """Reads a byte of each line."""
        self._functions.read(*self._ranges)


def sizes_bytes(folder: Path = SIZES) -> tuple[int | None, int | None]:
    """Returns the sizes of a core's second-level cache and of its last level; None: unknown."""
    sizes: dict[int, int] = {}
    for index in folder.glob("index*"):
        try:
            level, kind, size = (
                (index / name).read_text().strip() for name in ("level", "type", "size")
            )
        except OSError:
            continue
        if kind != "Instruction" and size.endswith("K"):
            sizes[int(level)] = int(size[:-1]) * 1024
    return sizes.get(2), sizes[max(sizes)] if sizes else None
