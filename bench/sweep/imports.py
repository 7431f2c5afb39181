"""Finds the files that modules import, without running them. Standard library only."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import resolve_name
from pathlib import Path

from modescope.bench.records.paths import is_installed


def files(modules: Iterable[str]) -> set[str]:
    """Returns the files of `modules` and of all that these import, also within functions.

    Files of installed packages are left out, and imports by a name that is only known when it runs.
    """
    left, known, found = list(modules), set[str](), set[str]()
    while left:
        name = left.pop()
        if name in known:
            continue
        known.add(name)
        spec = _find(name)
        if spec is None or not spec.origin or is_installed(spec.origin):
            continue
        if Path(spec.origin).is_file():
            found.add(spec.origin)
        if spec.origin.endswith(".py"):
            inside = name if spec.submodule_search_locations else name.rpartition(".")[0]
            left += _imported(Path(spec.origin), inside)
        if parent := name.rpartition(".")[0]:
            left.append(parent)  # whose __init__ runs first
    return found


def _find(name: str) -> ModuleSpec | None:
    spec, path, parts = None, None, name.split(".")
    for count in range(1, len(parts) + 1):
        full = ".".join(parts[:count])
        # a package installed to be edited may be known to a finder of its own alone
        loaded = getattr(sys.modules.get(full), "__spec__", None)
        spec = loaded or PathFinder.find_spec(full, path)
        if spec is None or (count == 1 and spec.origin and is_installed(spec.origin)):
            return None
        path = spec.submodule_search_locations
        if path is None and count < len(parts):
            return None
    return spec


def _imported(file: Path, package: str) -> Iterator[str]:
    """Yields names that may be modules: of `from a import b` both `a` and `a.b`."""
    try:
        tree = ast.parse(file.read_bytes())
    except SyntaxError:  # which the import itself will tell
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (package or not node.level):
            try:
                base = resolve_name("." * node.level + (node.module or ""), package)
            except ImportError:  # beyond the top package
                continue
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
