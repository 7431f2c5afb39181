"""`modescope.compare`: a real comparison, and its mistakes."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
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
from modescope.bench.sweep import others, sweep
from modescope.bench.sweep.sweep import Submission
from tests.helpers import own_kernels

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


def test_each_mode_is_a_row_of_a_study_and_reused_for_the_same_model_alone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`shift` is a part of a larger tensor, which the file of the model must not hold."""
    folder = tmp_path / "it's theirs, [a] {b}"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(others, "warning", lambda: "")  # whatever else this machine does
    model, inputs = Net(), {"x": torch.rand(4, 16), "shift": torch.rand(64, 16)[:4]}
    before = process(), weights(model)
    found = modescope.compare(model, inputs, modes=MODES, overrides=SHORT)
    assert (process(), weights(model)) == before
    frame = found.frame[["mode", "status", "model"]]
    assert sorted(frame.itertuples(index=False, name=None)) == [
        (mode, "ok", "Net") for mode in MODES
    ]
    assert found.study.parent == folder / "results"
    assert found.study.name.startswith("Net-")
    assert len(pd.read_parquet(found.study / "rows")) == len(MODES)
    (file,) = (found.study / "model").glob("*.pt")
    shift = torch.load(file, weights_only=False)["inputs"]["shift"]
    assert torch.equal(shift, inputs["shift"])
    assert shift.untyped_storage().nbytes() == 4 * 16 * 4
    assert_answered(found)

    capfd.readouterr()
    study = found.study.name
    again = modescope.compare(model, inputs, modes=MODES, study=study, overrides=SHORT)
    assert "reusing 2 of 2 cases" in capfd.readouterr().err
    assert list(again.frame["run_id"]) == list(found.frame["run_id"])
    with torch.no_grad():
        model.inner.bias.add_(1)
    other = modescope.compare(
        model, inputs, modes="eager", study=study, overrides=SHORT, progress=False
    )
    assert list(other.frame["model"]) == ["Net-2"]
    assert capfd.readouterr() == ("", "")


def assert_answered(found: modescope.Comparison) -> None:
    """It says which mode to use and why, as the table and the report do."""
    (answer,) = found.answers
    assert found.best == answer.choice
    assert found.code == (answer.choice.code if answer.choice else "")
    assert found.verdict == advice(found._rows)
    assert {"speedup_ci_low", "latency_ci_high_s"} <= {*found.frame}
    assert all(f"\n{mode} fp32 · " in found.why for mode in MODES)
    text, page = repr(found), found._repr_html_()
    assert found.verdict in text
    assert text.endswith(f"study: results/{found.study.name}")
    assert {line.split()[0] for line in text.splitlines()[2:4]} == set(MODES)
    assert page.startswith("<pre")
    assert page.count("\n") == text.count("\n")
    assert "Net" in found.report().read_text(encoding="utf-8")


class Refuses(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.is_grad_enabled():
            raise RuntimeError("not with gradients")
        return super().forward(x)


def test_each_mode_is_measured_with_each_implementation(tmp_path: Path) -> None:
    found = modescope.compare(
        own_kernels.Plain(), torch.rand(4, own_kernels.WIDTH), modes="eager",
        kernels={"mine": own_kernels.Mine(), "wrong": own_kernels.Wrong()},
        overrides=SHORT, study=tmp_path / "kernels",
    )  # fmt: skip
    rows = found.frame[["mode", "status", "model", "kernel_use"]]
    assert sorted(rows.fillna("").itertuples(index=False, name=None)) == [
        ("eager", "ok", "Plain", ""),
        ("eager[kernels=mine]", "ok", "Plain", "called"),
        ("eager[kernels=wrong]", "wrong_result", "Plain", "called"),
    ]


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"torch": nn.ReLU()}, "torch is the model itself"),
        ({"a b": nn.ReLU()}, "give a name"),
        ({"mine": "no module"}, "type str"),
    ],
)
def test_implementations_have_names_and_are_modules(
    given: Any, complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=f"kernels=.*{complaint}"):
        modescope.compare(nn.ReLU(), torch.rand(2), kernels=given, study=tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_case_that_fails_is_a_row_with_its_reason(tmp_path: Path) -> None:
    found = modescope.compare(
        lambda: Refuses(16, 8),
        torch.rand(4, 16),
        name="no gradients",
        modes=["eager", "cuda-graph"],
        overrides=SHORT,
        study=tmp_path / "study",
    )
    assert found.study == tmp_path / "study"
    assert set(found.frame["model"]) == {"no_gradients"}
    assert dict(zip(found.frame["mode"], found.frame["status"], strict=True)) == {
        "eager": "failed",
        "cuda-graph": "skipped",
    }
    assert found.best is None
    assert found.code == ""
    assert found.answers[0].outcome == "nothing"
    assert " failed:" in repr(found)


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
        (3, X, {}, "model is of type int; give a torch.nn.Module"),
        (Net(), None, {}, "inputs is missing"),
        (Net(), (X["x"],), {}, r"Net fails in eval\(\) with these inputs: TypeError: .*'shift'"),
        (Net(), X, {"study": 3}, "study=3: must be a name or a path"),
        (Net(), X, {"modes": 3}, "modes=3: must be a text"),
        (Net(), X, {"overrides": 3}, "overrides=3: must be a text"),
        (Net(), (X["x"], object()), {}, r"\[1\] is of type object"),
        (Net(), X, {"modes": "eagr"}, "mode=eagr: "),
        (Net(), X, {"overrides": ["dry_run=true"]}, "overrides: "),
        (Locked(), X, {}, "cannot be sent to a fresh process"),
        (OptimizedModule(), X, {}, "model is compiled"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_no_study(
    model: Any, inputs: Any, further: dict[str, Any], culprit: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=culprit) as raised:
        modescope.compare(model, inputs, **{"modes": "eager", **further})
    assert "\n" not in str(raised.value)
    assert list(tmp_path.glob("results/*")) == []


@pytest.mark.parametrize("end", [KeyboardInterrupt(), sweep.Incomplete("no GPU here")])
def test_an_incomplete_comparison_says_where_finished_rows_are_kept(
    end: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def finished() -> Iterator[str]:
        yield "run"
        raise end

    monkeypatch.setattr(sweep, "submit", lambda _: Submission(tmp_path, 2, finished()))
    with pytest.raises((KeyboardInterrupt, UsageError)) as raised:
        api.compare(Net(), X, modes="eager", study=tmp_path)
    (said,) = getattr(raised.value, "__notes__", [str(raised.value)])
    assert str(tmp_path) in said
    assert list((tmp_path / "model").iterdir())
