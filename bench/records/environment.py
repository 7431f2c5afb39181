"""The machine that measures: its devices, processor, software and scheduler, as columns."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from modescope.bench.records.columns.column import column, nullable
from modescope.bench.records.cpu import instructions_text, told_name

TF32_CAPABILITY = (8, 0)
"""First compute capability with TF32 tensor cores (NVIDIA Ampere)."""


@dataclass(frozen=True)
class DeviceFacts:
    """Properties of a device, which a child process reads once per command."""

    type: str  # cpu | cuda
    name: str
    capability: tuple[int, int] | None = None  # CUDA compute capability
    memory_bytes: int | None = None
    instructions: str | None = None  # of a CPU (`cpu.instruction_sets`); None: unknown

    @property
    def compute_capability(self) -> str | None:
        """The compute capability as NVIDIA writes it, such as `9.0`; None on a CPU."""
        return None if self.capability is None else "{}.{}".format(*self.capability)


@dataclass(frozen=True)
class Host:
    """Facts of device and machine, which a child process reads once per command."""

    device: DeviceFacts
    environment: Environment


@dataclass(frozen=True)
class Processor:
    """The host's CPU. Its name is not enough: in a virtual machine it may hide the model."""

    cpu_name: str | None = nullable("CPU, as it names itself")
    cpu_model: str | None = nullable(
        "its vendor, family, model and stepping, which a virtual machine does not hide"
    )
    cpu_capability: str | None = nullable("instruction set of torch's own kernels")
    cpu_instructions: str | None = nullable(
        "instruction sets for matrix products and generated code, named as in /proc/cpuinfo"
    )
    cpu_cores: int | None = nullable("logical cores that this process may use")
    cpu_quota_cores: float | None = nullable(
        "CPU time that a container or cgroup allows; null: unlimited"
    )
    cpu_max_hz: float | None = nullable(
        "highest clock that the system allows; null if it does not say"
    )
    cpu_boost: bool | None = nullable("whether the nominal clock may be exceeded")
    cpu_governor: str | None = nullable("frequency governor, such as powersave")
    cpu_microcode: str | None = nullable("version of the microcode")
    hypervisor: str | None = nullable(
        "such as KVM; none: physical hardware; unknown: one without a name"
    )


def describe_machine(processor: Processor, device_name: str | None, threads: int) -> str:
    """Describes the machine, and how many of its cores are used.

    On a CPU: `AMD EPYC (AVX2, no bf16 instructions), 1 of 2 cores`. A GPU comes first:
    `NVIDIA H100, 1 of 8 cores of AMD EPYC (AVX2)`. `device_name`: name of the GPU, or else of the
    CPU. `threads`: the number of cores that are used.
    """
    instructions = instructions_text(processor.cpu_capability, processor.cpu_instructions)
    name = told_name(processor.cpu_name, processor.cpu_model)
    cpu = f"{name or '–'}{f' ({instructions})' if instructions else ''}"
    cores = f"{threads} of {processor.cpu_cores} cores"
    if device_name == processor.cpu_name:
        return f"{cpu}, {cores}"
    return f"{device_name or '–'}, {cores} of {cpu}"


@dataclass(frozen=True, kw_only=True)
class Environment(Processor):
    """The machine and the software of a run, as columns."""

    environment_id: str | None = column(
        "hash of what makes rows comparable: device, processor, versions, power limit, variables, "
        "source_id"
    )
    host: str | None = column("host name")
    device_name: str | None = column("GPU, or else CPU")
    memory_bytes: int | None = column("memory of the host")
    python_version: str | None = column("Python")
    torch_version: str | None = column("PyTorch, with its build tag")
    triton_version: str | None = column("Triton, if installed")
    cuda_version: str | None = column("CUDA that torch was built with")
    driver_version: str | None = column("NVIDIA driver")
    power_limit_w: float | None = column("power limit of the GPU")
    load_1min: float | None = column("load average of the minute before")
    git_commit: str | None = column("commit of modescope")
    git_dirty: bool | None = column("whether modescope differed from that commit")
    variables: str | None = column("environment variables that change how torch runs, JSON")
    source_id: str | None = nullable("hash of modescope's files that run while a case is measured")
    model_source_id: str | None = nullable(
        "hash of the source of the model and of the user's own loss"
    )
    compute_capability: str | None = nullable("of the GPU, such as 9.0")
    gpu_uuid: str | None = nullable("the GPU, or part of one (MIG), as `nvidia-smi -L` lists it")


FINGERPRINT = {
    "torch_version": "torch",
    "cuda_version": "torch's CUDA",
    "triton_version": "Triton",
    "python_version": "Python",
    "driver_version": "the driver",
    "device_name": "the device",
    "power_limit_w": "the power limit",
    "cpu_name": "the CPU",
    "cpu_model": "the CPU's model",
    "cpu_capability": "the instruction set that torch uses",
    "cpu_instructions": "the CPU's instruction sets",
    "cpu_cores": "the number of cores",
    "cpu_quota_cores": "the CPU quota",
    "cpu_max_hz": "the CPU's highest clock",
    "cpu_boost": "the CPU's boost",
    "cpu_governor": "the CPU's governor",
    "cpu_microcode": "the CPU's microcode",
    "hypervisor": "the hypervisor",
    "variables": "environment variables",
    "source_id": "the source of modescope",
}
"""Column that must be equal in rows that are compared -> its name in messages.

The CPU counts for rows of a GPU too, because it dispatches and launches. The model's source is
compared separately, because it differs between the models of a sweep.
"""


@dataclass(frozen=True)
class Scheduling:
    """Node and scheduler of a run, as columns. None of them enters an id."""

    node: str | None = nullable(
        "machine that measured: its name in the scheduler, or its host name"
    )
    scheduler: str | None = nullable(
        "slurm, ray or gpus (a process per GPU); null if none started the run"
    )
    scheduler_job: str | None = nullable(
        "its name of the job: 1234_5 is task 5 of Slurm's array 1234; for gpus the GPU's UUID"
    )
    restart: int | None = nullable("how often Slurm restarted the job")


def scheduling(
    scheduler: str | None = None,
    *,
    job: str | None = None,
    variables: Mapping[str, str] = os.environ,
) -> Scheduling:
    """Returns node and scheduler of this process, as columns of the rows that it measures.

    `scheduler`: slurm, ray or gpus; None means slurm if this is a job of Slurm, else no scheduler.
    `job`: the scheduler's name of the job; None: for Slurm it is found in `variables`, as is the
    number of restarts. `variables`: the environment variables.
    """
    scheduler = scheduler or ("slurm" if "SLURM_JOB_ID" in variables else None)
    by_slurm = scheduler == "slurm"
    return Scheduling(
        node=variables.get("SLURMD_NODENAME") or socket.gethostname(),
        scheduler=scheduler,
        scheduler_job=job or (_slurm_job(variables) if by_slurm else None),
        # Slurm sets the variable only in a job that it has restarted
        restart=int(variables.get("SLURM_RESTART_COUNT", 0)) if by_slurm else None,
    )


def _slurm_job(variables: Mapping[str, str]) -> str | None:
    array, task = (variables.get(f"SLURM_ARRAY_{name}_ID") for name in ("JOB", "TASK"))
    return f"{array}_{task}" if array and task else variables.get("SLURM_JOB_ID")
