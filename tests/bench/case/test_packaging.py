"""Packages are built by a process of their own; what cannot be packaged says why."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from modescope.bench.case import packaging, runner
from modescope.bench.evidence import watching
from modescope.bench.model import torch_settings
from modescope.bench.modes import packages
from modescope.bench.modes.backends import BACKENDS, Backend
from modescope.bench.records.caches import SAVED
from modescope.bench.records.cases import Case
from modescope.bench.records.outcomes import Status
from tests.helpers.commands import Cli, rows
from tests.helpers.packaged import AOTI, branches, named, packaged, steps, stores
from tests.helpers.paths import ROOT
from tests.helpers.probe_models import (
    WIDTH,
    case,
    fails_in,
    linear,
    model,
    silent,
    smoke,
    variant,
)
from tests.helpers.programs import lines

MAIN = "from tests.helpers.packaged import *; main(Path({folder!r}))"


@pytest.fixture(autouse=True)
def _as_before(
    restored_settings: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[None]:
    monkeypatch.setenv(SAVED, str(tmp_path))
    with torch_settings.keep():
        yield
    torch.compiler.reset()


def build(asked: Case) -> Any:
    return packaging.build(silent, asked, smoke())


def test_a_branch_on_data_cannot_be_exported() -> None:
    result = build(packaged(branches))
    assert result.status == "failed"
    assert result.reason.startswith("torch.export fails: GuardOnDataDependentSymNode: Could not")


@pytest.mark.parametrize(("builder", "state"), [(steps, "calls"), (stores, "kept")])
def test_a_model_that_changes_its_state_is_not_packaged(
    builder: Callable[[], object], state: str, tmp_path: Path
) -> None:
    result = build(packaged(builder))
    assert result.status == "failed"
    assert f"forward changes {state}:" in result.reason
    assert not (tmp_path / packages.PACKAGE).exists()


def test_the_package_is_built_with_the_attention_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    allowed = list[bool]()

    def export(*arguments: object) -> None:
        allowed.append(torch.backends.cuda.flash_sdp_enabled())
        raise RuntimeError

    monkeypatch.setattr(torch.export, "export", export)
    for value in ("math", "flash"):
        mode = replace(AOTI.mode, axes=(("attention", value),))
        build(case(model(linear), replace(AOTI, mode=mode)))
    assert allowed == [False, True]


def test_a_package_is_written_to_the_folder_that_both_processes_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[object]()

    def package(program: object, **given: object) -> None:
        asked.append(given["package_path"])
        raise RuntimeError("no compiler")

    monkeypatch.setattr(torch._inductor, "aoti_compile_and_package", package)
    result = build(case(model(linear), AOTI))
    assert asked == [str(tmp_path / packages.PACKAGE)]
    assert (result.status, "no compiler" in str(result.reason)) == (Status.FAILED, True)


def test_an_error_of_the_models_own_is_left_to_the_process_that_measures(tmp_path: Path) -> None:
    assert build(case(model(fails_in, name="eval", batch=2), AOTI)).status == Status.CACHE_FILLED
    assert not (tmp_path / packages.RECORD).exists()


def test_no_compiler_is_watched_while_a_package_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, real = list[bool](), watching.watch

    def watch(compiles: bool, *given: Any, **named: Any) -> Any:
        asked.append(compiles)
        return real(compiles, *given, **named)

    ahead = Backend(lambda module, *rest: module, lambda mode, whole: "model", ("ahead",),
                    before=("module:function",))  # fmt: skip
    monkeypatch.setitem(BACKENDS, "ahead", ahead)
    monkeypatch.setattr(watching, "watch", watch)
    runner.run(silent, case(model(linear), variant(grad="no_grad", compile="ahead")), smoke())
    assert asked == [False, False]  # nor in eager, the baseline


@pytest.mark.full
def test_the_process_that_measures_a_package_never_imports_the_compiler(tmp_path: Path) -> None:
    code = MAIN.format(folder=str(tmp_path))
    printed = subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True)
    assert printed.split() == ["False", "False", "ok", "None", "exact"]


@pytest.mark.full
def test_a_row_of_a_package(cli: Cli, results: Path) -> None:
    assert (
        cli(
            "budget=smoke",
            "compile_cache=warm",
            "profile=false",
            "model=mlp",
            "shape=small",
            "mode=aoti",
        ).status
        == 0
    )
    (row,) = rows(results)
    weights = 4 * (128 * 128 + 128) * 4
    assert (row["status"], row["reason"], row["in_effect"]) == ("ok", None, True)
    assert (row["checked"], row["error"] < 1e-6, row["graphs"]) == ("exact", True, 0)
    assert row["package_bytes"] > row["weights_bytes"] == weights
    assert row["resident_bytes"] == 2 * weights + row["input_bytes"]
    assert row["package_load_s"] < row["first_call_s"] < row["package_build_s"]
    assert (row["dispatch_rounds_s"], row["layout_kept"]) == (None, True)
    assert row["dispatch_note"] is not None


@pytest.mark.full
@pytest.mark.parametrize("by_name", [False, True])
def test_the_printed_program_builds_loads_and_calls_a_package(
    by_name: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    net, inputs = named() if by_name else (nn.Linear(WIDTH, WIDTH), (torch.randn(2, WIDTH),))
    with torch.no_grad():
        wanted = net(**inputs)["y"] if isinstance(inputs, dict) else net(*inputs)
    names: dict[str, Any] = {"torch": torch, "model": net, "inputs": inputs}
    exec(lines(AOTI, named_inputs=by_name), names)
    assert (tmp_path / "model.pt2").is_file()
    assert names["model"] is not net
    found = names["output"]["y"] if by_name else names["output"]
    assert found.is_inference()
    assert torch.allclose(found, wanted, atol=1e-6)


@pytest.mark.full
def test_the_printed_program_packages_a_model_in_bf16(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    net, x = nn.Linear(WIDTH, WIDTH), torch.randn(2, WIDTH)
    with torch.no_grad():
        wanted = net(x)
    names: dict[str, Any] = {"torch": torch, "model": net, "inputs": (x,)}
    exec(lines(replace(AOTI, dtype="bf16")), names)
    assert names["output"].dtype == torch.bfloat16
    assert torch.allclose(names["output"].float(), wanted, atol=0.03)
