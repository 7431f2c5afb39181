"""A small disk, which can be filled and made read-only. Needs root."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
import time
from pathlib import Path

SIZE_MB = 24

MS_RDONLY, MS_REMOUNT, MS_PRIVATE, MS_REC, MNT_DETACH = 1, 32, 1 << 18, 1 << 14, 2
CLONE_NEWNS = 0x00020000

BUSY_S = 5.0
"""Longest wait for a moment in which no file is open for writing."""


def own_mounts() -> str | None:
    """Gives this process its own list of mounts, which ends with it; else the reason why not."""
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid():
        return "needs root"
    if sys.platform != "linux" or libc.unshare(CLONE_NEWNS):
        return "mounts of its own are not allowed here"
    if libc.mount(b"none", b"/", None, MS_PRIVATE | MS_REC, None):
        return "mounts cannot be made private here"
    return None


def mount(folder: Path) -> None:
    """An empty disk."""
    _mount(b"none", folder, 0, f"size={SIZE_MB}m")


def unmount(folder: Path) -> None:
    """Takes it away."""
    ctypes.CDLL(None).umount2(os.fsencode(folder), MNT_DETACH)


def read_only(folder: Path) -> bool:
    """Whether it could be made read-only, at a moment in which nothing was open for writing."""
    deadline = time.monotonic() + BUSY_S
    while time.monotonic() < deadline:
        try:
            _mount(b"none", folder, MS_REMOUNT | MS_RDONLY, None)
            return True
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            time.sleep(0.001)
    return False


def writable(folder: Path) -> None:
    """Makes it writable again."""
    _mount(b"none", folder, MS_REMOUNT, None)


def fill(folder: Path) -> None:
    """Leaves no space for another byte."""
    with (folder / "ballast").open("ab", buffering=0) as file:
        try:
            for size in (1 << 20, 1 << 12):
                while True:
                    try:
                        file.write(bytes(size))
                    except OSError:
                        if size == 1 << 12:
                            raise
                        break
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise


def empty(folder: Path) -> None:
    """Gives the space back."""
    (folder / "ballast").unlink(missing_ok=True)


def _mount(source: bytes, folder: Path, flags: int, options: str | None) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    data = options.encode() if options else None
    if libc.mount(source, os.fsencode(folder), b"tmpfs", ctypes.c_ulong(flags), data):
        raise OSError(ctypes.get_errno(), f"mount {folder}")
