"""Reads facts of the machine, and builds models on trial. Imports torch: for a child process.

A command reads the machine once, and tries each of its models once.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import re
import socket
import subprocess
import sys
import traceback
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import torch

from modescope.bench.devices import processor
from modescope.bench.devices.cuda import find
from modescope.bench.devices.devices import Hardware
from modescope.bench.model import witness
from modescope.bench.model.building import build
from modescope.bench.model.building import find as find_target
from modescope.bench.model.plain_call import try_call
from modescope.bench.modes import axes, kernels
from modescope.bench.modes.phases import phase_of
from modescope.bench.records.cases import BUILT_IN, Model, PhaseOptions, short_hash
from modescope.bench.records.environment import Environment, Host
from modescope.bench.records.errors import Progress, UsageError
from modescope.bench.records.paths import ROOT, is_installed
from modescope.bench.sweep import imports
from modescope.bench.sweep.fingerprint import source_id

COMPILED = (".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp")
"""Suffixes of sources that a module may compile."""


def read(progress: Progress, device_name: str) -> Host:
    """Returns facts of a device and its machine; raises UsageError if there is no such device."""
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
    progress: Progress,
    model: Model,
    device: str,
    tried: Sequence[tuple[str, PhaseOptions]],
    asked: Collection[str] = (),
) -> tuple[str | None, dict[str, str]]:
    """Builds the model for each pair in `tried`, to find mistakes before anything is timed.

    A pair is the shape, as JSON, and the options of a phase. `asked` are the implementations in
    `model.kernels` that are built, too: others may lack what they need here.

    Returns a hash of the source of the model and of the user's loss, or None if the model was never
    built, and why axes of modes change nothing in it (`axes.unfit`). Raises UsageError for a
    mistake of the user. Any other error is only printed: it will recur when the case is measured.
    """
    before = set(sys.modules)
    hardware = find(device)  # first, as a saved model may hold tensors on the GPU in use
    others = {name: model.implementation(name) for name in sorted(asked)}
    for made in (model, *others.values()):
        if made.pickled and (loss := witness.find_loss(made)):
            raise UsageError(loss)
    source: str | None = None
    unfit: dict[str, str] = {}
    for shape_json, options in tried:
        progress("building the model", (source, unfit))
        try:
            unfit = _build(model, others, json.loads(shape_json), options, hardware)
        except UsageError:
            raise
        except Exception:
            traceback.print_exc()
        else:
            targets = [other.target for other in model.kernels]
            for target in targets:
                with suppress(UsageError):  # of one that was not built, and cannot be
                    find_target(target)
            source = source or model_id([model.target, *targets], before)
    return source, unfit


def _build(
    model: Model,
    others: Mapping[str, Model],
    shape: dict[str, int],
    options: PhaseOptions,
    hardware: Hardware,
) -> dict[str, str]:
    """Builds the model and `others`, by name; returns why axes of modes change nothing in it.

    Raises UsageError if it does not suit the phase that `options` describe.

    With inputs from model.inputs or `modescope.compare`, or a library's architecture, the model is
    also called on the device, because only a call shows whether inputs and sizes fit.
    """
    subject = build(model, shape)
    phase = phase_of(options)
    phase.check_model(subject.module)
    if model.inputs_json or model.architecture or model.pickled:
        if phase.trains:
            subject.module.train()
        try_call(subject, hardware, model, shape)
    for name, other in others.items():
        try:
            module = build(other, shape).module
        except UsageError as error:
            typed = str(error).replace("model.target=", f"model.kernels.{name}=", 1)
            raise UsageError(typed) from None
        kernels.check(name, subject.module, module)
    return axes.unfit(subject.module)


def model_id(targets: Sequence[str], modules_before: Collection[str]) -> str:
    """Returns a hash of the source code of `targets` ("module:function"), the first the model's.

    It covers their files, and the modules imported since `modules_before`, except installed
    packages. Of the further targets, which may not have been built, it covers all that their files
    import. It also covers extension modules among these, and sources that they may compile
    (`COMPILED`): beside these files, in the targets' packages, and in folders beside these. If the
    package of a target is installed, it covers its version, too.
    """
    names = [target.partition(":")[0] for target in targets]
    new = map(_file, set(sys.modules) - set(modules_before))
    files = {*map(_file, names), *(file for file in new if not is_installed(file))}
    files |= imports.files(names[1:])
    theirs = [Path(file) for file in files if file.endswith((".py", *EXTENSION_SUFFIXES))]
    beside = {path for folder in {file.parent for file in theirs} for path in folder.iterdir()}
    tops = [name.partition(".")[0] for name in names]
    compiled = {path for path in beside.union(*map(_below, tops)) if path.suffix in COMPILED}
    compiled = {path for path in compiled if path.is_file()}
    sources = {path.resolve() for path in (*theirs, *compiled)}
    hashes = sorted(hashlib.sha256(path.read_bytes()).hexdigest() for path in sources)
    versions = {
        top: str(getattr(sys.modules.get(top), "__version__", ""))
        for name, top in zip(names, tops, strict=True)
        if is_installed(_file(name))
    }
    known = [version for top, version in sorted(versions.items()) if version]
    return short_hash([*hashes, *known])


def _below(top: str) -> Iterator[Path]:
    """Yields the files below a package of the user's own, and in the folders beside it.

    `top` may also be a module outside packages. Nothing of modescope, which `source_id` covers.
    """
    if top not in sys.modules:
        return
    file = _file(top)
    folders = [Path(folder) for folder in getattr(sys.modules.get(top), "__path__", ())]
    if top == BUILT_IN.partition(".")[0] or is_installed(file):
        return
    for folder in folders:
        for inside, _, names in os.walk(folder):
            if not is_installed(f"{inside}/"):  # in an environment that lies there
                yield from (Path(inside, name) for name in names)
    for parent in {folder.parent for folder in folders} or {Path(file).parent}:
        yield from parent.glob("*/*")  # such as csrc/


def _file(module: str) -> str:
    return str(getattr(sys.modules.get(module), "__file__", None))


def _nvidia(nvidia_id: str) -> tuple[str | None, float | None]:
    """Returns a GPU's driver version and power limit in watts; a value is None if it is unknown.

    nvidia-smi does not take the id of a part of a GPU (MIG); for a part, only the driver is read.
    """
    query = ("--query-gpu=driver_version,power.limit", "--format=csv,noheader,nounits")
    text = _output("nvidia-smi", "-i", nvidia_id, *query)
    if text is None or "," not in text:
        version = re.match(r"[\d.]+", _output("nvidia-smi", *query) or "")
        return version[0] if version else None, None
    driver, limit = (part.strip() for part in text.splitlines()[0].split(",", 1))
    return driver, float(limit) if limit.replace(".", "", 1).isdigit() else None


def _git(*arguments: str) -> str | None:
    return _output("git", "-C", str(ROOT), *arguments)


def _output(*command: str) -> str | None:
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
