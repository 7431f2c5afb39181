"""The options of the launchers in `EXECUTORS`, under the names of Hydra's known plugins.

The plugins need not be installed, and their code never runs: what is composed here is read by an
executor.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins

SLURM = "hydra_plugins.hydra_submitit_launcher.submitit_launcher.SlurmLauncher"
LOCAL = "hydra_plugins.hydra_submitit_launcher.submitit_launcher.LocalLauncher"

RAY = "hydra_plugins.hydra_ray_launcher.ray_launcher.RayLauncher"


@dataclass
class _Submitit:
    """Options that hydra-submitit-launcher has for all of its launchers, and our own."""

    submitit_folder: str | None = None  # accepted, without effect: jobs are in the study's folder
    timeout_min: int | None = None
    cpus_per_task: int | None = None  # None: as many as the threads of the cases
    gpus_per_node: int | None = None
    tasks_per_node: int = 1
    mem_gb: int | None = None
    nodes: int = 1
    name: str = "modescope"
    stderr_to_stdout: bool = True
    workers: int | None = None  # None: array_parallelism, or 8; here one for each GPU
    dry_run: bool = False  # prints what would be submitted


@dataclass
class SubmititSlurm(_Submitit):
    """hydra/launcher=submitit_slurm"""

    _target_: str = SLURM
    timeout_min: int | None = 60
    partition: str | None = None
    qos: str | None = None
    comment: str | None = None
    constraint: str | None = None
    exclude: str | None = None
    exclusive: bool | None = None
    gres: str | None = None
    cpus_per_gpu: int | None = None
    gpus_per_task: int | None = None
    mem_per_gpu: str | None = None
    mem_per_cpu: str | None = None
    account: str | None = None
    nodelist: str | None = None
    dependency: str | None = None
    signal_delay_s: int = 120
    max_num_timeout: int = 3
    additional_parameters: dict[str, Any] = field(default_factory=dict)
    array_parallelism: int | None = None
    setup: list[str] | None = None
    srun_args: list[str] | None = None


@dataclass
class SubmititLocal(_Submitit):
    """hydra/launcher=submitit_local"""

    _target_: str = LOCAL
    gpus: Any = None  # all, or a list of UUIDs and numbers


def _of_ray() -> dict[str, Any]:
    """As of hydra-ray-launcher: arguments of `ray.init`, and resources of a worker."""
    remote = dict.fromkeys(("num_cpus", "num_gpus", "memory", "resources", "accelerator_type"))
    return {"init": {"address": None}, "remote": remote}


@dataclass
class Ray:
    """hydra/launcher=ray"""

    _target_: str = RAY
    ray: dict[str, Any] = field(default_factory=_of_ray)
    timeout_min: int | None = None
    workers: int | None = None  # None: 8
    dry_run: bool = False


LAUNCHERS = {"submitit_slurm": SubmititSlurm, "submitit_local": SubmititLocal, "ray": Ray}


def register() -> None:
    """Makes the launchers known to Hydra; after its plugins, so that ours replace theirs."""
    Plugins.instance()
    for name, schema in LAUNCHERS.items():
        ConfigStore.instance().store(group="hydra/launcher", name=name, node=schema)
