"""What a claim needs, and why it is not there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence

from bench.claims.claim import Claim

NO_GPU = "no GPU: torch finds no CUDA device here"


def _no_compiler() -> str | None:
    name = os.environ.get("CXX", "g++")
    if shutil.which(name):
        return None
    return f"no C++ compiler: {name} is not there; install g++, or name yours in CXX"


# tool -> why it cannot be used here, None where it can
TOOLS: dict[str, Callable[[], str | None]] = {
    "compiler": _no_compiler,
}


def lacking(claim: Claim[object], devices: Sequence[str]) -> str | None:
    """Why the claim cannot be decided here, where one of `devices` (cpu, cuda:0) will do."""
    reasons = [reason for tool in claim.tools if (reason := TOOLS[tool]())]
    if not on(claim, devices):
        reasons.insert(0, NO_GPU)
    return "; ".join(reasons) or None


def on(claim: Claim[object], devices: Sequence[str]) -> list[str]:
    """The devices among those here on which the claim is observed."""
    return [device for device in devices if device.partition(":")[0] in claim.devices]
