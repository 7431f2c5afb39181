"""Imports between rooms, read from the source. The table is `ROOMS` in tests/helpers/rooms.py."""

from __future__ import annotations

import ast
import re
import subprocess
import sys

import pytest

from tests.helpers import rooms
from tests.helpers.paths import ROOT

MODULES = rooms.modules()
IMPORTS = rooms.imports()

STANDARD_LIBRARY = {"bench.records": {"pyarrow"}}
"""Rooms that import only the standard library, and the exceptions."""

WITHOUT_TORCH = {
    "bench.records",
    "bench.stats",
    "bench.text",
    "bench.settings",
    "bench.refusals",
    "bench.resolve",
    "bench.command_line",
    "bench.sweep",
    "bench.versus",
    "bench.cluster",
}
"""Rooms of the process that the user starts, like all of analysis/; only children import torch."""

IN_CHILDREN = {
    "bench.sweep.host",
    "bench.cluster.submitted",
}
"""Modules of those rooms that only children import."""

SAY_TORCH_CUDA = {
    "analysis.recommend.code",  # in the lines that it prints
    "bench.devices.cuda",
    "bench.devices.cuda_allocator",
    "bench.tools.claims.cuda",  # its statements are about it
}


def torch_cuda_uses(source: str) -> list[int]:
    """Lines that name torch.cuda: in text, by import or through an alias of torch."""
    if "torch" not in source:
        return []
    lines = [n for n, line in enumerate(source.splitlines(), 1) if "torch.cuda" in line]
    tree = ast.parse(source)
    aliases = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == "torch"
    }
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr="cuda") if name in aliases:
                lines.append(node.lineno)
            case ast.ImportFrom(module="torch", names=names):
                lines += [node.lineno for alias in names if alias.name == "cuda"]
    return sorted(set(lines))


def test_no_import_breaks_a_rule() -> None:
    assert list(rooms.broken(IMPORTS)) == []


def test_models_and_the_rest_do_not_import_each_other() -> None:
    for module, names in IMPORTS.items():
        ours = {name.split(".")[1] for name in names if name.startswith("modescope.")}
        if module.startswith("models"):
            assert ours <= {"models"}, module
            assert not {name.partition(".")[0] for name in names} & {"hydra", "omegaconf"}, module
        else:
            assert "models" not in ours, module


def test_no_module_imports_tests_conf_or_run() -> None:
    for module, names in IMPORTS.items():
        assert not {name.partition(".")[0] for name in names} & {"tests", "run", "conf"}, module


@pytest.fixture(scope="module")
def of_tests() -> dict[str, set[str]]:
    """Files of the tests and run.py, and all names that they import."""
    return {
        str(path.relative_to(ROOT)): rooms.imported(path.read_text(encoding="utf-8"), "tests")
        for path in (ROOT / "run.py", *(ROOT / "tests").rglob("*.py"))
    }


def test_tests_do_not_import_other_tests(of_tests: dict[str, set[str]]) -> None:
    for path, names in of_tests.items():
        for name in names:
            last = name.rpartition(".")[2]
            test = last.startswith("test_") or last == "conftest"
            assert not (test and name.startswith("tests.")), (path, name)


def test_tests_import_by_the_name_modescope(of_tests: dict[str, set[str]]) -> None:
    assert list(rooms.misnamed(of_tests)) == []


def test_test_folders_mirror_the_rooms() -> None:
    folders = {
        path.parent
        for top in ("bench", "analysis")
        for path in (ROOT / "tests" / top).rglob("test_*.py")
    }
    for folder in folders - {ROOT / "tests" / "analysis", ROOT / "tests" / "bench"}:
        assert (ROOT / folder.relative_to(ROOT / "tests")).is_dir(), folder


@pytest.mark.parametrize(
    ("module", "target", "fault"),
    [
        ("bench.timing.timers", "modescope.bench.case.runner", "bench.timing.timers imports bench"),
        (
            "bench.stats.orders",
            "modescope.analysis.format.columns",
            "bench.stats.orders imports an",
        ),
        ("bench.timing.timers", "modescope.bench.timing.comparison", "imports in a circle: bench"),
        ("bench.devices.cuda", "modescope.analysis.where", "bench.devices.cuda imports analysis"),
        ("analysis.load", "modescope.bench.timing.pace", "analysis.load imports bench.timing"),
        (
            "analysis.table",
            "analysis.causes.types",
            "analysis.table imports analysis.causes.types,",
        ),
    ],
)
def test_a_planted_import_breaks_its_rule(module: str, target: str, fault: str) -> None:
    planted = {**IMPORTS, module: {*IMPORTS[module], target}}
    assert any(each.startswith(fault) for each in rooms.broken(planted))


def test_an_eighth_loose_file_breaks_the_rule() -> None:
    loose = {f"bench.loose_{number}": set[str]() for number in range(8)}
    assert any("bench/ has" in each for each in rooms.broken({**IMPORTS, **loose}))


def test_private_names_of_hydra_appear_nowhere() -> None:
    private = re.compile(r"hydra\._|hydra_plugins|\bimport _\w+ from hydra")
    for path in (ROOT / "run.py", *MODULES.values(), *(ROOT / "conf").rglob("*.yaml")):
        assert not private.search(path.read_text(encoding="utf-8")), path


@pytest.mark.parametrize("room", STANDARD_LIBRARY)
def test_records_import_only_the_standard_library_and_pyarrow(room: str) -> None:
    known = {*sys.stdlib_module_names, "modescope", "bench", *STANDARD_LIBRARY[room]}
    for module, names in IMPORTS.items():
        if rooms.room_of(module) == room:
            assert {name.partition(".")[0] for name in names} <= known, module


def test_only_devices_name_torch_cuda() -> None:
    texts = {name: path.read_text(encoding="utf-8") for name, path in MODULES.items()}
    assert {name for name, text in texts.items() if torch_cuda_uses(text)} <= SAY_TORCH_CUDA


def test_command_lines_do_not_import_torch() -> None:
    """With every module of the rooms that run there."""
    names = {
        f"modescope.{module}"
        for module in set(MODULES) - IN_CHILDREN
        if rooms.room_of(module) in WITHOUT_TORCH or module.startswith("analysis")
    }
    assert len(names) > 100
    code = f"import sys, run, {', '.join(sorted(names))}; sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr or "torch was imported"


def test_imports_are_found_inside_functions_and_relative_ones_too() -> None:
    source = "import a.b as c\ndef f():\n from . import d\n from ..e import f\n from g import h"
    found = rooms.imported(source, package="top.sub")
    assert found == {"a.b", "top.sub", "top.sub.d", "top.e", "top.e.f", "g", "g.h"}


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("import torch\n\ntorch.cuda.synchronize()", [3]),
        ("import torch as t\nt.cuda.synchronize()", [2]),
        ("from torch import cuda", [1]),
        ("import torch.cuda as c", [1]),
        ("import torch\nprint(torch.version.cuda)", []),
    ],
)
def test_torch_cuda_is_found_under_any_name(source: str, lines: list[int]) -> None:
    assert torch_cuda_uses(source) == lines
