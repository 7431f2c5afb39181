"""What a child says of the host: the machine, its software, and the models."""

from __future__ import annotations

import os
import platform
import socket
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from modescope.bench.records.cases import Inference, Model, PhaseOptions, Training
from modescope.bench.records.errors import UsageError
from modescope.bench.sweep import host
from modescope.bench.sweep.host import model_id
from tests.helpers.probe_models import fails_in, model, scaled, silent


def test_the_environment_of_this_process() -> None:
    """Of plain types, which the parent can read without torch."""
    here = host.read(silent, "cpu")
    found = vars(here.environment)
    assert {type(each) for each in (*vars(here.device).values(), *found.values())} <= {
        *(str, int, float, bool, type(None))
    }
    assert here.device.type == "cpu"
    expected = {
        "device_name": here.device.name,
        "host": socket.gethostname(),
        "cpu_cores": len(os.sched_getaffinity(0)),
        "python_version": platform.python_version(),
        "torch_version": torch.__version__,
        **dict.fromkeys(("driver_version", "power_limit_w", "load_1min", "compute_capability")),
    }
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("answer", "of_all", "facts"),
    [
        ("570.86.15, 700.00", None, ("570.86.15", 700.0)),
        ("570.86.15, [N/A]", None, ("570.86.15", None)),
        (None, None, (None, None)),
        (None, "580.82\n580.82", ("580.82", None)),  # as of a part of a GPU
    ],
)
def test_facts_from_nvidia_smi(
    answer: str | None, of_all: str | None, facts: tuple[str | None, float | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    named = ("nvidia-smi", "-i", "GPU-0a-1b")
    monkeypatch.setattr(host, "_output", lambda *words: answer if words[:3] == named else of_all)
    assert host._nvidia("GPU-0a-1b") == facts


def tried(asked: Model, *shapes: str, options: PhaseOptions | None = None) -> Any:
    each = options or Inference()
    return host.try_model(silent, asked, "cpu", [(shape, each) for shape in shapes])


def test_a_model_is_built_in_each_shape_and_the_users_mistakes_are_told() -> None:
    source, unfit = tried(model(scaled), "{}", "{}")
    assert source == model_id([model(scaled).target], set(sys.modules))
    assert [*unfit] == ["layout", "quantize"]
    with pytest.raises(UsageError, match="no function 'made_up'"):
        tried(Model("m", "tests.helpers.probe_models:made_up"), "{}")
    asked = Model("m", "torch.nn:Linear", '{"in_features":4,"out_features":2}')
    asked = replace(asked, inputs_json='[["batch","width"]]')
    assert tried(asked, '{"batch":3,"width":4}')
    with pytest.raises(UsageError):
        tried(asked, '{"batch":3,"width":4}', '{"batch":3,"width":5}')


@pytest.mark.parametrize(("options", "mode"), [(Inference(), "eval"), (Training(), "train")])
def test_sizes_of_a_librarys_architecture_are_tried_in_the_phase(
    options: PhaseOptions, mode: str
) -> None:
    asked = replace(model(fails_in), name="library:net", architecture=mode)
    with pytest.raises(UsageError, match=rf"fails in {mode}\(\) with shape.batch=1"):
        tried(asked, '{"batch":1}', options=options)
    other = replace(asked, architecture="train" if mode == "eval" else "eval")
    assert tried(other, '{"batch":1}', options=options)
    # the case's own run records what is no mistake about sizes
    own = replace(model(fails_in), args_json=f'{{"name":"{mode}"}}')
    assert tried(own, '{"batch":1}', options=options)


def test_an_edited_loss_changes_the_source_id_of_its_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    found = set()
    for source in ("def loss(output, inputs): ...", "def loss(output, inputs): return 0"):
        (tmp_path / "edited_loss.py").write_text(source)
        monkeypatch.delitem(sys.modules, "edited_loss", raising=False)
        found.add(tried(model(scaled), "{}", options=Training(loss="edited_loss:loss"))[0])
    assert len(found - {None}) == 2


def test_the_source_id_of_a_model_is_that_of_its_files_and_of_an_installed_packages_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
        import_module("their_package.net")
        for edited, counts in (("net.py", True), ("layers.py", True), ("unrelated.py", False)):
            before = model_id(["their_package.net:build"], modules_before)
            with (package / edited).open("a") as file:
                file.write("\n# edited")
            assert (model_id(["their_package.net:build"], modules_before) != before) is counts
    finally:
        for name in set(sys.modules) - modules_before:
            del sys.modules[name]
    before = model_id(["torch.nn:LSTM"], set(sys.modules))
    monkeypatch.setattr("torch.__version__", "0.1")
    assert model_id(["torch.nn:LSTM"], set(sys.modules)) != before
