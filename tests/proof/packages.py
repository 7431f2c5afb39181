"""The versions that the steps run with: `python -m tests.proof.packages`."""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
import sys

from tests.proof.wheels import name_of, requirements

QUERY = "name,driver_version,power.limit,memory.total,clocks.max.sm"


def version(package: str) -> str | None:
    """The installed version; None where there is none."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def main() -> int:
    """Prints each package and the driver's facts; status 1 where a package is missing."""
    missing = []
    for requirement in ("torch>=2.11", *requirements()):
        found = version(name_of(requirement))
        optional = name_of(requirement) == "nvidia-ml-py"
        if found is None and not optional:
            missing.append(requirement)
        print(f"{requirement:28} {found or ('missing, optional' if optional else 'MISSING')}")
    print(f"Python {sys.version.split()[0]}, triton {version('triton') or 'not installed'}")
    if smi := shutil.which("nvidia-smi"):
        query = [smi, f"--query-gpu={QUERY}", "--format=csv"]
        print(subprocess.run(query, capture_output=True, text=True, timeout=30).stdout.strip())
    if missing:
        print(f"error: not installed: {', '.join(missing)}", file=sys.stderr)
    return int(bool(missing))


if __name__ == "__main__":
    sys.exit(main())
