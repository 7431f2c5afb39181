"""Which edits make earlier rows incomparable."""

from __future__ import annotations

import ast
import importlib
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from modescope.bench.records.environment import Environment
from modescope.bench.sweep.host import fingerprint
from modescope.bench.sweep.host.fingerprint import environment_id, model_id, source_id
from tests.helpers.made_up_records import part
from tests.helpers.paths import ROOT


@pytest.fixture
def root(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "bench", tmp_path / "bench")
    return tmp_path


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), encoding="utf-8")


@pytest.fixture(scope="module")
def here() -> str:
    return source_id()


def test_a_copy_in_another_folder_has_the_same_fingerprint(root: Path, here: str) -> None:
    assert source_id(root) == here


def test_files_beside_the_sources_do_not_change_the_fingerprint(root: Path, here: str) -> None:
    (root / "__init__.py").touch()  # as in a wheel
    root.with_suffix(".py").write_text("not Python")
    assert source_id(root) == here


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("bench/timing/timers.py", "HOST_CALLS = 5", "HOST_CALLS = 6"),
        ("bench/timing/timers.py", "keep(clock() - start)", "keep(clock() - start + 1e-9)"),
        ("bench/steps/modes.py", "torch.no_grad", "torch.enable_grad"),
        ("bench/case/memory.py", "2", "3"),
        ("bench/sweep/process/compiler_cache.py", "TRITON_CACHE_DIR", "TRITON_HOME"),
        ("bench/records/cases.py", 'optimizer: str = "sgd"', 'optimizer: str = "adamw"'),
    ],
)
def test_an_edit_of_measuring_code_changes_the_fingerprint(
    root: Path, here: str, file: str, old: str, new: str
) -> None:
    edit(root / file, old, new)
    assert source_id(root) != here


@pytest.mark.full
@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("bench/tools/claims/views.py", '"""', '"""A remark. '),
        (
            "bench/tools/claims/views.py",
            "import torch",
            "import torch\n\nREMARK = 1",
        ),
        ("bench/tools/selfcheck/checks.py", "CHECKS", "REMARK = CHECKS"),
        ("bench/text/tables.py", "UNKNOWN", "REMARK = UNKNOWN"),
        ("bench/timing/timers.py", '"""', '"""A remark. '),
        ("bench/timing/timers.py", "HOST_CALLS = 5", "HOST_CALLS = 5  # a remark"),
        ("bench/records/columns.py", 'nullable("graphs', 'nullable("a remark: graphs'),
        ("bench/records/results.py", 'column("start', 'column("a remark: start'),
    ],
)
def test_an_edit_of_other_code_keeps_the_fingerprint(
    root: Path, here: str, file: str, old: str, new: str
) -> None:
    edit(root / file, old, new)
    assert source_id(root) == here


class Renamed(ast.NodeTransformer):
    """Imports of the module `old` -> of `new`, in a statement of its own."""

    def __init__(self, old: str, new: str) -> None:
        self.old, self.new = old, new

    def visit_ImportFrom(self, node: ast.ImportFrom) -> list[ast.AST]:
        package, _, name = self.old.rpartition(".")
        moved = [a for a in node.names if (node.module, a.name) == (package, name)]
        others = [a for a in node.names if a not in moved]
        module = self.new if node.module == self.old else node.module
        statements: list[ast.AST] = [ast.ImportFrom(module, others, node.level)] if others else []
        if moved:
            statements.append(ast.ImportFrom(self.new.rpartition(".")[0], moved, 0))
        return statements


def move(root: Path, old: str, new: str) -> None:
    """Moves a module, such as modescope.bench.timing.timers, and edits its importers."""
    source, target = (root.joinpath(*name.split(".")[1:]).with_suffix(".py") for name in (old, new))
    target.parent.mkdir(exist_ok=True)
    source.rename(target)
    (target.parent / "__init__.py").touch()
    for file in (root / "bench").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        renamed = Renamed(old, new).visit(ast.parse(text.replace(f"{old}:", f"{new}:")))
        file.write_text(ast.unparse(renamed), encoding="utf-8")


