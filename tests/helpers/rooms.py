"""The rooms of bench/ and analysis/, and who may import whom.

A new file needs no entry here; a new room is one line of `ROOMS`.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path

from tests.helpers.paths import ROOT

# Each room and the rooms that it may import, lowest first. Files of one room import each other
# freely, as long as no import leads back to the file or the folder it came from. A room may lie in
# another: the table of metrics is above the causes, which read what the rest of its room derives.
ROOMS = {
    "models": "",
    "bench.records": "",
    "bench.stats": "records",
    "bench.summary": "records stats",
    "bench.text": "",
    "bench.devices": "records",
    "bench.allocations": "devices",
    "bench.timing": "records stats devices",
    "bench.steps": "records devices",
    "bench.settings": "records steps",
    "bench.refusals": "records steps",
    "bench.resolve": "records settings",
    "bench.command_line": "records settings resolve",
    "bench.case": "records stats devices timing steps",
    "bench.sweep": "records summary devices steps settings refusals resolve command_line",
    "bench.cluster": "records resolve sweep",
    "bench.tools": "records stats text devices allocations timing steps case sweep",
    "bench.api": (
        "records stats text devices timing steps sweep analysis.derive analysis.load "
        "analysis.causes analysis.derive.registry analysis.recommend analysis.table analysis.why "
        "analysis.report"
    ),
    "bench.versus": "records resolve command_line sweep analysis.compare",
    "analysis.format": "bench.records bench.stats",
    "analysis.where": "bench.records",
    "analysis.changes": "bench.stats",
    "analysis.derive": "bench.records bench.stats bench.summary format changes",
    "analysis.load": "bench.records bench.stats bench.summary derive",
    "analysis.causes": "bench.records bench.stats format derive",
    "analysis.derive.registry": "bench.summary derive load causes",
    "analysis.nodes": "format derive",
    "analysis.recommend": "bench.records bench.stats format derive",
    "analysis.figures": "bench.stats bench.summary format derive",
    "analysis.cli": "bench.records load where",
    "analysis.compact": "bench.records cli",
    "analysis.restat": "cli compact load",
    "analysis.terminal": "format derive",
    "analysis.table": (
        "bench.records format derive analysis.derive.registry load causes changes cli where "
        "nodes recommend terminal"
    ),
    "analysis.why": "format causes derive analysis.derive.registry cli where",
    "analysis.report": (
        "bench.records bench.stats bench.text format derive load causes "
        "analysis.derive.registry nodes recommend figures cli where"
    ),
    "analysis.trend": "bench.records bench.stats changes compare cli where format load",
    "analysis.compare": (
        "bench.records bench.stats bench.text format derive analysis.derive.registry load where "
        "cli changes"
    ),
}

LOOSE_FILES_MAX = 7

TOPS = ("bench", "analysis", "models")
"""Folders of modules."""

Graph = dict[str, set[str]]
"""Modules, and the modules of ours that they import."""


def allowed() -> dict[str, set[str]]:
    """`ROOMS` with full names."""
    return {
        room: {
            name if "." in name else f"{room.partition('.')[0]}.{name}" for name in names.split()
        }
        for room, names in ROOMS.items()
    }


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


def graph(names: Mapping[str, set[str]]) -> Graph:
    """The modules of ours among the imports."""
    ours = {f"modescope.{module}": module for module in names}
    return {
        module: {ours[target] for target in targets if target in ours}
        for module, targets in names.items()
    }


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


def forbidden_imports(modules: Graph) -> Iterator[str]:
    """Imports from room to room that `ROOMS` does not allow. Loose files may import every room."""
    may: dict[str, set[str | None]] = {room: {*names} for room, names in allowed().items()}
    for module, targets in sorted(modules.items()):
        room = room_of(module)
        for target in sorted(targets):
            other = room_of(target)
            if target in ("bench", "analysis"):  # the package of an imported module
                continue
            if room and other != room and other not in may[room]:
                yield f"{module} imports {target}"


def mutual(modules: Graph) -> Iterator[str]:
    """Folders of one room that import each other; its own files count as a folder."""
    folders = {module.rpartition(".")[0] for module in modules}

    def folder(module: str) -> str:
        return module if module in folders else module.rpartition(".")[0]

    for room in ROOMS:
        below: Graph = {}
        for module, targets in sorted(modules.items()):
            if room_of(module) == room:
                inside = {folder(each) for each in targets - folders if room_of(each) == room}
                below.setdefault(folder(module), set()).update(inside - {folder(module)})
        try:
            TopologicalSorter(below).prepare()
        except CycleError as error:
            yield f"folders of {room} import each other: {' -> '.join(error.args[1])}"


def unused(modules: Graph) -> Iterator[str]:
    """Imports between rooms that `ROOMS` allows and no module makes."""
    used = {(room_of(one), room_of(other)) for one, others in modules.items() for other in others}
    for room, others in allowed().items():
        yield from (
            f"{room} may import {other}, and does not"
            for other in sorted(others)
            if (room, other) not in used
        )


def broken(names: Mapping[str, set[str]]) -> Iterator[str]:
    """A line for each rule that these modules and their imports break."""
    yield from misnamed(names)
    edges = graph(names)
    yield from forbidden_imports(edges)
    yield from mutual(edges)
    yield from unused(edges)
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        yield f"imports in a circle: {' -> '.join(error.args[1])}"
    files = (name for name in names if name.count(".") == 1 and name not in ROOMS)
    loose = Counter(name.partition(".")[0] for name in files)
    for top in ("bench", "analysis"):
        if loose[top] > LOOSE_FILES_MAX:
            yield f"{top}/ has {loose[top]} loose files, allowed are {LOOSE_FILES_MAX}"
