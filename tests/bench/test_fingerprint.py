"""Which edits make earlier rows incomparable."""

from __future__ import annotations

import ast
import importlib
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench import fingerprint
from bench.fingerprint import model_id, source_id

ROOT = fingerprint.ROOT


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


def test_a_copy_elsewhere_is_the_same(root: Path, here: str) -> None:
    assert source_id(root) == here


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("bench/timers.py", "HOST_CALLS = 5", "HOST_CALLS = 6"),
        ("bench/timers.py", "keep(clock() - start)", "keep(clock() - start + 1e-9)"),
        ("bench/modes.py", "torch.no_grad", "torch.enable_grad"),
        ("bench/memory/reading.py", "2", "3"),
        ("bench/compiler_cache.py", "TRITON_CACHE_DIR", "TRITON_HOME"),
        ("bench/records.py", 'optimizer: str = "sgd"', 'optimizer: str = "adamw"'),
    ],
)
def test_an_edit_of_what_measures_counts(
    root: Path, here: str, file: str, old: str, new: str
) -> None:
    edit(root / file, old, new)
    assert source_id(root) != here


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("bench/claims/chapters/views.py", '"""', '"""A remark. '),
        ("bench/claims/chapters/views.py", "import torch", "import torch\n\nREMARK = 1"),
        ("bench/peers/theirs.py", "import", "REMARK = 1\nimport"),
        ("bench/selfcheck/checks.py", "CHECKS", "REMARK = CHECKS"),
        ("bench/pages.py", "UNKNOWN", "REMARK = UNKNOWN"),
        ("bench/timers.py", '"""', '"""A remark. '),
        ("bench/timers.py", "HOST_CALLS = 5", "HOST_CALLS = 5  # a remark"),
        ("bench/findings.py", 'column("graphs', 'column("a remark: graphs'),
    ],
)
def test_an_edit_that_can_change_no_number_does_not_count(
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
    """Moves a module, such as bench.timers to bench.timing.timers, and mends who imports it."""
    source, target = (root.joinpath(*name.split(".")).with_suffix(".py") for name in (old, new))
    target.parent.mkdir(exist_ok=True)
    source.rename(target)
    (target.parent / "__init__.py").touch()
    for file in (root / "bench").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        renamed = Renamed(old, new).visit(ast.parse(text.replace(f"{old}:", f"{new}:")))
        file.write_text(ast.unparse(renamed), encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("bench.timers", "bench.timing.timers"),
        ("bench.nvml", "bench.hardware.nvml"),
        ("bench.training.overflow", "bench.checks.overflow"),
    ],
)
def test_a_file_may_move(root: Path, here: str, old: str, new: str) -> None:
    move(root, old, new)
    assert source_id(root) == here
    with root.joinpath(*new.split(".")).with_suffix(".py").open("a") as file:
        file.write("\nLIMIT = 1\n")
    assert source_id(root) != here


def test_what_measures_is_found_by_its_imports() -> None:
    modules = set(fingerprint._modules(ROOT))
    assert modules >= {"bench.runner", "bench.timers", "bench.profiling.events", "bench.devices"}
    tools = ("claims", "peers", "selfcheck", "testbed", "instructions", "pages", "sweep", "config")
    assert not [name for name in modules if name.split(".")[1:2] and name.split(".")[1] in tools]


@pytest.mark.parametrize(
    ("edited", "counts"),
    [("net.py", True), ("layers.py", True), ("unrelated.py", False)],
)
def test_a_model_and_what_it_imports_count(
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


def test_the_files_of_a_model_may_move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