@pytest.mark.full
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("modescope.bench.timing.timers", "modescope.bench.clocks.timers"),
        ("modescope.bench.devices.nvml", "modescope.bench.hardware.nvml"),
        ("modescope.bench.steps.training.overflow", "modescope.bench.checks.overflow"),
    ],
)
def test_a_moved_file_keeps_the_fingerprint(root: Path, here: str, old: str, new: str) -> None:
    move(root, old, new)
    assert source_id(root) == here
    with root.joinpath(*new.split(".")[1:]).with_suffix(".py").open("a") as file:
        file.write("\nLIMIT = 1\n")
    assert source_id(root) != here


def test_measuring_code_is_found_by_its_imports() -> None:
    modules = set(fingerprint._modules(ROOT))
    assert modules >= {
        "modescope.bench.case.runner",
        "modescope.bench.timing.timers",
        "modescope.bench.case.profiler.events",
        "modescope.bench.devices.devices",
    }
    tools = ("claims", "selfcheck", "testbed", "instructions", "pages", "sweep", "config")
    assert not [name for name in modules if name.split(".")[1:2] and name.split(".")[1] in tools]


def test_the_version_of_an_installed_model_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    importlib.import_module("torch.nn")
    before = model_id("torch.nn:LSTM", set(sys.modules))
    monkeypatch.setattr("torch.__version__", "0.1")
    assert model_id("torch.nn:LSTM", set(sys.modules)) != before


@pytest.mark.parametrize(
    ("edited", "counts"),
    [("net.py", True), ("layers.py", True), ("unrelated.py", False)],
)
def test_the_source_id_of_a_model_includes_its_imports(
    edited: str, counts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "their_package"
    package.mkdir()
    for name, source in {
        "__init__.py": "",
        "net.py": "import json\nfrom their_package import layers\ndef build(): ...",
        "layers.py": "WIDTH = 1",
        "unrelated.py": "",
    }.items():
        (package / name).write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    modules_before = set(sys.modules)
    try:
        importlib.import_module("their_package.net")
        before = model_id("their_package.net:build", modules_before)
        assert model_id("their_package.net:build", modules_before) == before
        with (package / edited).open("a") as file:
            file.write("\n# edited")
        assert (model_id("their_package.net:build", modules_before) != before) is counts
    finally:
        for name in set(sys.modules) - modules_before:
            del sys.modules[name]


def test_moved_model_files_keep_the_source_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = []
    for net, layers in (("a/net.py", "z/layers.py"), ("z/net.py", "a/layers.py")):
        before = set(sys.modules)
        for name, place, source in (("net", net, "import layers"), ("layers", layers, "WIDTH = 1")):
            file = tmp_path / place
            file.parent.mkdir(exist_ok=True)
            file.write_text(source)
            monkeypatch.setitem(sys.modules, name, SimpleNamespace(__file__=str(file)))
        ids.append(model_id("net:build", before - {"net", "layers"}))
    assert ids[0] == ids[1]


GPU = part(Environment, device_name="NVIDIA H100", cpu_name="AMD EPYC 9554")


@pytest.mark.parametrize(
    ("column", "value", "comparable"),
    [
        ("cpu_name", "Intel Xeon 8480", False),  # it dispatches and launches
        ("device_name", "NVIDIA A100", False),
        ("host", "another", True),
        ("gpu_uuid", "GPU-another", True),
        ("load_1min", 3.0, True),
    ],
)
def test_rows_of_a_gpu_are_comparable_on_equal_machines(
    column: str, value: object, comparable: bool
) -> None:
    changed = replace(GPU, **{column: value})
    assert (environment_id(changed) == environment_id(GPU)) is comparable
