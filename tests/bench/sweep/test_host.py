"""What a child says of the host: the machine, its software, and the models."""

from __future__ import annotations

import importlib
import os
import platform
import socket
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from modescope.bench.records.cases import Inference, Model, PhaseOptions, Training
from modescope.bench.records.environment import Host
from modescope.bench.records.errors import UsageError
from modescope.bench.sweep import host
from modescope.bench.sweep.host import model_id
from tests.helpers.probe_models import fails_in, model, scaled, silent

PHASE = Inference()


def read() -> Host:
    return host.read(silent, "cpu")


def test_the_environment_of_this_process() -> None:
    here = read()
    found = here.environment
    assert here.device.type == "cpu"
    assert found.device_name == here.device.name
    assert found.host == socket.gethostname()
    assert found.cpu_cores == len(os.sched_getaffinity(0))
    assert found.python_version == platform.python_version()
    assert found.torch_version == torch.__version__
    unknown = (found.driver_version, found.power_limit_w, found.load_1min)
    assert unknown == (None, None, None)
    assert found.compute_capability is None


def test_the_compute_capability_of_a_gpu_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    properties = SimpleNamespace(
        name="Pretended", major=12, minor=1, total_memory=2**30, uuid="0a-1b"
    )
    for name, value in {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "set_device": lambda index: None,
        "get_device_properties": lambda device: properties,
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(host, "_output", lambda *command: None)
    assert host.read(silent, "cuda").environment.compute_capability == "12.1"


def test_the_environment_is_read_in_a_child_without_torch_in_the_parent() -> None:
    values = [*vars(read().device).values(), *vars(read().environment).values()]
    assert {type(value) for value in values} <= {str, int, float, bool, type(None)}


def test_a_missing_device_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="device=tpu"):
        host.read(silent, "tpu")


@pytest.mark.parametrize(
    ("answer", "facts"),
    [
        ("570.86.15, 700.00", ("570.86.15", 700.0)),
        ("570.86.15, [N/A]", ("570.86.15", None)),
        ("570.86.15, 350", ("570.86.15", 350.0)),
        ("No devices were found", (None, None)),
        ("", (None, None)),
        (None, (None, None)),
    ],
)
def test_facts_from_nvidia_smi(
    answer: str | None,
    facts: tuple[str | None, float | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def output(*command: str) -> str | None:
        asked.extend(command)
        return answer

    monkeypatch.setattr(host, "_output", output)
    assert host._nvidia("GPU-0a-1b") == facts
    assert asked[:3] == ["nvidia-smi", "-i", "GPU-0a-1b"]


def test_the_driver_of_a_part_of_a_gpu_is_that_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def output(*command: str) -> str | None:
        return None if "-i" in command else "580.82\n580.82"

    monkeypatch.setattr(host, "_output", output)
    assert host._nvidia("GPU-of-a-mig-part") == ("580.82", None)


def test_outside_of_git_commit_and_changes_are_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    found = read().environment
    assert found.git_commit is None
    assert found.git_dirty is None


def tried(asked: Model, *shapes: str, options: PhaseOptions = PHASE) -> Any:
    return host.try_model(silent, asked, "cpu", [(shape, options) for shape in shapes])


def test_a_model_is_built_in_each_shape_and_the_users_mistakes_are_told() -> None:
    assert tried(model(scaled), "{}", "{}") == (
        model_id(model(scaled).target, set(sys.modules)),
        {},
    )
    source, mistakes = tried(Model("m", "tests.helpers.probe_models:made_up"), "{}")
    assert source is None
    assert "no function 'made_up'" in mistakes[0]
    asked = Model("m", "torch.nn:Linear", '{"in_features":4,"out_features":2}')
    asked = replace(asked, inputs_json='[["batch","width"]]')
    source, mistakes = tried(asked, '{"batch":3,"width":5}', '{"batch":3,"width":4}')
    assert source is not None
    assert list(mistakes) == [0]
    assert "model.inputs does not fit Linear" in mistakes[0]


@pytest.mark.parametrize(("options", "mode"), [(Inference(), "eval"), (Training(), "train")])
def test_sizes_of_a_librarys_architecture_are_tried_in_the_phase(
    options: PhaseOptions, mode: str
) -> None:
    asked = replace(model(fails_in), name="library:net", architecture=mode)
    _, mistakes = tried(asked, '{"batch":1}', options=options)
    assert f"fails in {mode}() with shape.batch=1" in mistakes[0]
    other = replace(asked, architecture="train" if mode == "eval" else "eval")
    assert tried(other, '{"batch":1}', options=options)[1] == {}


def test_what_is_no_mistake_of_the_user_is_left_to_the_cases_own_run() -> None:
    own = replace(model(fails_in), args_json='{"name":"eval"}')
    assert tried(own, '{"batch":1}')[1] == {}
    assert tried(replace(own, args_json='{"no_such":1}'), "{}", "{}")[1].keys() <= {0, 1}


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
        with (package / edited).open("a") as file:
            file.write("\n# edited")
        assert (model_id("their_package.net:build", modules_before) != before) is counts
    finally:
        for name in set(sys.modules) - modules_before:
            del sys.modules[name]
