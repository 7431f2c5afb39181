"""Which edits make earlier rows incomparable."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from bench.sources import model_id, suite_id


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("bench/runner.py", "models/mlp.py", "analysis/table.py", "README.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("bench/runner.py", True),
        ("models/mlp.py", True),
        ("analysis/table.py", False),
        ("README.md", False),
    ],
)
def test_what_is_measured_with_counts(name: str, counts: bool, root: Path) -> None:
    before = suite_id(root)
    assert suite_id(root) == before
    (root / name).write_text("2")
    assert (suite_id(root) != before) is counts


def test_a_file_that_is_renamed_counts(root: Path) -> None:
    before = suite_id(root)
    (root / "bench/runner.py").rename(root / "bench/renamed.py")
    assert suite_id(root) != before


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
