"""Reads facts of the host's processor and memory, and how often the processor was throttled."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path

import torch

from modescope.bench.records import cpu
from modescope.bench.records.cpu import lines_of, quota_cores, usable_cores, which_cores
from modescope.bench.records.environment import Processor

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
"""Keys of lines in /proc/cpuinfo, and how their values are shown in `cpu_model`."""


def read() -> Processor:
    """Reads the facts of the CPU. A fact is None if the system does not give it."""
    core, described = _first_core(), _lscpu()
    highest, governors = _clock()
    return Processor(
        cpu_name=name(),
        cpu_model=" ".join(f.format(core[key]) for key, f in IDENTITY.items() if key in core)
        or None,
        cpu_capability=torch.backends.cpu.get_cpu_capability(),
        cpu_instructions=instructions(),
        cpu_cores=usable_cores(),
        cpu_quota_cores=quota_cores(),
        cpu_max_hz=highest,
        cpu_boost=_boost(),
        cpu_governor=governors,
        cpu_microcode=core.get("microcode"),
        hypervisor=described.get("Hypervisor vendor") or _hypervisor(core),
    )


def name() -> str | None:
    """Returns the CPU's name from /proc/cpuinfo, or from lscpu if that file has none (ARM)."""
    return _first_core().get("model name") or _lscpu().get("Model name")


def instructions() -> str | None:
    """Returns the CPU's instruction sets that matter to torch, from /proc/cpuinfo."""
    known = flags()
    return cpu.instruction_sets(known) if known else None


def flags() -> list[str]:
    """Returns the names of what the CPU can do, from /proc/cpuinfo; empty if it is silent."""
    core = _first_core()
    return (core.get("flags") or core.get("Features") or "").split()


def _first_core() -> Mapping[str, str]:
    pairs = (line.partition(":") for line in takewhile(bool, lines_of(CPUINFO)))
    return {key.strip(): value.strip() for key, _, value in pairs if value.strip()}


def _clock() -> tuple[float | None, str | None]:
    """Returns the highest clock in Hz allowed to this process's cores, and their governors."""
    folders = [CORES / f"cpu{core}" / "cpufreq" for core in which_cores()]
    limits = [_text(folder / "scaling_max_freq") for folder in folders]
    highest = max((float(limit) * 1e3 for limit in limits if limit), default=None)
    governors = {_text(folder / "scaling_governor") for folder in folders} - {None}
    return highest, " ".join(sorted(str(governor) for governor in governors)) or None


def _boost() -> bool | None:
    """Returns whether boost is on. None if the system does not say.

    Intel's driver reports whether it is off, others whether it is on (kernel document cpufreq).
    """
    off, on = _text(CORES / "intel_pstate/no_turbo"), _text(CORES / "cpufreq/boost")
    return off == "0" if off else on == "1" if on else None


def _text(path: Path) -> str | None:
    return "\n".join(lines_of(path)).strip() or None


def _lscpu() -> Mapping[str, str]:
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
    if "flags" not in core:
        return None
    return "unknown" if "hypervisor" in core["flags"].split() else "none"


def host_memory_bytes() -> int | None:
    """Returns the physical memory of the host. None if the system does not give it."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None


def throttle_count(cores: Path = CORES) -> int | None:
    """Returns how often a core or package slowed down since boot because it was too hot.

    The sum over all cores, so an event of a package counts once for each of its cores. None if the
    kernel does not count; it does on Intel's processors (kernel document intel_thermal_throttle).
    """
    files = list(cores.glob("cpu[0-9]*/thermal_throttle/*_throttle_count"))
    try:
        return sum(int(file.read_text()) for file in files) if files else None
    except (OSError, ValueError):  # files disappear with a core that is switched off
        return None
