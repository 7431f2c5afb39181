"""The host's CPU: what tells two machines apart whose CPUs have the same name."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import torch

from bench import contention, instruction_sets
from bench.cores import usable_cores, which_cores
from bench.records import Processor

CPUINFO = Path("/proc/cpuinfo")
CORES = Path("/sys/devices/system/cpu")

IDENTITY = {  # of x86, then of ARM
    "vendor_id": "{}",
    "cpu family": "family {}",
    "model": "model {}",
    "stepping": "stepping {}",
    "CPU implementer": "implementer {}",
    "CPU variant": "variant {}",
    "CPU part": "part {}",
    "CPU revision": "revision {}",
}
"""Lines of /proc/cpuinfo -> how they read in `cpu_model`."""


def read() -> Processor:
    """Facts of the CPU; None each where the system does not say."""
    core, described = _first_core(), _lscpu()
    flags = (core.get("flags") or core.get("Features") or "").split()
    highest, governors = _clock()
    return Processor(
        cpu_name=name(),
        cpu_model=" ".join(f.format(core[key]) for key, f in IDENTITY.items() if key in core)
        or None,
        cpu_capability=torch.backends.cpu.get_cpu_capability(),
        cpu_instructions=instruction_sets.of_flags(flags) if flags else None,
        cpu_cores=usable_cores(),
        cpu_quota_cores=contention.quota_cores(),
        cpu_max_hz=highest,
        cpu_boost=_boost(),
        cpu_governor=governors,
        cpu_microcode=core.get("microcode"),
        hypervisor=described.get("Hypervisor vendor") or _hypervisor(core),
    )


def name() -> str | None:
    """The model's name from /proc/cpuinfo, or where that has none, as on ARM, from lscpu."""
    return _first_core().get("model name") or _lscpu().get("Model name")


def _first_core() -> Mapping[str, str]:
    """What /proc/cpuinfo says of the first core, by its keys; empty where there is no such file."""
    try:
        text = CPUINFO.read_text()
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs if value.strip()}


def _clock() -> tuple[float | None, str | None]:
    """Of the cores this process may use: the highest clock allowed, in Hz, and the governors."""
    folders = [CORES / f"cpu{core}" / "cpufreq" for core in which_cores()]
    limits = [_text(folder / "scaling_max_freq") for folder in folders]
    highest = max((float(limit) * 1e3 for limit in limits if limit), default=None)
    governors = {_text(folder / "scaling_governor") for folder in folders} - {None}
    return highest, " ".join(sorted(str(each) for each in governors)) or None


def _boost() -> bool | None:
    """Intel's driver says whether it is off, others whether it is on (kernel document cpufreq)."""
    off, on = _text(CORES / "intel_pstate/no_turbo"), _text(CORES / "cpufreq/boost")
    return off == "0" if off else on == "1" if on else None


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip() or None
    except OSError:
        return None


def _lscpu() -> Mapping[str, str]:
    """What lscpu prints, by its labels; empty where it is missing or fails."""
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["lscpu"], capture_output=True, text=True, timeout=10, env=environment
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    pairs = (line.partition(":") for line in done.stdout.splitlines())
    return {label.strip(): value.strip() for label, _, value in pairs}


def _hypervisor(core: Mapping[str, str]) -> str | None:
    """Whether there is one, where it has no name; x86 alone has a flag for that."""
    if "flags" not in core:
        return None
    return "unknown" if "hypervisor" in core["flags"].split() else "none"
