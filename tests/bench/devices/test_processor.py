"""Facts that distinguish machines whose CPUs have the same name."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from modescope.bench.devices import processor
from modescope.bench.records import cpu
from modescope.bench.records.environment import Processor

ZEN_3 = """processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: 25
model\t\t: 1
model name\t: AMD EPYC
stepping\t: 1
microcode\t: 0xa0011d1
flags\t\t: fpu sse2 avx2 avx512f avx512_bf16 fma avx f16c hypervisor
power management:

processor\t: 1
model name\t: another
"""
GRACE = """processor\t: 0
Features\t: fp asimd asimdhp sve sve2 bf16 i8mm
CPU implementer\t: 0x41
CPU variant\t: 0x0
CPU part\t: 0xd4f
CPU revision\t: 0
"""

Machine = Callable[..., Processor]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """The facts of a machine with these files and this output of lscpu."""

    def read(cpuinfo: str | None, lscpu: str | None = None, **cpufreq: str) -> Processor:
        file = tmp_path / "cpuinfo"
        if cpuinfo is not None:
            file.write_text(cpuinfo)
        for core in (0, 1):
            folder = tmp_path / f"cpu{core}" / "cpufreq"
            folder.mkdir(parents=True)
            for name, text in cpufreq.items():
                (folder / name).write_text(f"{text}\n")

        def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
            if lscpu is None:
                raise FileNotFoundError(command[0])
            return subprocess.CompletedProcess(command, 0, lscpu)

        monkeypatch.setattr(processor, "CPUINFO", file)
        monkeypatch.setattr(processor, "CORES", tmp_path)
        monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1}, raising=False)
        monkeypatch.setattr(subprocess, "run", run)
        monkeypatch.setattr(processor, "quota_cores", lambda: 1.5)
        return processor.read()

    return read


def test_processors_of_one_name_are_distinguished(machine: Machine) -> None:
    found = machine(ZEN_3, "Model name:  AMD EPYC\nHypervisor vendor:   KVM\n")
    assert found == Processor(
        cpu_name="AMD EPYC",
        cpu_model="AuthenticAMD family 25 model 1 stepping 1",
        cpu_capability=torch.backends.cpu.get_cpu_capability(),
        cpu_instructions="avx avx2 avx512_bf16 avx512f f16c fma",
        cpu_cores=2,
        cpu_quota_cores=1.5,
        cpu_max_hz=None,
        cpu_boost=None,
        cpu_governor=None,
        cpu_microcode="0xa0011d1",
        hypervisor="KVM",
    )


def test_an_arm_processor_has_its_name_from_lscpu(machine: Machine) -> None:
    found = machine(GRACE, "Architecture: aarch64\nModel name: Neoverse-V2\n")
    assert found.cpu_name == "Neoverse-V2"
    assert found.cpu_model == "implementer 0x41 variant 0x0 part 0xd4f revision 0"
    assert found.cpu_instructions == "asimd asimdhp bf16 i8mm sve sve2"
    assert found.hypervisor is None


def test_facts_the_system_does_not_give_are_null(machine: Machine) -> None:
    capability = torch.backends.cpu.get_cpu_capability()
    assert machine(None) == Processor(cpu_capability=capability, cpu_cores=2, cpu_quota_cores=1.5)


def test_the_clock_limit_is_the_one_in_force(machine: Machine) -> None:
    found = machine(ZEN_3, scaling_max_freq="2600000", scaling_governor="powersave")
    assert (found.cpu_max_hz, found.cpu_governor) == (2.6e9, "powersave")


@pytest.mark.parametrize(
    ("file", "text", "boost"),
    [("intel_pstate/no_turbo", "1", False), ("cpufreq/boost", "1", True)],
)  # fmt: skip
def test_whether_the_clock_may_be_boosted(
    file: str, text: str, boost: bool, machine: Machine, tmp_path: Path
) -> None:
    (tmp_path / file).parent.mkdir()
    (tmp_path / file).write_text(text)
    assert machine(ZEN_3).cpu_boost is boost


@pytest.mark.parametrize(("flags", "hypervisor"), [("fpu hypervisor", "unknown"), ("fpu", "none")])
def test_a_hypervisor_without_a_name(flags: str, hypervisor: str, machine: Machine) -> None:
    assert machine(f"flags\t: {flags}\n").hypervisor == hypervisor


@pytest.mark.parametrize(
    ("capability", "instructions", "text"),
    [
        ("AVX2", "avx avx2 fma", "AVX2, no bf16 instructions"),
        ("AVX512", "avx512_bf16 avx512f", "AVX512, bf16 instructions"),
        ("AVX2", None, "AVX2"),
        (None, None, None),
    ],
)
def test_instruction_sets_are_named(
    capability: str | None, instructions: str | None, text: str | None
) -> None:
    assert cpu.instructions_text(capability, instructions) == text


def test_thermal_throttling_is_summed_over_cores_and_packages(tmp_path: Path) -> None:
    assert processor.throttle_count(tmp_path) is None
    for core, kind, count in (("cpu0", "core", 2), ("cpu0", "package", 3), ("cpu11", "core", 40)):
        file = tmp_path / core / "thermal_throttle" / f"{kind}_throttle_count"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{count}\n")
    assert processor.throttle_count(tmp_path) == 45
    file.with_name("core_max_time_ms").write_text("900\n")
    assert processor.throttle_count(tmp_path) == 45
    file.write_text("offline\n")
    assert processor.throttle_count(tmp_path) is None
