"""Composing settings inside of a process that uses Hydra itself, again and again."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

import hydra
import pytest
from hydra._internal.hydra import Hydra
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper
from omegaconf import OmegaConf

from modescope.bench.records.errors import UsageError
from modescope.bench.sweep.settings.composing import composed


@pytest.fixture
def asked(tmp_path: Path) -> list[str]:
    return ["-m", "mode=eager,no_grad", f"results_dir={tmp_path}"]


def test_arguments_are_those_that_are_given(asked: list[str]) -> None:
    before = list(sys.argv)
    for _ in range(2):
        assert [each.config["mode"]["name"] for each in composed(asked)] == ["eager", "no_grad"]
    with pytest.raises(UsageError, match="did you mean eager"):
        composed(["mode=eagr", *asked[2:]])
    assert len(composed(asked)) == 2
    assert sys.argv == before


def test_an_application_of_hydra_goes_on_as_before(tmp_path: Path, asked: list[str]) -> None:
    (tmp_path / "theirs.yaml").write_text("defaults: [schema, _self_]\nb: ${runner:2}\n")
    functions = [Hydra.get_mode, Plugins.instantiate_sweeper, Sweeper.validate_batch_is_legal]
    with hydra.initialize_config_dir(str(tmp_path), version_base="1.2"):
        ConfigStore.instance().store(name="schema", node={"a": 1})
        OmegaConf.register_new_resolver("runner", lambda number: number + 1)
        try:
            theirs, environment = GlobalHydra.instance(), dict(os.environ)
            assert len(composed(asked)) == 2
            assert GlobalHydra.instance() is theirs
            assert dict(os.environ) == environment
            assert hydra.compose("theirs") == {"a": 1, "b": 3}
        finally:
            OmegaConf.clear_resolver("runner")
            del ConfigStore.instance().repo["schema.yaml"]
    assert not OmegaConf.has_resolver("thread_counts")
    assert functions == [
        Hydra.get_mode, Plugins.instantiate_sweeper, Sweeper.validate_batch_is_legal,
    ]  # fmt: skip


def test_a_file_that_begins_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    text = "# @package _global_\ndefaults: [custom, _self_]\nmodel: {target: package:build}\n"
    (tmp_path / "model" / "mine.yaml").write_text(text, encoding="utf-8-sig")
    (found,) = composed(["--config-dir", str(tmp_path), "model=mine", f"results_dir={tmp_path}"])
    assert found.config["model"]["target"] == "package:build"


def test_log_files_of_the_process_stay_open(tmp_path: Path, asked: list[str]) -> None:
    handler = logging.FileHandler(tmp_path / "log")
    logger = logging.getLogger("theirs")
    logger.addHandler(handler)
    try:
        composed(asked)
        assert handler.stream is not None  # a closed one has none
    finally:
        logger.removeHandler(handler)
        handler.close()
