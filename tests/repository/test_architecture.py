"""Imports between rooms, the folders of bench/ and analysis/, read from the source."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path

import pytest

from tests.helpers.paths import ROOT

ROOMS = (
    "models.cpp_library",
    *("bench.records", "bench.stats", "bench.summary", "bench.text"),
    *("bench.devices", "bench.allocations", "bench.timing"),
    *(
        "bench.model",
        "bench.modes",
        "bench.evidence",
        "bench.watching",
        "bench.passes",
        "bench.checking",
        "bench.case",
    ),
    "bench.mistakes",
    *("bench.settings", "bench.settings_help", "bench.calls", "bench.refusals"),
    *("bench.resolve", "bench.command_line"),
    *("bench.sweep", "bench.cluster", "bench.tools"),
    *("analysis.folders", "analysis.rows", "analysis.estimates"),
    *("analysis.format", "analysis.changes"),
    *("analysis.derive", "analysis.load", "analysis.causes", "analysis.metrics"),
    "analysis.watched",
    *("analysis.where", "analysis.chosen", "analysis.nodes", "analysis.recommend"),
    *("analysis.figures", "analysis.cli", "analysis.compact", "analysis.restat"),
    *(
        "analysis.snapshot",
        "analysis.terminal",
        "analysis.table",
        "analysis.why",
        "analysis.report",
    ),
    *("analysis.compare", "analysis.trend"),
    *("bench.run", "bench.api", "bench.versus"),
)
"""Lowest first: a module imports its own room and those before it. Files of a room import each
other freely, without a circle. A new file needs no entry; a new room does. Of models/ only the
loader of C++ is a room, because claims use it, too."""

SHARED = (*ROOMS[1:5], *(f"bench.modes.{name}" for name in ("axes", "backends", "cache_program")))
"""What of bench analysis may import: rooms, and tables of what modes, and programs, are made of."""

WITHOUT_TORCH = {
    *("bench.records", "bench.stats", "bench.text", "bench.settings", "bench.refusals"),
    *("bench.settings_help", "bench.mistakes"),
    *("bench.resolve", "bench.command_line", "bench.sweep", "bench.cluster"),
    *("bench.run", "bench.versus"),
}
"""Rooms of the process that the user starts, like all of analysis/; only children import torch."""

IN_CHILDREN = {"bench.sweep.host"}
"""Modules of those rooms that only children import."""

Imports = dict[str, set[str]]
"""Name of each module, such as bench.calls -> the names of those that it imports."""


def imported(path: Path) -> set[str]:
    """Absolute names imported anywhere in a file; `from a import b` gives a and a.b."""
    package = ".".join(["modescope", *path.relative_to(ROOT).parent.parts])
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            names |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    return names


FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for top in ("bench", "analysis", "models")
    for path in (ROOT / top).rglob("*.py")
}
ALL = {module: imported(path) for module, path in FILES.items()}
OURS = {
    module: {name.removeprefix("modescope.") for name in names if name.startswith("modescope.")}
    & {*FILES} - {"bench", "analysis", "models"}  # packages of imported modules
    for module, names in ALL.items()
}


def room_of(module: str) -> str | None:
    """The innermost room of a module; None for one that is in no room."""
    around = (room for room in ROOMS if module == room or module.startswith(f"{room}."))
    return max(around, key=len, default=None)


def forbidden(imports: Imports) -> Iterator[str]:
    """A line for each import against the order of ROOMS, or by analysis of bench beyond SHARED.

    A file in no room may import every room, and no room may import it.
    """
    for module, targets in imports.items():
        room = room_of(module)
        for target in targets:
            other = room_of(target)
            if room is None or other == room:
                continue
            crosses = room.startswith("analysis") and target.startswith("bench")
            later = other is None or ROOMS.index(other) > ROOMS.index(room)
            if later or (crosses and not {other, target} & {*SHARED}):
                yield f"{module} imports {target}"


def test_imports_run_one_way() -> None:
    assert list(forbidden(OURS)) == []
    TopologicalSorter(OURS).prepare()  # raises CycleError


@pytest.mark.parametrize(
    ("module", "target"),
    [
        ("bench.timing.timers", "bench.case.runner"),
        ("analysis.load", "bench.timing.pace"),
        ("bench.timing.timers", "models.mlp"),
    ],
)
def test_a_planted_import_is_forbidden(module: str, target: str) -> None:
    assert list(forbidden({module: {target}})) == [f"{module} imports {target}"]


def test_modules_of_ours_are_imported_by_the_name_modescope() -> None:
    """Another name would load a second copy."""
    others = {
        str(path): imported(path) for path in (ROOT / "run.py", *(ROOT / "tests").rglob("*.py"))
    }
    for name, names in (ALL | others).items():
        tops = {each.partition(".")[0] for each in names}
        assert not tops & {"bench", "analysis", "models"}, name
        assert name in others or not tops & {"tests", "run"}, name


def test_models_import_nothing_of_the_rest() -> None:
    for module in FILES:
        if module.startswith("models"):
            assert {name.partition(".")[0] for name in OURS[module]} <= {"models"}
            assert not {name.partition(".")[0] for name in ALL[module]} & {"hydra", "omegaconf"}


def test_records_import_only_the_standard_library_and_pyarrow() -> None:
    for module, names in ALL.items():
        if room_of(module) == "bench.records":
            tops = {name.partition(".")[0] for name in names}
            assert tops <= {*sys.stdlib_module_names, "modescope", "pyarrow"}, module


def test_command_lines_do_not_import_torch() -> None:
    """With every module of the rooms that run there."""
    names = {
        f"modescope.{module}"
        for module in FILES.keys() - IN_CHILDREN
        if room_of(module) in WITHOUT_TORCH or module.startswith("analysis")
    }
    assert len(names) > 70
    code = f"import sys, run, {', '.join(sorted(names))}; sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr or "torch was imported"


def test_a_process_that_measures_imports_the_compiler_only_when_it_compiles() -> None:
    """Which takes 2.5 s of CPU."""
    code = (
        "import sys, modescope.bench.case.runner, modescope.bench.case.packaging;"
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr or "torch._dynamo was imported"
