"""The environment of a run: known and unknown facts, and which make rows comparable."""

from __future__ import annotations

import os
import platform
import socket
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from modescope.bench.records.cases import Inference, Model, PhaseOptions, Training
from modescope.bench.records.environment import Host
from modescope.bench.records.errors import UsageError
from modescope.bench.sweep.host import environment
from modescope.bench.sweep.host.fingerprint import model_id
from tests.helpers.probe_models import fails_in, model, scaled, silent


def read() -> Host:
    return environment.read(silent, "cpu")


def test_the_environment_of_this_process() -> None:
    host = read()
    found = host.environment
    assert host.device.type == "cpu"
    assert found.device_name == host.device.name
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
    monkeypatch.setattr(environment, "_output", lambda *command: None)
    assert environment.read(silent, "cuda").environment.compute_capability == "12.1"


def test_the_environment_is_read_in_a_child_without_torch_in_the_parent() -> None:
    values = [*vars(read().device).values(), *vars(read().environment).values()]
    assert {type(value) for value in values} <= {str, int, float, bool, type(None)}


def test_a_missing_device_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="device=tpu"):
        environment.read(silent, "tpu")


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

    monkeypatch.setattr(environment, "_output", output)
    assert environment._nvidia("GPU-0a-1b") == facts
    assert asked[:3] == ["nvidia-smi", "-i", "GPU-0a-1b"]


def test_the_driver_of_a_part_of_a_gpu_is_that_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def output(*command: str) -> str | None:
        return None if "-i" in command else "580.82\n580.82"

    monkeypatch.setattr(environment, "_output", output)
    assert environment._nvidia("GPU-of-a-mig-part") == ("580.82", None)


@pytest.mark.parametrize(
    "command", [("no-such-program",), ("false",), ("git", "no-such-command")], ids=str
)
def test_a_failed_command_gives_nothing(command: tuple[str, ...]) -> None:
    assert environment._output(*command) is None


def test_outside_of_git_commit_and_changes_are_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    found = read().environment
    assert found.git_commit is None
    assert found.git_dirty is None


def test_a_model_is_built_once_before_measuring() -> None:
    asked = model(scaled)
    assert environment.try_model(silent, asked, "{}", Inference(), "cpu") == model_id(
        asked.target, set(sys.modules)
    )
    with pytest.raises(UsageError, match="no function 'made_up'"):
        environment.try_model(
            silent, Model("m", "tests.helpers.probe_models:made_up"), "{}", Inference(), "cpu"
        )


def test_described_inputs_are_tried_before_measuring() -> None:
    def tried(inputs_json: str) -> str:
        asked = Model("m", "torch.nn:Linear", '{"in_features":4,"out_features":2}')
        asked = replace(asked, inputs_json=inputs_json)
        return environment.try_model(silent, asked, '{"batch":3}', Inference(), "cpu")

    assert tried('[["batch",4]]')
    with pytest.raises(UsageError, match=r"model\.inputs does not fit Linear"):
        tried('[["batch",5]]')


@pytest.mark.parametrize(("options", "mode"), [(Inference(), "eval"), (Training(), "train")])
def test_sizes_of_a_librarys_architecture_are_tried_in_the_phase(
    options: PhaseOptions, mode: str
) -> None:
    asked = replace(model(fails_in), name="library:net", architecture=mode)
    with pytest.raises(UsageError) as refused:
        environment.try_model(silent, asked, '{"batch":1}', options, "cpu")
    assert str(refused.value) == (
        f"library:net fails in {mode}() with shape.batch=1: ValueError: only {mode} fails; choose "
        "other sizes"
    )
    other = replace(asked, architecture="train" if mode == "eval" else "eval")
    assert environment.try_model(silent, other, '{"batch":1}', options, "cpu")
    own = replace(asked, architecture=None, args_json=f'{{"name":"{mode}"}}')
    assert environment.try_model(silent, own, '{"batch":1}', options, "cpu"), "fails in its own run"
