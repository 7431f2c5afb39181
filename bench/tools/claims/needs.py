"""What a claim needs, and why it is not there."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Sequence

from modescope.bench.tools.claims.claim import Claim

NO_GPU = "no GPU: torch finds no CUDA device here"


def compiler_command() -> list[str]:
    """The C++ compiler as CXX has it, which may be several words (ccache g++); g++ if it is empty.

    Raises ValueError where a quote in CXX is not closed.
    """
    return shlex.split(os.environ.get("CXX", "")) or ["g++"]


def _no_compiler() -> str | None:
    try:
        name = compiler_command()[0]
    except ValueError as error:
        return f"no C++ compiler: CXX is {os.environ['CXX']!r}: {error}"
    if shutil.which(name):
        return None
    return f"no C++ compiler: {name} is not there; install g++, or name yours in CXX"


def _no_inductor() -> str | None:
    """Inductor takes CXX, where it is set, for the name of one program."""
    name = os.environ.get("CXX", "g++")
    if shutil.which(name):
        return None
    return (
        f"no C++ compiler for torch.compile: there is no program {name!r}; install g++, or name "
        "yours in CXX, in one word"
    )


# tool -> why it cannot be used here, None where it can
TOOLS: dict[str, Callable[[], str | None]] = {
    "compiler": _no_compiler,
    "inductor": _no_inductor,  # on the CPU; on a GPU alone it asks for no C++ compiler
}


def lacking(claim: Claim, devices: Sequence[str]) -> str | None:
    """Why the claim cannot be decided here, where one of `devices` (cpu, cuda:0) will do."""
    reasons = [reason for tool in claim.tools if (reason := TOOLS[tool]())]
    if not on(claim, devices):
        reasons.insert(0, NO_GPU)
    return "; ".join(reasons) or None


def on(claim: Claim, devices: Sequence[str]) -> list[str]:
    """The devices among those here on which the claim is observed."""
    return [device for device in devices if device.partition(":")[0] in claim.devices]
