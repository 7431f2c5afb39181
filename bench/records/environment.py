"""The machine that measures: its devices, processor and software, as columns."""

from __future__ import annotations

from dataclasses import dataclass

from modescope.bench.records.columns import column, nullable
from modescope.bench.records.instruction_sets import phrase


@dataclass(frozen=True)
class DeviceFacts:
    """Properties of a device, read once by a child process."""

    type: str  # cpu | cuda
    name: str
    capability: tuple[int, int] | None = None  # CUDA compute capability
    memory_bytes: int | None = None

    @property
    def compute_capability(self) -> str | None:
        """`9.0`: the compute capability as NVIDIA writes it; None on a CPU."""
        return None if self.capability is None else "{}.{}".format(*self.capability)


@dataclass(frozen=True)
class Host:
    """What all runs of one command share, read once by a child process."""

    device: DeviceFacts
    environment: Environment


@dataclass(frozen=True)
class Processor:
    """The host's CPU. Its name is not enough: in a virtual machine it may hide the model."""

    cpu_name: str | None = nullable("CPU model")
    cpu_model: str | None = nullable(
        "vendor, family, model and stepping of the CPU, which a virtual machine's name hides"
    )
    cpu_capability: str | None = nullable(
        "instruction set of torch's own CPU kernels: torch.backends.cpu.get_cpu_capability()"
    )
    cpu_instructions: str | None = nullable(
        "instruction sets of the CPU that matrix products and generated code may use, by their "
        "names in /proc/cpuinfo, in alphabetical order"
    )
    cpu_cores: int | None = nullable("logical CPU cores this process may use")
    cpu_quota_cores: float | None = nullable(
        "CPU time that a container or cgroup allows, in cores; null where nothing limits it"
    )
    cpu_max_hz: float | None = nullable(
        "highest clock that the operating system allows these cores; null where it does not say, "
        "as in most virtual machines"
    )
    cpu_boost: bool | None = nullable("whether these cores may exceed their nominal clock")
    cpu_governor: str | None = nullable("frequency governor of these cores, such as powersave")
    cpu_microcode: str | None = nullable("version of the CPU's microcode")
    hypervisor: str | None = nullable(
        "hypervisor that the machine runs on, such as KVM; none: physical hardware; unknown: a "
        "hypervisor that gives no name"
    )


def place(processor: Processor, device_name: str | None, threads: int) -> str:
    """`AMD EPYC (AVX2, no bf16 instructions), 1 of 2 cores`, with the name of a GPU before it."""
    instructions = phrase(processor.cpu_capability, processor.cpu_instructions)
    cpu = f"{processor.cpu_name or '–'}{f' ({instructions})' if instructions else ''}"
    cores = f"{threads} of {processor.cpu_cores} cores"
    if device_name == processor.cpu_name:
        return f"{cpu}, {cores}"
    return f"{device_name or '–'}, {cores} of {cpu}"


@dataclass(frozen=True, kw_only=True)
class Environment(Processor):
    """Where a run took place."""

    environment_id: str | None = column(
        "hash of what makes rows comparable: of the columns from cpu_name to hypervisor, "
        "device_name, versions, power limit, variables and source_id"
    )
    host: str | None = column("host name")
    device_name: str | None = column("GPU or CPU model")
    memory_bytes: int | None = column("memory of the host")
    python_version: str | None = column("Python")
    torch_version: str | None = column("PyTorch, with its build tag")
    triton_version: str | None = column("Triton, where installed")
    cuda_version: str | None = column("CUDA that torch was built with")
    driver_version: str | None = column("NVIDIA driver")
    power_limit_w: float | None = column("GPU power limit")
    load_1min: float | None = column("load average over the minute before the run")
    git_commit: str | None = column("commit of modescope")
    git_dirty: bool | None = column("whether tracked files of modescope differed from the commit")
    variables: str | None = column("environment variables that change how torch runs, JSON")
    source_id: str | None = nullable(
        "hash of the source files of modescope that run while a case is measured, models not "
        "included"
    )
    model_source_id: str | None = nullable(
        "hash of the source of the model and of the user's own loss"
    )
    compute_capability: str | None = nullable(
        "CUDA compute capability of the GPU, such as 9.0; null on a CPU"
    )
    gpu_uuid: str | None = nullable(
        "the GPU that measured, as CUDA identifies it (`nvidia-smi -L` lists these); of a part of "
        "a GPU (MIG) that part's UUID, also after GPU-; null on a CPU"
    )
