"""Which folders (rooms) of bench/ and analysis/ may import which, and a check of all imports.

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
    *("analysis.table", "analysis.why", "analysis.report"),
    *("analysis.compare", "analysis.trend"),
    *("bench.api", "bench.versus"),
)

SHARED = {"bench.records", "bench.stats", "bench.summary", "bench.text"}
"""The rooms of bench that analysis may import."""

TOPS = ("bench", "analysis", "models")
"""Folders whose modules belong to modescope."""


def modules() -> dict[str, Path]:
    """Name of each module below `modescope`, such as bench.calls -> its file."""
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
    """Name of each module -> the full names of all that it imports."""
    names = {}
    for module, path in modules().items():
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        names[module] = imported(path.read_text(encoding="utf-8"), f"modescope.{package}")
    return names


def misnamed(names: Mapping[str, set[str]]) -> Iterator[str]:
    """A line for each import of ours without `modescope.`, which would load a second copy."""
    for module, targets in sorted(names.items()):
        for target in sorted(targets):
            if target.partition(".")[0] in TOPS:
                yield f"{module} imports {target}, which is modescope.{target}"


def room_of(module: str) -> str | None:
    """The innermost room of a module; None for one that is in no room."""
    around = (room for room in ROOMS if module == room or module.startswith(f"{room}."))
    return max(around, key=len, default=None)


def forbidden_imports(modules: Mapping[str, set[str]]) -> Iterator[str]:
    """A line for each import against the order of ROOMS, or by analysis of bench beyond SHARED.

    A file in no room may import every room, and no room may import it.
    """
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
    """A line for each rule that is broken by `names`: modules and what they import."""
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
