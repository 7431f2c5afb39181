"""The GPUs of this machine, without torch."""

from __future__ import annotations

import importlib
import os
import subprocess
from collections.abc import Sequence
from typing import Any

from modescope.bench.records.errors import UsageError

ALL = "all"


def chosen(option: Any) -> list[str]:
    """The GPUs that `cluster.gpus` names: UUIDs, or numbers where no UUID is known."""
    known = _visible()
    if option is None:
        return []
    if option == ALL:
        if not known:
            raise UsageError(
                "cluster.gpus=all: neither NVML nor nvidia-smi finds a GPU here, or "
                "CUDA_VISIBLE_DEVICES hides all; name them, as in cluster.gpus=[0,1], or "
                "use device=cpu without it"
            )
        return known
    named = option if isinstance(option, list) else [option]
    gpus = [_one(str(each), known) for each in named]
    for gpu in gpus:
        if gpus.count(gpu) > 1:
            raise UsageError(f"cluster.gpus: {gpu} is named twice; name each GPU once")
    return gpus


def _one(name: str, known: list[str]) -> str:
    if not known:
        return name
    if name.isdecimal() and int(name) < len(known):
        return known[int(name)]
    if name not in known:
        raise UsageError(
            f"cluster.gpus: {name} is not here; there are {len(known)}: {', '.join(known)}"
        )
    return name


def _visible() -> list[str]:
    """UUIDs of the GPUs that this process may use; none where nothing tells."""
    uuids = _by_nvml() or _by_nvidia_smi()
    variable = os.environ.get("CUDA_VISIBLE_DEVICES")
    if variable is None or not uuids:
        return uuids
    found: list[str] = []
    for word in variable.split(","):
        gpu = _named(word.strip(), uuids)
        if gpu is None:
            break  # CUDA ignores the rest, too
        found.append(gpu)
    return found


def _named(word: str, uuids: Sequence[str]) -> str | None:
    """The GPU that a word of CUDA_VISIBLE_DEVICES names; None where it names none, as -1 does."""
    if word.isdecimal():
        return uuids[int(word)] if int(word) < len(uuids) else None
    return word if word.startswith(("GPU-", "MIG-")) else None


def _by_nvml() -> list[str]:
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
        handles = map(nvml.nvmlDeviceGetHandleByIndex, range(nvml.nvmlDeviceGetCount()))
        return [str(nvml.nvmlDeviceGetUUID(handle)) for handle in handles]
    except Exception:  # an optional library, and a driver that may be missing
        return []


def _by_nvidia_smi() -> list[str]:
    command = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]
