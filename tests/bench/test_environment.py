"""Where a run takes place: what is read, what is unknown, what makes rows comparable."""

from __future__ import annotations

import os
import platform
import socket
import sys
from pathlib import Path

import pytest
import torch

from bench import environment
from bench.fingerprint import model_id
from bench.records import Host, Model, UsageError
from tests.probes import model, scaled, silent


def read() -> Host:
    return environment.read(silent, "cpu")


def test_what_is_read_here() -> None:
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


def test_a_parent_reads_it_without_torch() -> None:
    values = [*vars(read().device).values(), *vars(read().environment).values()]
    assert {type(value) for value in values} <= {str, int, float, bool, type(None)}


def test_a_device_that_is_not_there() -> None:
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
def test_what_nvidia_smi_says(
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


@pytest.mark.parametrize(
    "command", [("no-such-program",), ("false",), ("git", "no-such-command")], ids=str
)
def test_a_command_that_fails_says_nothing(command: tuple[str, ...]) -> None:
    assert environment._output(*command) is None


def test_outside_of_git_commit_and_changes_are_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    found = read().environment
    assert found.git_commit is None
    assert found.git_dirty is None


def test_a_model_is_tried_before_anything_is_measured() -> None:
    asked = model(scaled)
    assert environment.try_model(silent, asked, "{}") == model_id(asked.target, set(sys.modules))
    with pytest.raises(UsageError, match="no function 'made_up'"):
        environment.try_model(silent, Model("m", "tests.probes:made_up"), "{}")
