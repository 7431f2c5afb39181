"""The device that a user's functions run on."""

from __future__ import annotations

import pytest
import torch

from modescope.bench.devices import cuda
from modescope.bench.devices.cuda import use_device
from modescope.bench.records.errors import UsageError


def test_a_process_without_a_gpu_in_use_runs_on_the_cpu() -> None:
    assert not torch.cuda.is_initialized()
    with use_device("auto") as device:
        assert device.type == "cpu"


def test_there_must_be_such_a_device() -> None:
    with pytest.raises(UsageError, match="allowed are"), use_device("tpu"):
        pass


def test_a_named_gpu_is_not_current_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process that had used none, where the first one would be current."""
    current: list[int] = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: bool(current))
    monkeypatch.setattr(torch.cuda, "set_device", lambda index: current.append(index))
    monkeypatch.setattr(cuda, "find", lambda name: current.append(int(name.partition(":")[2])))
    with use_device("cuda:1"):
        assert current == [1]
    assert current == [1, 0]


def test_the_current_gpu_is_used_and_is_the_same_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Torch's functions are replaced by those of a process that uses the second of three GPUs."""
    current = [1]

    class Gpu:
        type = "cuda"

        def __init__(self, index: int) -> None:
            current[:] = [index]

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: current[0])
    monkeypatch.setattr(torch.cuda, "set_device", lambda used: current.__setitem__(0, used.index))
    monkeypatch.setattr(cuda, "find", lambda name: Gpu(int(name.partition(":")[2])))
    for name in ("auto", "cuda"):
        with use_device(name) as device:
            assert (device.type, current) == ("cuda", [1])
    with use_device("cuda:2"):
        assert current == [2]
    assert current == [1]
