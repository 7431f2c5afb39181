"""The ceilings of a device, measured once for all studies and remembered in a file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from bench import contention, leftovers, processor
from bench.devices import Hardware
from bench.records import short_hash
from bench.roofline.ceilings import measure
from bench.roofline.floor import Ceilings

CONTENDED = (
    "the ceilings were measured while others used the machine, so they may be too low; the next "
    "run measures them again"
)


@dataclass(frozen=True)
class Measured:
    """Ceilings, and under what conditions they were measured."""

    ceilings: Ceilings
    measured_at: str  # ISO 8601, UTC
    torch_version: str
    contended: bool  # others had enough of the machine to be felt
    seen: dict[str, float | None]  # what that was decided on: `contention.Contention` and GPU users

    @property
    def note(self) -> str | None:
        """What to know before believing them; None where they are as good as can be had."""
        return CONTENDED if self.contended else None


def ceilings(device: Hardware, dtype: str, file: Path) -> Measured:
    """The device's ceilings at `dtype` (fp32, tf32, bf16, fp16): from `file`, or measured into it.

    What was measured while others used the machine is not remembered. Takes memory for a while: not
    while anything else is measured.
    """
    key = " | ".join((*_machine(device), dtype, _threads(device), f"torch {torch.__version__}"))
    known = _load(file)
    if key in known:
        return known[key]
    found = _measured(device, dtype)
    if not found.contended:
        _store(file, _load(file) | {key: found})  # others may have added to it in the meantime
    return found


def _measured(device: Hardware, dtype: str) -> Measured:
    device.allocator.release_unused()
    users, before = [device.other_processes()], contention.read()
    found = measure(device, dtype)
    seen = contention.between(before, contention.read())
    users.append(device.other_processes())
    device.allocator.release_unused()
    most = max((count for count in users if count is not None), default=None)
    return Measured(
        found,
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        torch_version=str(torch.__version__),
        contended=contention.contended(seen, most),
        seen={**asdict(seen), "gpu_processes": most},
    )


def _machine(device: Hardware) -> tuple[str, ...]:
    """The device's name; of a CPU, whose name may hide what it is, also a hash of its facts."""
    name = device.facts().name
    return (name, short_hash(asdict(processor.read()))) if device.type == "cpu" else (name,)


def _threads(device: Hardware) -> str:
    return f"{torch.get_num_threads()} thread(s)" if device.type == "cpu" else "whole device"


def _load(file: Path) -> dict[str, Measured]:
    """What the file knows; what cannot be read, or is not all there, is measured again."""
    try:
        entries = json.loads(file.read_text(encoding="utf-8")).items()
    except (OSError, ValueError, AttributeError):
        return {}
    found = {key: _entry(raw) for key, raw in entries}
    return {key: entry for key, entry in found.items() if entry is not None}


def _entry(raw: Any) -> Measured | None:
    try:
        ceilings = Ceilings(
            raw["flops_per_s"], tuple((size, rate) for size, rate in raw["transfers"])
        )
        about = {name: raw[name] for name in ("measured_at", "torch_version", "contended", "seen")}
    except (KeyError, TypeError, ValueError):
        return None
    return Measured(ceilings, **about)


def _store(file: Path, known: dict[str, Measured]) -> None:
    entries = {key: asdict(each.ceilings) | _about(each) for key, each in known.items()}
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = leftovers.partial(file)
    partial.write_text(json.dumps(entries, indent=1), encoding="utf-8")
    partial.replace(file)


def _about(measured: Measured) -> dict[str, Any]:
    return {name: value for name, value in asdict(measured).items() if name != "ceilings"}
