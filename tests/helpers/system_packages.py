"""Looks for system packages that tests need, and installs them if this process is root's."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Collection
from pathlib import Path

LIMIT_S = 600


def missing(programs: Collection[str], *packages: str) -> str | None:
    """Installs `packages` if programs are missing; why some are missing still, or None."""
    if all(map(shutil.which, programs)):
        return None
    apt, wanted = shutil.which("apt-get"), " ".join(packages)
    if apt is None or os.geteuid() != 0:
        return f"needs {wanted}, which root's apt-get would install"
    quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    known = any(Path("/var/lib/apt/lists").glob("*_Packages*"))
    for words in ([] if known else [["update"]]) + [["install", "--yes", *packages]]:
        done = subprocess.run([apt, *words], env=quiet, capture_output=True, timeout=LIMIT_S)
        if done.returncode:
            return f"needs {wanted}, and apt-get failed: {done.stderr.decode().strip()[-200:]}"
    return None if all(map(shutil.which, programs)) else f"{wanted} gave no {programs}"
