"""Imports between rooms, read from the source. The table is `ROOMS` in tests/helpers/rooms.py."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.helpers import rooms
from tests.helpers.paths import ROOT

MODULES = rooms.modules()
IMPORTS = rooms.imports()
TEXTS = {name: path.read_text(encoding="utf-8") for name, path in MODULES.items()}

WITHOUT_TORCH = {
    *("bench.records", "bench.stats", "bench.text", "bench.settings", "bench.refusals"),
    *("bench.resolve", "bench.command_line", "bench.sweep", "bench.cluster"),
    *("bench.run", "bench.versus"),
}
"""Rooms of the process that the user starts, like all of analysis/; only children import torch."""

IN_CHILDREN = {"bench.sweep.host"}
"""Modules of those rooms that only children import."""

SAY_TORCH_CUDA = {
    "analysis.recommend.code",  # in the lines that it prints
    "bench.devices.cuda",
    "bench.devices.cuda_allocator",
    "bench.tools.claims.cuda",  # its statements are about it
}


def test_no_import_breaks_a_rule() -> None:
    assert list(rooms.broken(IMPORTS)) == []


@pytest.mark.parametrize(
    ("module", "target", "fault"),
    [
        ("bench.timing.timers", "modescope.bench.case.runner", "bench.timing.timers imports bench"),
        ("bench.timing.timers", "modescope.bench.timing.comparison", "imports in a circle: bench"),
        ("analysis.load", "modescope.bench.timing.pace", "analysis.load imports bench.timing"),
        ("analysis.table", "analysis.causes.types", "analysis.table imports analysis.causes"),
    ],
)
def test_a_planted_import_breaks_its_rule(module: str, target: str, fault: str) -> None:
    planted = {**IMPORTS, module: {*IMPORTS[module], target}}
    assert any(each.startswith(fault) for each in rooms.broken(planted))


def test_models_and_the_rest_do_not_import_each_other() -> None:
    for module, names in IMPORTS.items():
        ours = {name.split(".")[1] for name in names if name.startswith("modescope.")}
        tops = {name.partition(".")[0] for name in names}
        assert not tops & {"tests", "run", "conf"}, module
        if module.startswith("models"):
            assert ours <= {"models"}, module
            assert not tops & {"hydra", "omegaconf"}, module
        else:
            assert "models" not in ours, module


def test_tests_import_no_other_tests_and_by_the_name_modescope() -> None:
    names = {
        str(path.relative_to(ROOT)): rooms.imported(path.read_text(encoding="utf-8"), "tests")
        for path in (ROOT / "run.py", *(ROOT / "tests").rglob("*.py"))
    }
    assert list(rooms.misnamed(names)) == []
    tests = re.compile(r"tests\.(.*\.)?(test_\w+|conftest)$")
    assert {
        path: found for path, each in names.items() if (found := [*filter(tests.match, each)])
    } == {}


def test_test_folders_mirror_the_rooms() -> None:
    for top in ("bench", "analysis"):
        for path in (ROOT / "tests" / top).rglob("test_*.py"):
            assert (ROOT / path.parent.relative_to(ROOT / "tests")).is_dir(), path


def test_records_import_only_the_standard_library_and_pyarrow() -> None:
    known = {*sys.stdlib_module_names, "modescope", "bench", "pyarrow"}
    for module, names in IMPORTS.items():
        if rooms.room_of(module) == "bench.records":
            assert {name.partition(".")[0] for name in names} <= known, module


def test_only_devices_name_torch_cuda() -> None:
    named = re.compile(r"torch\.cuda|from torch import .*\bcuda|import torch as")
    assert {name for name, text in TEXTS.items() if named.search(text)} == SAY_TORCH_CUDA


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
