"""Whether another interpreter has what measuring needs. modescope itself need not be there."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

PYTHONS = ((3, 11), (3, 13))
"""Oldest and newest Python, as in pyproject.toml."""

NEEDED = {"torch": "2.11", "hydra-core": "1.3.8", "numpy": "2", "pyarrow": "22"}
"""Packages that the process of a side and its children import, and their oldest releases."""

TIMEOUT_S = 60

PROBE = """
import json, sys
version, packages = list(sys.version_info[:2]), {}
if version >= [3, 8]:
    from importlib import metadata
    for name in sys.argv[1:]:
        try:
            packages[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            pass
print(json.dumps([version, packages]))
"""


def problem(python: Path) -> str | None:
    """Why `python` cannot measure, as the rest of a sentence that begins with its name; or None."""
    command = [str(python), "-c", PROBE, *NEEDED]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True, cwd="/"
        )
        version, packages = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return "is no Python interpreter: it does not run `python -c`; name another file"
    return _version(tuple(version)) or _packages(python, packages)


def _version(version: tuple[int, ...]) -> str | None:
    oldest, newest = PYTHONS
    if oldest <= version <= newest:
        return None
    first, last, this = (".".join(map(str, each)) for each in (oldest, newest, version))
    return f"is Python {this}, and modescope needs {first} to {last}; make an environment of one"


def _packages(python: Path, packages: Mapping[str, str]) -> str | None:
    missing = [name for name in NEEDED if name not in packages]
    old = [
        name for name in packages
        if name not in missing and _release(packages[name]) < _release(NEEDED[name])
    ]  # fmt: skip
    if not missing and not old:
        return None
    lacks = [f"has no {' and no '.join(missing)}"] if missing else []
    lacks += [f"has {name} {packages[name]}, which is older than {NEEDED[name]}" for name in old]
    wanted = shlex.join(f"{name}>={NEEDED[name]}" for name in (*missing, *old))
    return (
        f"{' and '.join(lacks)}; install there: {shlex.quote(str(python))} -m pip install {wanted}"
    )


def _release(version: str) -> tuple[int, ...]:
    """`2.13.0+cpu` as (2, 13, 0)."""
    return tuple(map(int, re.findall(r"\d+", re.match(r"[\d.]*", version)[0])))  # type: ignore[index]
