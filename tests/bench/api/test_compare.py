"""`modescope.compare`: one real comparison that the tests of this file share, and its mistakes."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from hydra.core.global_hydra import GlobalHydra
from torch import nn

import modescope
from modescope.analysis.table import advice
from modescope.bench.api import compare as api
from modescope.bench.records.errors import UsageError
from modescope.bench.sweep import sweep
from modescope.bench.sweep.sweep import Submission

pytestmark = pytest.mark.full

SHORT = (
    *("budget.warmup_min_s=0", "budget.warmup_max_s=0.02", "budget.timed_max_s=0.5"),
    *("budget.max_rounds=20", "compile_cache=warm", "profile=false"),
)
MODES = ("eager", "no_grad")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(16, 16)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        dropped: torch.Tensor = self.drop(self.inner(x))
        return dropped + shift


@dataclass(frozen=True)
class Shared:
    """A comparison, what was compared, and the process around it before and after."""

    found: modescope.Comparison
    model: Net
    inputs: dict[str, torch.Tensor]
    folder: Path
    states: tuple[Any, Any]


def process() -> tuple[Any, ...]:
    """What a user's process may rely on."""
    return (
        *(list(sys.argv), list(sys.path), dict(os.environ), Path.cwd()),
        *(signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)),
        *(list(logging.getLogger().handlers), logging.getLogger().level),
        GlobalHydra.instance().is_initialized(),
    )


def weights(model: nn.Module) -> dict[str, Any]:
    return {"training": model.training, **{k: v.tolist() for k, v in model.state_dict().items()}}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Shared:
    folder = tmp_path_factory.mktemp("it's theirs, [a] {b}")
    model, inputs = Net(), {"x": torch.rand(4, 16), "shift": torch.rand(64, 16)[:4]}
    with contextlib.chdir(folder):
        before = process(), weights(model)
        found = modescope.compare(model, inputs, modes=MODES, overrides=SHORT)
        after = process(), weights(model)
    return Shared(found, model, inputs, folder, (before, after))


def test_each_mode_is_a_row_of_a_new_study_in_the_working_folder(shared: Shared) -> None:
    frame = shared.found.frame
    assert set(frame["mode"]) == set(MODES)
    assert set(frame["status"]) == {"ok"}
    assert set(frame["model"]) == {"Net"}
    assert shared.found.study.parent == shared.folder / "results"
    assert shared.found.study.name.startswith("Net-")
    assert len(pd.read_parquet(shared.found.study / "rows")) == len(MODES)


def test_the_model_and_the_process_stay_as_they_were(shared: Shared) -> None:
    before, after = shared.states
    assert after == before


def test_the_file_holds_no_more_than_the_model_and_its_inputs(shared: Shared) -> None:
    """`shift` is a part of a larger tensor."""
    (file,) = (shared.found.study / "model").iterdir()
    saved = torch.load(file, weights_only=False)["inputs"]
    assert torch.equal(saved["shift"], shared.inputs["shift"])
    assert saved["shift"].untyped_storage().nbytes() == 4 * 16 * 4


def test_it_says_which_mode_to_use_and_why(shared: Shared) -> None:
    found = shared.found
    (answer,) = found.answers
    assert found.best == answer.choice
    assert found.code == (answer.choice.code if answer.choice else "")
    assert found.verdict == advice(found.frame)
    assert all(f"\n{mode} fp32 · " in found.why for mode in MODES)


def test_it_is_printed_as_the_table_is(shared: Shared) -> None:
    with contextlib.chdir(shared.folder):
        text, page = repr(shared.found), shared.found._repr_html_()
    assert shared.found.verdict in text
    assert text.endswith(f"study: results/{shared.found.study.name}")
    assert {line.split()[0] for line in text.splitlines()[2:4]} == set(MODES)
    assert page.startswith("<pre")
    assert page.count("\n") == text.count("\n")


def test_a_report_can_be_written(shared: Shared) -> None:
    assert "Net" in shared.found.report().read_text(encoding="utf-8")


