"""Where a run takes place. Read once per session, in a child process that has torch."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import socket
import subprocess
import sys
from dataclasses import asdict

import torch

from bench import processor
from bench.devices import find, host_memory_bytes
from bench.fingerprint import ROOT, model_id, source_id
from bench.isolation import Progress
from bench.records import Environment, Host, Model
from bench.subject import build
from bench.training import losses


def read(progress: Progress, device_name: str) -> Host:
    """Facts of the device called `device_name` and of everything around it.

    Raises UsageError where there is no such device.
    """
    hardware = find(device_name)
    device = hardware.facts()
    driver, power_limit_w = _nvidia(hardware.nvidia_id) if hardware.nvidia_id else (None, None)
    return Host(
        device,
        Environment(
            **asdict(processor.read()),
            environment_id=None,  # known once the model's source is
            host=socket.gethostname(),
            device_name=device.name,
            memory_bytes=host_memory_bytes(),
            python_version=platform.python_version(),
            # its own type would make the parent import torch
            torch_version=str(torch.__version__),
            triton_version=_version("triton"),
            cuda_version=torch.version.cuda,
            driver_version=driver,
            power_limit_w=power_limit_w,
            load_1min=None,
            git_commit=_git("rev-parse", "HEAD"),
            git_dirty=_is_dirty(),
            variables=None,  # the parent's: torch sets some of its own here
            source_id=source_id(),
        ),
    )


def try_model(progress: Progress, model: Model, shape_json: str, loss: str | None = None) -> str:
    """Builds the model once, so that a mistake shows before anything is measured.

    `loss` is what it is trained with, if it is. Returns the hash of their source; raises
    UsageError.
    """
    before = set(sys.modules)
    subject = build(model, json.loads(shape_json))
    if loss:
        losses.check(subject.module, loss)
    return model_id(model.target, before)


def _nvidia(nvidia_id: str) -> tuple[str | None, float | None]:
    """Driver version and power limit in watts, as nvidia-smi has them; None where it does not."""
    query = "--query-gpu=driver_version,power.limit"
    answer = _output("nvidia-smi", "-i", nvidia_id, query, "--format=csv,noheader,nounits")
    if answer is None or "," not in answer:
        return None, None
    driver, limit = (part.strip() for part in answer.splitlines()[0].split(",", 1))
    return driver, float(limit) if limit.replace(".", "", 1).isdigit() else None


def _git(*arguments: str) -> str | None:
    return _output("git", "-C", str(ROOT), *arguments)


def _is_dirty() -> bool | None:
    status = _git("status", "--porcelain", "--untracked-files=no")
    return None if status is None else bool(status)


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
