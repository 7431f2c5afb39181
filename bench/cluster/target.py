"""Checks requests for other machines, before anything is submitted."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from modescope.bench.records.cases import Plan
from modescope.bench.records.environment import DeviceFacts
from modescope.bench.records.errors import UsageError
from modescope.bench.resolve import Request, resolve
from modescope.bench.sweep.prepare import check_study

GPU_OPTIONS = ("gpus_per_node", "gpus_per_task", "cpus_per_gpu", "mem_per_gpu")
"""Options of an engine that ask for GPUs."""


@dataclass(frozen=True)
class Needs:
    """What the cases of a sweep need of a worker."""

    threads: int
    timeout_s: float
    on_cpu: bool  # at least one case
    gpu_is_any: bool  # cases on a GPU, none of which says by its number on which one


def asks_for_gpus(options: Mapping[str, Any]) -> bool:
    """Whether the options of a scheduler ask for GPUs."""
    further = [*(options.get("additional_parameters") or {}).items()]
    texts = [str(options.get("gres") or ""), *(f"{key}={value}" for key, value in further)]
    return any(options.get(name) for name in GPU_OPTIONS) or any("gpu" in text for text in texts)


def gpus_per_node(options: Mapping[str, Any]) -> int:
    """How many GPUs of a node a job of Slurm asks for, by gpus_per_node or gres; at least 1."""
    match = re.search(r"\bgpu(?::[^:,(]+)?:([0-9]+)", str(options.get("gres") or ""))
    return max(1, options.get("gpus_per_node") or 1, int(match[1]) if match else 1)


def needs(requests: Sequence[Request]) -> Needs:
    """What requests with a device need."""
    every = [request.settings for request in requests]
    return Needs(
        max(settings.threads for settings in every),
        max(settings.timeout_s for settings in every),
        any(settings.device == "cpu" for settings in every),
        {settings.device for settings in every} - {"cpu"} == {"cuda"},
    )


def checked(requests: Sequence[Request], has_gpus: bool) -> tuple[list[Request], list[Plan]]:
    """The requests with device=auto resolved, and their plans; of equal ones the first.

    `has_gpus`: whether workers get a GPU. What a GPU can do, the worker finds out.
    """

    def describe(name: str) -> DeviceFacts:
        if name == "cpu" or (name == "auto" and not has_gpus):
            return DeviceFacts("cpu", "the CPU of a worker")
        if not re.fullmatch("auto|cuda(:[0-9]+)?", name):
            raise UsageError(f"device={name}: allowed are auto, cpu, cuda and cuda:<index>")
        if not has_gpus:
            raise UsageError(
                f"device={name}: {_how(requests[0].settings.cluster)}, or use device=cpu"
            )
        return DeviceFacts("cuda", "a GPU of a worker")

    found: dict[tuple[str, str, Plan], Request] = {}
    for request in requests:
        case, plan = resolve(request, describe)
        # a worker that lacks its GPU says so, instead of measuring on its CPU
        pinned = replace(request, settings=replace(request.settings, device=case.device))
        found.setdefault((case.case_id, case.device, plan), pinned)
    plans = [plan for _, _, plan in found]
    check_study(plans)
    return list(found.values()), plans


def _how(options: Mapping[str, Any]) -> str:
    own = {"gpus": "gpus=all", "ray": "remote.num_gpus=1"}
    return f"no GPU is asked for; add cluster.{own.get(options['engine'], 'gpus_per_node=1')}"