def test_rows_are_reused_in_the_same_study_for_the_same_model_alone(
    shared: Shared, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shared.folder)
    study = shared.found.study.name
    again = modescope.compare(
        shared.model, shared.inputs, modes=MODES, study=study, overrides=SHORT
    )
    assert "reusing 2 of 2 cases" in capfd.readouterr().err
    assert list(again.frame["run_id"]) == list(shared.found.frame["run_id"])
    with torch.no_grad():
        shared.model.inner.bias.add_(1)
    other = modescope.compare(
        shared.model, shared.inputs, modes="eager", study=study, overrides=SHORT, progress=False
    )
    assert list(other.frame["model"]) == ["Net-2"]
    assert capfd.readouterr() == ("", "")


def test_a_case_that_fails_is_a_row_with_its_reason(tmp_path: Path) -> None:
    found = modescope.compare(
        lambda: nn.Linear(8, 8),
        torch.rand(4, 16),
        name="too narrow",
        modes=["eager", "cuda-graph"],
        overrides=SHORT,
        study=tmp_path / "study",
    )
    assert found.study == tmp_path / "study"
    assert set(found.frame["model"]) == {"too_narrow"}
    assert dict(zip(found.frame["mode"], found.frame["status"], strict=True)) == {
        "eager": "failed",
        "cuda-graph": "skipped",
    }
    assert found.best is None
    assert found.code == ""
    assert found.answers[0].outcome == "nothing"
    assert " failed:" in repr(found)


def test_a_study_is_a_name_below_results_or_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert api._folder("mine") == tmp_path / "results" / "mine"
    assert api._folder("a/mine") == tmp_path / "a" / "mine"
    assert api._folder(tmp_path / "x") == tmp_path / "x"


class OptimizedModule(Net):
    """As torch.compile wraps a module."""

    _orig_mod = Net()


class Locked(Net):
    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


X = {"x": torch.rand(4, 16), "shift": torch.rand(4, 16)}


@pytest.mark.parametrize(
    ("model", "inputs", "further", "culprit"),
    [
        (3, X, {}, "model is int"),
        (Net(), None, {}, "inputs are missing"),
        (Net(), [1], {}, "list of int"),
        (Net(), (X["x"], object()), {}, r"\[1\] is of type object"),
        (Net(), X, {"modes": []}, "mode="),
        (Net(), X, {"modes": "eagr"}, "mode=eagr: .* did you mean eager"),
        (Net(), X, {"overrides": "a=1"}, "a=1: "),
        (Net(), X, {"overrides": ["dry_run=true"]}, "overrides: "),
        (Net(), X, {"overrides": ["seed=1", "seed=2"]}, "seed=2: seed is set twice"),
        (Net(), X, {"device": "gpu"}, "device=gpu: allowed"),
        (Net(), X, {"phase": "training"}, "phase=training: .* train"),
        (Locked(), X, {}, r"Locked\.lock: "),
        (OptimizedModule(), X, {}, "model is compiled"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_no_study(
    model: Any,
    inputs: Any,
    further: dict[str, Any],
    culprit: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=culprit) as raised:
        modescope.compare(model, inputs, **{"modes": "eager", **further})
    assert "\n" not in str(raised.value)
    assert list(tmp_path.glob("results/*")) == []


def test_a_refused_call_keeps_what_others_put_into_its_new_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = tmp_path / "study"

    def refused(requests: Any) -> Submission:
        (study / "theirs.txt").touch()
        raise UsageError("no")

    monkeypatch.setattr(sweep, "submit", refused)
    with pytest.raises(UsageError):
        api.compare(Net(), X, modes="eager", study=study)
    assert [path.name for path in study.iterdir()] == ["theirs.txt"]


@pytest.mark.parametrize(
    ("end", "text"),
    [
        (KeyboardInterrupt(), "finished rows are kept; study='{}' continues"),
        (sweep.Incomplete("no GPU here"), "no GPU here; finished rows are kept in {}"),
    ],
)
def test_an_incomplete_comparison_says_how_to_continue(
    end: BaseException, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = tmp_path / "study"

    def finished() -> Iterator[str]:
        yield "run"
        raise end

    monkeypatch.setattr(sweep, "submit", lambda _: Submission(study, 2, finished()))
    with pytest.raises((KeyboardInterrupt, UsageError)) as raised:
        api.compare(Net(), X, modes="eager", study=study)
    said = getattr(raised.value, "__notes__", [str(raised.value)])
    assert said == [text.format(study)]
    assert list((study / "model").iterdir())
