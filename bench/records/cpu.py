"""Facts of the CPU, read without torch: usable cores, quotas of CPU time, instruction sets."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath


def which_cores() -> list[int]:
    """Returns the numbers of the cores that this process may use; on macOS all cores."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def physical_cores(cores: Iterable[int], root: Path = Path("/")) -> list[list[int]]:
    """Groups logical cores by the physical core that they share; returns a list for each of these.

    `cores`: numbers of logical cores. `root`: folder that contains /sys. If the system does not say
    which cores belong together, each logical core counts as a physical one. Numbers alone do not
    say it: Linux often numbers the second threads of all cores after the first ones.
    """
    together: dict[int, list[int]] = {}
    for core in sorted(cores):
        topology = root / f"sys/devices/system/cpu/cpu{core}/topology"
        siblings = re.findall(r"\d+", " ".join(lines_of(topology / "thread_siblings_list")))
        together.setdefault(min(map(int, siblings), default=core), []).append(core)
    return list(together.values())


def usable_cores() -> int:
    """Returns how many cores this process may use."""
    return len(which_cores())


def quota_cores(root: Path = Path("/")) -> float | None:
    """Returns the smallest quota of CPU time that applies to this process; None if unlimited.

    The unit is cores: 1.5 allows 1.5 s of CPU time per second. Reads the files below `root` of this
    process's cgroup and its parents (kernel documents cgroup-v2, sched-bwc).
    """
    quotas = [quota for folder in cgroups(root) for quota in _quota(folder)]
    return min(quotas, default=None)


def _quota(folder: Path) -> Iterator[float]:
    second = [word for line in lines_of(folder / "cpu.max") for word in line.split()]
    first = [*lines_of(folder / "cpu.cfs_quota_us"), *lines_of(folder / "cpu.cfs_period_us")]
    for words in (second, first):
        if len(words) == 2 and words[0] not in ("max", "-1"):
            yield int(words[0]) / int(words[1])


def cgroups(root: Path) -> list[Path]:
    """Returns the folders of this process's cgroup and its ancestors, which may limit CPU time.

    `root`: folder that contains /proc and /sys. Some of the folders may not exist.
    """
    folders = []
    for line in lines_of(root / "proc/self/cgroup"):
        number, controllers, path = line.split(":", 2)
        own = PurePosixPath(path.lstrip("/"))
        mounts = ("", "unified") if number == "0" else ("cpu",)
        if number == "0" or "cpu" in controllers.split(","):
            top = root / "sys/fs/cgroup"
            folders += [top / mount / folder for mount in mounts for folder in (own, *own.parents)]
    return folders


def lines_of(path: Path) -> list[str]:
    """Returns the lines of the file `path`; empty if it cannot be read."""
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


_GENERIC = re.compile(r"[^0-9]* Processor")
_FAMILY = re.compile(r"family (\d+) model (\d+)")


def told_name(name: str | None, model: str | None) -> str | None:
    """Returns the CPU's name as readers see it: `Intel Xeon (6/207)` for one without a number.

    Virtual machines on different processors share a name such as `Intel(R) Xeon(R) Processor`;
    family and model in `model` (the column `cpu_model`) tell them apart. Other names, and those of
    which `model` is unknown, stay as they are.
    """
    found = _FAMILY.search(model or "")
    if name is None or found is None or not _GENERIC.fullmatch(name):
        return name
    plain = re.sub(r"\((?:R|TM)\)", "", name).removesuffix(" Processor")
    return f"{plain} ({found[1]}/{found[2]})"


BF16 = {"avx512_bf16", "amx_bf16", "avx_ne_convert", "bf16", "svebf16"}
"""Instruction sets that multiply or convert bf16. Without any of them, bf16 makes oneDNN no
faster."""

FP16 = {"avx512_fp16", "amx_fp16", "asimdhp", "fphp"}
"""Instruction sets that compute in fp16."""

MATTERING = (
    BF16
    | FP16
    | {
        *("avx", "avx2", "fma", "f16c"),
        *("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512ifma"),
        *("avx512vbmi", "avx512_vbmi2", "avx512_bitalg", "avx512_vpopcntdq", "avx10"),
        *("avx512_vnni", "avx_vnni", "avx_vnni_int8", "avx_vnni_int16", "amx_tile", "amx_int8"),
        *("asimd", "asimddp", "asimdfhm", "sve", "sve2", "sme", "sme2", "i8mm", "svei8mm"),
    }
)
"""Instruction sets by which oneDNN, OpenBLAS, MKL and Inductor choose kernels, as the Linux kernel
names them (arch/*/include/asm/cpufeatures.h, hwcap.h)."""


def instruction_sets(flags: Iterable[str]) -> str:
    """Returns the instruction sets that matter to torch (MATTERING) among a CPU's `flags`.

    `flags` are as in /proc/cpuinfo. The result is one text: sorted names, separated by spaces.
    """
    return " ".join(sorted(MATTERING & set(flags)))


def instructions_text(capability: str | None, instructions: str | None) -> str | None:
    """Returns a text such as `AVX2, no bf16 instructions`; None if both arguments are None.

    The arguments are values of the columns `cpu_capability` and `cpu_instructions`.
    """
    named = [capability.upper()] if capability else []
    if instructions is not None:
        has = not BF16.isdisjoint(instructions.split())
        named.append("bf16 instructions" if has else "no bf16 instructions")
    return ", ".join(named) or None
