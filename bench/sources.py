"""Hashes of the Python source that decides what is measured, so that edits are noticed."""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
from collections.abc import Collection
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("bench", "models")

INSTALLED = tuple(
    sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")
)


def suite_id(root: Path = ROOT) -> str:
    """Hash of everything in bench/ and models/, names included."""
    digest = hashlib.sha256()
    for folder in FOLDERS:
        for file in sorted((root / folder).rglob("*.py")):
            digest.update(file.relative_to(root).as_posix().encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def model_id(target: str, modules_before: Collection[str]) -> str:
    """Hash of the file of `target` ("module:function") and of all that was imported with it.

    That is, of the modules that came since `modules_before`, installed packages left out.
    """
    own = target.partition(":")[0]
    names = {own, *(set(sys.modules) - set(modules_before))}
    files = {str(getattr(sys.modules.get(name), "__file__", None)) for name in names}
    digest = hashlib.sha256()
    for file in sorted(file for file in files if file.endswith(".py")):
        if not file.startswith(INSTALLED) or file == sys.modules[own].__file__:
            digest.update(Path(file).read_bytes())
    return digest.hexdigest()[:16]
