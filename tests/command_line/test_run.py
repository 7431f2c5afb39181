"""The command line from the outside: wrong inputs, single cases, sweeps, resuming, interrupting."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.commands import (
    QUICKLY,
    TINY,
    Cli,
    last_of_each,
    rows,
    started,
)
from tests.helpers.paths import HELPERS, ROOT
from tests.helpers.processes import alive, soon
from tests.helpers.studies import record, save

Theirs = Callable[..., list[str]]


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Theirs:
    """Arguments for the models of user_models.py, which lie in a folder of the user's."""
    folder = tmp_path / "their folder"
    folder.mkdir()
    shutil.copy(HELPERS / "user_models.py", folder / "net.py")
    monkeypatch.syspath_prepend(folder)
    return lambda *names: [
        "model=custom",
        f"model.target={','.join(f'net:{name}' for name in names)}",
        *QUICKLY,
    ]


# Nothing is measured


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        (["device=cuda"], "device=cuda: "),
        (["mode=cuda-graph"], "mode=cuda-graph: "),
        (["-m", "mode=eager", "study=one,two"], "a sweep writes one study"),
        (["model=decode", "phase=train", "mode=eager"], "model=decode only generates"),
        (["model=custom", "model.target=net:nothing", "shape=default"], "net:nothing returned"),
        (["results_dir=file/below"], "file/below"),
    ],
    ids=lambda value: None if isinstance(value, str) else " ".join(value),
)
@pytest.mark.usefixtures("theirs")
def test_a_mistake_is_one_line_and_nothing_is_measured(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], culprit: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    answer = cli(*last_of_each(*TINY, *arguments))
    assert (answer.status, answer.out, answer.err.count("\n")) == (2, "", 1)
    assert answer.err.startswith("error: ")
    assert culprit in answer.err
    assert not list(tmp_path.rglob("*.parquet"))
    assert (tmp_path / "file").read_text() == "mine"


def test_a_dry_run_lists_the_cases(cli: Cli, results: Path) -> None:
    answer = cli("-m", *TINY, "mode=eager,no_grad", "dry_run=true")
    assert (answer.status, answer.err) == (0, "")
    listed = [line for line in answer.out.splitlines() if line.startswith("python run.py ")]
    assert [" mode=eager" in listed[0], " mode=no_grad" in listed[1], len(listed)] == [1, 1, 2]
    assert "dry_run=" not in answer.out
    assert not rows(results)


# Single cases and sweeps


def test_a_single_case_is_measured_anew_each_time_and_a_sweep_ends_with_an_answer(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    study = tmp_path / "mine" / "main"
    for sweep in ([], ["-m"]):
        answer = cli(*TINY, "mode=eager", "results_dir=mine", *sweep, "resume=false")
        assert (answer.status, answer.err) == (0, "")
        ends = {line.split()[0]: line.split()[1:] for line in answer.out.splitlines()[-3:]}
        assert ends["results"] == [str(study / "rows")]
        if sweep:
            assert ends["next"] == ["modescope", "table", str(study)]
        else:
            assert ends["smoke"][:2] == ["it", "runs,"]
            again = ["model=pointwise", "shape=small", "results_dir=mine"]
            assert ends["next"][:3] == ["modescope", "run", "experiment=modes"]
            assert {*again} < {*ends["next"]}
            assert not {"mode=eager", "budget=smoke"} & {*ends["next"]}
        assert ("\nuse for pointwise" in answer.out) is bool(sweep)
    first, second = rows(tmp_path / "mine")
    assert first["status"] == second["status"] == "ok"
    assert first["case_id"] == second["case_id"]


def test_finished_runs_are_kept_when_the_disk_is_full(
    cli: Cli, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from modescope.bench.records import parquet

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "some/run.parquet")

    save([record("eager")], results / "main")
    monkeypatch.setattr(parquet, "write", full)
    answer = cli(*TINY, "mode=no_grad")
    assert answer.status == 1
    assert answer.err == (
        "error: some/run.parquet: No space left on device; finished runs are kept\n"
    )
    assert [row["mode"] for row in rows(results)] == ["eager"]


# Failures are rows


@pytest.mark.full
def test_a_failing_model_does_not_stop_the_sweep(cli: Cli, results: Path, theirs: Theirs) -> None:
    """What crashes the profiler is still timed."""
    names = ("aborting_while_built", "sleeping", "raising", "aborting_under_a_profiler", "keyword")
    passes = ["memory=true", "profile=true"]
    answer = cli("-m", *last_of_each(*theirs(*names), "mode=eager", "timeout_s=10", *passes))
    assert answer.status == 1
    assert "Traceback" not in answer.err
    found = {row["model"].removeprefix("custom:net:"): row for row in rows(results)}
    assert {name: row["status"] for name, row in found.items()} == {
        "keyword": "ok",
        "aborting_while_built": "crashed",
        "sleeping": "timeout",
        "raising": "failed",
        "aborting_under_a_profiler": "ok",
    }
    page = results / "main" / "report" / "index.html"
    assert page.stat().st_size > 0
    assert f"report   {page}" in answer.out
    assert "SIGABRT" in found["aborting_while_built"]["reason"]
    assert found["sleeping"]["reason"] == "still running after timeout_s=10, during reference"
    assert found["raising"]["reason"].endswith(": RuntimeError: not today")
    timed = found["aborting_under_a_profiler"]
    assert timed["latency_rounds_s"]
    assert timed["kernels"] is timed["step_peak_bytes"] is timed["flops"] is None
    for note in ("memory_note", "work_note", "profile_note"):
        assert timed[note].startswith("the process ended by SIGABRT, during memory; its output is ")


# Ends


@pytest.mark.full
def test_a_closed_pipe_is_no_error(results: Path) -> None:
    command = f"'{sys.executable}' run.py 'results_dir={results}' -m {' '.join(TINY)} mode=eager"
    done = subprocess.run(["bash", "-c", f"{command} | head -1"], cwd=ROOT, text=True,
                          capture_output=True, check=True)  # fmt: skip
    assert len(done.stdout.splitlines()) == 1
    assert "Error" not in done.stderr
    assert [row["status"] for row in rows(results)] == ["ok"]


@pytest.mark.full
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_torch_is_imported_ends_cleanly(
    results: Path, number: int, status: int
) -> None:
    sweep = started(results, ["-m", *TINY, "mode=eager,no_grad"])
    assert soon(lambda: len(alive(sweep.sign)) >= 2, within_s=30)  # a helper process has started
    os.killpg(sweep.process.pid, number)
    answer = sweep.end()
    assert (answer.status, answer.err) == (status, "")
    assert soon(lambda: not alive(sweep.sign), within_s=10)
    assert rows(results) == []
