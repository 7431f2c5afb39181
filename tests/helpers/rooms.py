"""The order of the rooms of bench/ and analysis/, in which they may import each other.

A new file needs no entry here; a new room is a name in `ROOMS`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path

from tests.helpers.paths import ROOT

# Lowest first: a module imports its own room and those before it. Files of a
# room import each other freely, without a circle. A room may lie in another: the table of
# metrics comes after the causes, which read what the rest of its room derives.
ROOMS = (
    *("bench.records", "bench.stats", "bench.summary", "bench.text"),
    *("bench.devices", "bench.allocations", "bench.timing", "bench.steps", "bench.case"),
    *("bench.settings", "bench.calls", "bench.refusals", "bench.resolve", "bench.command_line"),
    *("bench.sweep", "bench.cluster", "bench.tools"),
    *("analysis.format", "analysis.where", "analysis.changes", "analysis.derive", "analysis.load"),
    *("analysis.causes", "analysis.derive.registry", "analysis.nodes", "analysis.recommend"),
    *("analysis.figures", "analysis.cli", "analysis.compact", "analysis.restat"),
    *("analysis.terminal", "analysis.table", "analysis.why", "analysis.report"),
    *("analysis.compare", "analysis.trend"),
    *("bench.api", "bench.versus"),
)

SHARED = {"bench.records", "bench.stats", "bench.summary", "bench.text"}
"""All that analysis knows of bench."""

TOPS = ("bench", "analysis", "models")
"""Folders of modules."""


def modules() -> dict[str, Path]:
    """Files by their names below `modescope`."""
    paths = (path for top in TOPS for path in (ROOT / top).rglob("*.py"))
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in paths
    }


def imported(source: str, package: str) -> set[str]:
    """Absolute names imported anywhere in `source`; `from a import b` gives a and a.b."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            names |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    return names


def imports() -> dict[str, set[str]]:
    """Modules, and the full names of all their imports."""
    names = {}
    for module, path in modules().items():
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        names[module] = imported(path.read_text(encoding="utf-8"), f"modescope.{package}")
    return names


def misnamed(names: Mapping[str, set[str]]) -> Iterator[str]:
    """Imports of ours by another name than below `modescope`: each would be a second module."""
    for module, targets in sorted(names.items()):
        for target in sorted(targets):
            if target.partition(".")[0] in TOPS:
                yield f"{module} imports {target}, which is modescope.{target}"


def room_of(module: str) -> str | None:
    """The innermost room that a module lies in; None for a loose file."""
    around = (room for room in ROOMS if module == room or module.startswith(f"{room}."))
    return max(around, key=len, default=None)


def forbidden_imports(modules: Mapping[str, set[str]]) -> Iterator[str]:
    """Imports against the order of `ROOMS`, or beyond `SHARED`. Loose files may import every room,
    and no room imports them."""
    for module, targets in sorted(modules.items()):
        room = room_of(module)
        for target in sorted(targets - {"bench", "analysis"}):  # packages of imported modules
            other = room_of(target)
            if room is None or other == room:
                continue
            crosses = room.startswith("analysis") and target.startswith("bench")
            later = other is None or ROOMS.index(other) > ROOMS.index(room)
            if later or (crosses and other not in SHARED):
                yield f"{module} imports {target}"


def broken(names: Mapping[str, set[str]]) -> Iterator[str]:
    """A line for each rule that these modules and their imports break."""
    yield from misnamed(names)
    ours = {f"modescope.{module}": module for module in names}
    edges = {
        module: {ours[target] for target in targets if target in ours}
        for module, targets in names.items()
    }
    yield from forbidden_imports(edges)
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        yield f"imports in a circle: {' -> '.join(error.args[1])}"
