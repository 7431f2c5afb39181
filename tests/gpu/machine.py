"""Prints, as JSON, which GPU torch finds: `python -m tests.gpu.machine`. Fails without one."""

from __future__ import annotations

import json
import platform
import sys
from dataclasses import asdict

import torch

from modescope.bench.devices.cuda import find
from modescope.bench.records.errors import UsageError
from modescope.bench.sweep import host
from tests.gpu.log import Machine
from tests.gpu.pretending import pretends


def read() -> Machine:
    """Returns the machine; raises UsageError if torch finds no GPU."""
    gpu = find("cuda")
    driver = host.read(lambda phase, keep=None: None, "cuda").environment.driver_version
    return Machine(
        gpu.facts().name, torch.__version__, torch.version.cuda, driver, platform.python_version(),
        pretends(),
    )  # fmt: skip


if __name__ == "__main__":
    try:
        print(json.dumps(asdict(read())))
    except UsageError as error:
        sys.exit(f"error: {error}")
