"""`modescope.compare`: one real comparison that the tests of this file share, and its mistakes."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from hydra.core.global_hydra import GlobalHydra
from torch import nn

import modescope
from modescope.analysis.derive.registry import METRICS
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


def state(model: nn.Module) -> dict[str, Any]:
    return {"training": model.training, **{k: v.clone() for k, v in model.state_dict().items()}}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Shared:
    folder = tmp_path_factory.mktemp("theirs")
    model, inputs = Net(), {"x": torch.rand(4, 16), "shift": torch.rand(64, 16)[:4]}
    with contextlib.chdir(folder):
        before = process(), state(model)
        found = modescope.compare(model, inputs, modes=MODES, overrides=SHORT)
        after = process(), state(model)
    return Shared(found, model, inputs, folder, (before, after))


def test_each_mode_is_a_row_of_a_new_study_in_the_working_folder(shared: Shared) -> None:
    frame = shared.found.frame
    assert set(frame["mode"]) == set(MODES)
    assert set(frame["status"]) == {"ok"}
    assert set(frame["model"]) == {"Net"}
    assert {metric.name for metric in METRICS} <= set(frame.columns)
    assert shared.found.study.parent == shared.folder / "results"
    assert shared.found.study.name.startswith("Net-")
    assert len(pd.read_parquet(shared.found.study / "rows")) == len(MODES)


def test_the_model_and_the_process_stay_as_they_were(shared: Shared) -> None:
    (before, model_before), (after, model_after) = shared.states
    assert after == before
    assert model_after.keys() == model_before.keys()
    assert all(
        torch.equal(torch.as_tensor(model_after[k]), torch.as_tensor(v))
        for k, v in model_before.items()
    )


def test_the_file_holds_no_more_than_the_model_and_its_inputs(shared: Shared) -> None:
    """`shift` is a part of a larger tensor."""
    (file,) = (shared.found.study / "model").iterdir()
    saved = torch.load(file, weights_only=False)["inputs"]
    assert torch.equal(saved["shift"], shared.inputs["shift"])
    assert saved["shift"].untyped_storage().nbytes() == 4 * 16 * 4


def test_it_says_which_mode_to_use_and_why(shared: Shared) -> None:
    found = shared.found
    assert "Net, inference, fp32" in found.verdict
    assert set(found.why) == {"eager fp32", "no_grad fp32"}
    assert all(found.why.values())
    if found.best:  # the budget is too short to decide each time
        assert found.best.text in found.verdict
        assert found.bests == {"fp32": found.best}


def test_it_is_printed_as_a_table(shared: Shared) -> None:
    text = repr(shared.found)
    assert shared.found.verdict.split(":")[0] in text
    (eager,) = (line for line in text.splitlines() if line.startswith("eager"))
    assert "×" in eager
    assert "s" in eager
    assert "iB" in eager or " B" in eager
    assert text.endswith(f"study: {shared.found.study}")
    with contextlib.chdir(shared.folder):
        assert repr(shared.found).endswith(f"study: results/{shared.found.study.name}")


def test_a_notebook_shows_verdict_table_and_figure_in_its_own_colours(shared: Shared) -> None:
    page = shared.found._repr_html_()
    assert page.count("<svg") == 1
    assert page.count("<tr>") == 1 + len(MODES)
    assert "Net, inference, fp32" in page
    assert "currentColor" in page
    assert "background" not in page
    assert "#24292f" not in page  # the ink of figures on white


def test_a_report_can_be_written(shared: Shared) -> None:
    page = shared.found.report()
    assert page == shared.found.study / "report" / "index.html"
    assert "Net" in page.read_text(encoding="utf-8")


def test_rows_are_reused_in_the_same_study_for_the_same_model_alone(
    shared: Shared, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shared.folder)
    study = shared.found.study.name
    again = modescope.compare(
        shared.model, shared.inputs, modes=MODES, study=study, overrides=SHORT
    )
    assert any(line.startswith("reusing 2 of 2 cases") for line in again.messages)
    assert list(again.frame["run_id"]) == list(shared.found.frame["run_id"])
    with torch.no_grad():
        shared.model.inner.bias.add_(1)
    other = modescope.compare(
        shared.model, shared.inputs, modes="eager", study=study, overrides=SHORT, progress=False
    )
    assert list(other.frame["model"]) == ["Net-2"]
    assert capfd.readouterr() == ("", "")


def test_a_case_that_fails_is_a_row_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = modescope.compare(
        lambda: nn.Linear(8, 8),
        torch.rand(4, 16),
        name="narrow",
        modes=["eager", "cuda-graph"],
        overrides=SHORT,
        study=tmp_path / "study",
    )
    assert found.study == tmp_path / "study"
    assert dict(zip(found.frame["mode"], found.frame["status"], strict=True)) == {
        "eager": "failed",
        "cuda-graph": "skipped",
    }
    assert found.best is None
    assert found.verdict.startswith(
        "no case could be measured; eager fp32: failed: the model fails"
    )
    assert repr(found).split(":")[0] == found.verdict.split(":")[0]
    assert "<svg" not in found._repr_html_()
    assert "cuda-graph fp32: skipped: a CUDA graph needs" in repr(found)


class OptimizedModule(Net):
    """As torch.compile wraps a module."""

    _orig_mod = Net()


class Locked(Net):
    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


X = {"x": torch.rand(4, 16), "shift": torch.rand(4, 16)}


NO_MODEL: Any = 3


DRY = ["dry_run=true"]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: modescope.compare(NO_MODEL, X), "model is int, and must be a torch.nn.Module"),
        (lambda: modescope.compare(Net()), "inputs are missing"),
        (lambda: modescope.compare(Net(), [1]), "inputs is list, and must be a tensor"),
        (lambda: modescope.compare(Net(), [X["x"], object()]), r"inputs\[1\] is object"),
        (lambda: modescope.compare(Net(), X, name="a b"), "name='a b': must be letters"),
        (lambda: modescope.compare(Net(), X, study=""), "study='': must be a name"),
        (lambda: modescope.compare(Net(), X, study=".."), r"study='\.\.': must be a name"),
        (lambda: modescope.compare(Net(), X, study="new/.."), "study='new/..': must be a name"),
        (lambda: modescope.compare(Net(), X, modes=[]), r"modes=\[\]: must be a name"),
        (lambda: modescope.compare(Net(), X, overrides="a=1"), "overrides must be a list"),
        (
            lambda: modescope.compare(Net(), X, modes="eager", overrides=DRY),
            "dry_run=true: compare",
        ),
        (lambda: modescope.compare(Net(), X, modes="eagr"), "mode=eagr: .* did you mean eager"),
        (lambda: modescope.compare(Net(), X, modes="eager", device="gpu"), "device=gpu: allowed"),
        (lambda: modescope.compare(Locked(), X, modes="eager"), r"because of Locked\.lock \("),
        (lambda: modescope.compare(OptimizedModule(), X), "model is compiled; give the module"),
    ],
)
def test_a_mistake_is_one_sentence_and_leaves_no_study(
    call: Callable[[], object], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "notes.txt").touch()
    with pytest.raises(UsageError, match=sentence) as raised:
        call()
    assert "\n" not in str(raised.value)
    assert list(tmp_path.glob("results/*")) == []
    assert (tmp_path / "theirs" / "notes.txt").exists()


def test_a_refused_call_keeps_what_others_put_into_its_new_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = tmp_path / "study"

    def refused(requests: Any) -> Submission:
        (study / "theirs.txt").touch()
        raise UsageError("no")

    monkeypatch.setattr(sweep, "submit", refused)
    with pytest.raises(UsageError):
        api.compare(Net(), X, study=study)
    assert [path.name for path in study.iterdir()] == ["theirs.txt"]


def test_ctrl_c_keeps_what_was_submitted_to_a_scheduler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = tmp_path / "study"

    def submitted(requests: Any) -> Submission:
        (study / "jobs").mkdir()
        return Submission(study, 2, finished(), detaches=True)

    def finished() -> Iterator[str]:
        print("the workers go on; scancel 7 ends them")
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(sweep, "submit", submitted)
    with pytest.raises(KeyboardInterrupt) as raised:
        api.compare(Net(), X, study=study)
    assert (study / "jobs").is_dir()
    assert list((study / "model").iterdir())
    assert "scancel 7" in raised.value.__notes__[1]


def test_a_sweep_that_could_not_be_finished_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def finished() -> Iterator[str]:
        yield "run"
        raise sweep.Incomplete("1 case was not measured: no GPU here")

    monkeypatch.setattr(sweep, "submit", lambda _: Submission(tmp_path, 2, finished()))
    with pytest.raises(UsageError, match=r"no GPU here; finished rows are kept in .*study$"):
        api.compare(Net(), X, study=tmp_path / "study")


def test_an_interrupted_comparison_says_how_to_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = tmp_path / "study"

    def stopped(requests: Any) -> Submission:
        (study / "rows").mkdir()
        return Submission(study, 2, finished())

    def finished() -> Iterator[str]:
        yield "run"
        raise KeyboardInterrupt

    monkeypatch.setattr(sweep, "submit", stopped)
    with pytest.raises(KeyboardInterrupt) as raised:
        api.compare(Net(), X, study=study)
    (note,) = raised.value.__notes__
    assert note == f"1 of 2 rows are kept in {study}; study={str(study)!r} continues"
    assert (tmp_path / "study").is_dir()
