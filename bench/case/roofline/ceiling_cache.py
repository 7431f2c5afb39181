"""Measures the ceilings of a device once for all studies, and keeps them in a file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from modescope.bench.case.roofline.ceilings import measure
from modescope.bench.devices import processor
from modescope.bench.devices.devices import Hardware
from modescope.bench.records import files
from modescope.bench.records.cases import short_hash
from modescope.bench.stats import diagnostics
from modescope.bench.stats.roofline import Ceilings
from modescope.bench.timing import contention

CONTENDED = (
    "the ceilings were measured while other processes used the machine, so they may be too low; "
    "the next run measures them again"
)


@dataclass(frozen=True)
class Measured:
    """Ceilings, and the conditions in which they were measured."""

    ceilings: Ceilings
    measured_at: str  # ISO 8601, UTC
    torch_version: str
    contended: bool  # other processes used enough of the machine to slow it down
    seen: dict[str, float | None]  # the evidence for it: `columns.Contention` and GPU processes

    @property
    def note(self) -> str | None:
        """A warning about the ceilings; None where nothing disturbed the measurement."""
        return CONTENDED if self.contended else None


def ceilings(device: Hardware, dtype: str, file: Path) -> Measured:
    """The device's ceilings at `dtype` (fp32, tf32, bf16, fp16), from `file` or measured for it.

    Ceilings measured while others used the machine are not kept. Must not run while anything else
    is measured, because it needs memory.
    """
    key, known = _key(device, dtype), _load(file)
    if key in known:
        return known[key]
    measured = _measured(device, dtype)
    if not measured.contended:
        _store(file, _load(file) | {key: measured})  # others may have extended it meanwhile
    return measured


def _measured(device: Hardware, dtype: str) -> Measured:
    device.allocator.release_unused()
    users, before = [device.other_processes()], contention.read()
    rates = measure(device, dtype)
    seen = contention.between(before, contention.read())
    users.append(device.other_processes())
    device.allocator.release_unused()
    most = max((count for count in users if count is not None), default=None)
    return Measured(
        rates,
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        torch_version=str(torch.__version__),
        contended=diagnostics.contended(seen, most),
        seen={**asdict(seen), "gpu_processes": most},
    )


def _key(device: Hardware, dtype: str) -> str:
    """Names device, dtype and torch; for a CPU also a hash of its facts and the threads."""
    parts = [device.facts().name, dtype, "whole device"]
    if device.type == "cpu":
        hashed, threads = short_hash(asdict(processor.read())), torch.get_num_threads()
        parts = [device.facts().name, hashed, dtype, f"{threads} thread(s)"]
    return " | ".join([*parts, f"torch {torch.__version__}"])


def _load(file: Path) -> dict[str, Measured]:
    """The file's entries; unreadable and incomplete ones are left out."""
    try:
        entries = json.loads(file.read_text(encoding="utf-8")).items()
    except (OSError, ValueError, AttributeError):
        return {}
    return {key: entry for key, raw in entries if (entry := _entry(raw))}


def _entry(raw: Any) -> Measured | None:
    try:
        transfers = tuple((size, rate) for size, rate in raw["transfers"])
        about = (raw[name] for name in ("measured_at", "torch_version", "contended", "seen"))
        return Measured(Ceilings(raw["flops_per_s"], transfers), *about)
    except (KeyError, TypeError, ValueError):
        return None


def _store(file: Path, known: dict[str, Measured]) -> None:
    entries = {key: asdict(each) for key, each in known.items()}
    entries = {key: entry.pop("ceilings") | entry for key, entry in entries.items()}
    with files.atomic_write(file) as partial:
        partial.write_text(json.dumps(entries, indent=1), encoding="utf-8")
