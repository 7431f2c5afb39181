"""Facts of the machine and its software, read once per command in a child process with torch."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import re
import socket
import subprocess
import sys
from dataclasses import asdict

import torch

from modescope.bench.devices import processor
from modescope.bench.devices.cuda import find
from modescope.bench.records.cases import Model, PhaseOptions
from modescope.bench.records.environment import Environment, Host
from modescope.bench.records.paths import ROOT
from modescope.bench.records.progress import Progress
from modescope.bench.steps.building import build, with_extreme_inputs
from modescope.bench.steps.phases.table import phase_of
from modescope.bench.steps.plain_call import try_described_inputs, try_sizes
from modescope.bench.sweep.host.fingerprint import model_id, source_id


def read(progress: Progress, device_name: str) -> Host:
    """Facts of a device and its machine. Raises UsageError where there is no such device."""
    hardware = find(device_name)
    device = hardware.facts()
    status = _git("status", "--porcelain", "--untracked-files=no")
    driver, power_limit_w = _nvidia(hardware.nvidia_id) if hardware.nvidia_id else (None, None)
    return Host(
        device,
        Environment(
            **asdict(processor.read()),
            environment_id=None,  # set once the model's source is known
            host=socket.gethostname(),
            device_name=device.name,
            compute_capability=device.compute_capability,
            gpu_uuid=hardware.nvidia_id,
            memory_bytes=processor.host_memory_bytes(),
            python_version=platform.python_version(),
            # as str: TorchVersion would make the parent import torch
            torch_version=str(torch.__version__),
            triton_version=_version("triton"),
            cuda_version=torch.version.cuda,
            driver_version=driver,
            power_limit_w=power_limit_w,
            load_1min=None,
            git_commit=_git("rev-parse", "HEAD"),
            git_dirty=None if status is None else bool(status),
            variables=None,  # read by the parent: torch sets some in this process
            source_id=source_id(),
        ),
    )


def try_model(
    progress: Progress, model: Model, shape_json: str, options: PhaseOptions, device: str
) -> str:
    """Builds the model once, so that a mistake shows before anything is measured.

    `options` choose the phase that the model has to fit. Described inputs are tried on the device,
    because a forward may need it, with the largest and least whole numbers. So are the sizes of a
    library's architecture, which its own limits may not fit. Returns the hash of the source of the
    model and of the user's loss; raises UsageError.
    """
    before = set(sys.modules)
    shape = json.loads(shape_json)
    hardware = find(device)  # first, as a saved model may hold tensors on the GPU in use
    subject = build(model, shape)
    phase = phase_of(options)
    phase.check_model(subject.module)
    if model.inputs_json is not None:
        described = with_extreme_inputs(subject, model, shape)
        try_described_inputs(described, hardware)
    elif model.architecture is not None:
        subject.module.train(phase.trains)
        try_sizes(subject, hardware, model, shape)
    return model_id(model.target, before)


def _nvidia(nvidia_id: str) -> tuple[str | None, float | None]:
    """Driver version and power limit in watts, as nvidia-smi gives them; None where unknown.

    It does not know a part of a GPU (MIG) by this id, but all GPUs have one driver.
    """
    text = _of_gpus("driver_version,power.limit", "-i", nvidia_id)
    if text is None or "," not in text:
        version = re.match(r"[\d.]+", _of_gpus("driver_version") or "")
        return version[0] if version else None, None
    driver, limit = (part.strip() for part in text.splitlines()[0].split(",", 1))
    return driver, float(limit) if limit.replace(".", "", 1).isdigit() else None


def _of_gpus(fields: str, *which: str) -> str | None:
    query = f"--query-gpu={fields}"
    return _output("nvidia-smi", *which, query, "--format=csv,noheader,nounits")


def _git(*arguments: str) -> str | None:
    return _output("git", "-C", str(ROOT), *arguments)


def _output(*command: str) -> str | None:
    """What the command prints; None where it is missing or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
