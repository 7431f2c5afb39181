"""The command line from the outside: wrong inputs, single cases, sweeps, resuming, interrupting."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.commands import (
    QUICKLY,
    TINY,
    Answer,
    Cli,
    beside_progress,
    last_of_each,
    rows,
    started,
    stored,
)
from tests.helpers.paths import HELPERS, ROOT
from tests.helpers.processes import alive, soon
from tests.helpers.studies import record, save

THEIRS = HELPERS / "user_models.py"


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Arguments for the models of user_models.py, which lie in a folder of the user's."""
    folder = tmp_path / "their folder"
    folder.mkdir()
    shutil.copy(THEIRS, folder / "net.py")
    monkeypatch.syspath_prepend(folder)
    return lambda *names: [
        "model=custom",
        f"model.target={','.join(f'net:{name}' for name in names)}",
        *QUICKLY,
    ]


# Wrong inputs

WRONG: list[tuple[list[str], str]] = [
    (["mode=complie"], "mode=complie: "),
    (["model=custom", "model.target=not_there:build", "shape=default"], "model.target=not_there:"),
    (["device=cuda"], "device=cuda: "),
    (["mode=cuda-graph"], "mode=cuda-graph: "),
    (["shape.batch=0"], "shape.batch=0: "),
    (["-m", "mode=eager", "threads=1,100000"], "threads=100000: "),
    (["-m", "mode=eager", "study=one,two"], "a sweep writes one study"),
    (["just words"], "just words: "),
]


def assert_refused(answer: Answer, culprit: str, results: Path) -> None:
    assert answer.status == 2
    assert answer.err.startswith("error: ")
    assert culprit in answer.err
    assert len(answer.err.splitlines()) == 1
    assert answer.out == ""
    assert not rows(results)


@pytest.mark.parametrize(("arguments", "culprit"), WRONG, ids=[" ".join(a) for a, _ in WRONG])
def test_a_mistake_is_one_line_and_nothing_is_measured(
    cli: Cli, results: Path, arguments: list[str], culprit: str
) -> None:
    answer = cli(*last_of_each(*TINY, *arguments))
    assert_refused(answer, f"error: {culprit}", results)


@pytest.mark.parametrize(
    ("target", "more", "culprit"),
    [
        ("net", [], "model.target=net: "),
        ("net:alone", ["model.inputs={x: [2, 5]}"], "model.inputs does not fit Layer: RuntimeErr"),
        ("net:nothing", [], "net:nothing returned NoneType"),
    ],
)
def test_a_model_that_cannot_be_built_is_refused(
    cli: Cli, theirs: Callable[..., list[str]], results: Path,
    target: str, more: list[str], culprit: str,
) -> None:  # fmt: skip
    answer = cli(*last_of_each(*theirs("x"), f"model.target={target}", *more))
    assert_refused(answer, culprit, results)


@pytest.mark.parametrize("place", ["file/below", "/proc/nowhere"])
def test_a_results_folder_that_cannot_be_written_is_refused(
    cli: Cli, tmp_path: Path, place: str
) -> None:
    (tmp_path / "file").write_text("mine")
    answer = cli(*TINY, f"results_dir={tmp_path / place}")
    assert_refused(answer, place, tmp_path)
    assert (tmp_path / "file").read_text() == "mine"


# Without measuring


def subprocess_run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, **options
    )


def test_help_is_printed_without_importing_torch() -> None:
    done = subprocess_run("-X", "importtime", "run.py", "--help")
    assert done.returncode == 0
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "hydra" in imported
    assert "torch" not in imported
    assert "pointwise" in done.stdout


# Right inputs


@pytest.mark.full
@pytest.mark.parametrize("place", [0, 2, 6])
def test_the_multirun_option_may_stand_anywhere(cli: Cli, results: Path, place: int) -> None:
    arguments = [*TINY, "mode=eager", "seed=0"]
    arguments.insert(place, "-m")
    assert "report" in cli(*arguments).out
    assert len(rows(results)) == 1


def test_a_single_case_is_measured_anew_each_time_and_names_where_its_results_are(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        answer = cli(*TINY, "mode=eager", "results_dir=mine")
        assert (answer.status, beside_progress(answer.err)) == (0, "")
    words = [line.split()[-1] for line in answer.out.splitlines() if line.startswith(
        ("results ", "next "))]  # fmt: skip
    assert words == [str(tmp_path / "mine" / "main" / "rows"), str(tmp_path / "mine" / "main")]
    first, second = rows(tmp_path / "mine")
    assert first["status"] == second["status"] == "ok"
    assert first["case_id"] == second["case_id"]
    assert first["run_id"] != second["run_id"]


NOSY = """
import torch

def build():
    from modescope.bench.case import runner
    from modescope.bench.records import cases
    print("sources:", runner.__file__, cases.__file__)
    return torch.nn.Linear(2, 2), (torch.ones(1, 2),)
"""


@pytest.mark.full
def test_run_py_uses_the_sources_beside_it_in_any_working_folder(tmp_path: Path) -> None:
    """With any modescope installed, and with any files in the working folder."""
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "__init__.py").write_text("")
    (tmp_path / "nosy.py").write_text(NOSY)
    done = subprocess.run(
        [sys.executable, ROOT / "run.py", *QUICKLY, "mode=eager", "model=custom",
         "model.target=nosy:build"],
        cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": "."},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    (log,) = (tmp_path / "results" / "main" / "logs").glob("*.log")
    sources = (ROOT / "bench" / "case" / "runner.py", ROOT / "bench" / "records" / "cases.py")
    assert f"sources: {sources[0]} {sources[1]}" in log.read_text()


@pytest.mark.full
@pytest.mark.parametrize(
    "arguments",
    [
        ["model.target=torch.nn:LSTM", "+model.kwargs={input_size: 4, hidden_size: 3}",
         "+model.inputs={input: [seq, batch, 4]}", "shape.seq=2"],
        ["model.target=net:positional"],
    ],
    ids=["described inputs", "argument of a function"],
)  # fmt: skip
def test_sizes_of_a_custom_model_are_swept(
    cli: Cli, results: Path, theirs: Callable[..., list[str]], arguments: list[str]
) -> None:
    asked = ["-m", *last_of_each(*theirs("x"), *arguments), "mode=inference_mode"]
    answer = cli(*asked, "shape.batch=1,3")
    assert (answer.status, beside_progress(answer.err)) == (0, "")
    found = rows(results)
    assert [(row["status"], row["batch"]) for row in found] == [("ok", 1), ("ok", 3)]
    assert "reusing 2 of 3 cases" in cli(*asked, "shape.batch=1,2,3").out
    again = cli(*shlex.split(found[0]["command"])[2:], "study=again")
    assert (again.status, beside_progress(again.err)) == (0, "")
    assert rows(results, "again")[0]["case_id"] == found[0]["case_id"]


ALL_MODES = (
    "eager,no_grad,inference_mode,amp,compile,reduce-overhead,max-autotune,"
    "max-autotune-no-cudagraphs,cuda-graph,compile-cuda-graph,amp-compile"
)


@pytest.mark.full
def test_every_mode_is_measured_or_skipped_with_a_reason(cli: Cli, results: Path) -> None:
    asked = last_of_each(*TINY, f"mode={ALL_MODES}", "profile=true", "memory=true")
    answer = cli("-m", *asked)
    assert (answer.status, beside_progress(answer.err)) == (0, "")
    found = {row["mode"]: row for row in rows(results)}
    assert set(found) == set(ALL_MODES.split(","))
    assert len(rows(results)) == 11
    skipped = {mode for mode, row in found.items() if row["status"] == "skipped"}
    same_kernels = {
        "reduce-overhead": "compile",
        "max-autotune": "max-autotune-no-cudagraphs",
        "max-autotune-no-cudagraphs": "compile",  # known after compiling
    }
    assert skipped == {"cuda-graph", "compile-cuda-graph", *same_kernels}
    for mode in skipped:
        why = "needs an NVIDIA GPU"
        if mode in same_kernels:
            why = f"the kernels of mode={same_kernels[mode]} again"
        assert why in found[mode]["reason"]
    assert {row["status"] for row in found.values()} == {"ok", "skipped"}
    for row in found.values():
        if row["status"] == "ok":
            assert row["first_call_s"] > 0
            assert row["kernels"] >= 1
            assert row["resident_bytes"] >= row["weights_bytes"] + row["input_bytes"]
            notes = (row["profile_note"], row["memory_note"], row["work_note"])
            assert not any("failed" in note for note in notes if note)
    assert (results / "main" / "report" / "index.html").stat().st_size > 0
    assert f"report   {results / 'main' / 'report' / 'index.html'}" in answer.out


@pytest.mark.full
def test_a_failing_model_does_not_stop_the_sweep(
    cli: Cli, results: Path, theirs: Callable[..., list[str]]
) -> None:
    names = ("aborting_while_built", "sleeping", "raising", "keyword")
    answer = cli("-m", *theirs(*names), "mode=eager", "timeout_s=6")
    assert answer.status == 1
    assert "Traceback" not in answer.err
    found = {row["model"].removeprefix("custom:net:"): row for row in rows(results)}
    assert {name: row["status"] for name, row in found.items()} == {
        "keyword": "ok",
        "aborting_while_built": "crashed",
        "sleeping": "timeout",
        "raising": "failed",
    }
    assert "SIGABRT" in found["aborting_while_built"]["reason"]
    assert found["sleeping"]["reason"] == "still running after timeout_s=6, during reference"
    assert found["raising"]["reason"].endswith(": RuntimeError: not today")
    for name in ("sleeping", "raising"):
        assert found[name]["latency_rounds_s"] is None
        assert name in answer.out


@pytest.mark.full
def test_a_model_that_crashes_the_profiler_is_still_timed(
    cli: Cli, results: Path, theirs: Callable[..., list[str]]
) -> None:
    asked = theirs("aborting_under_a_profiler")
    answer = cli(*last_of_each(*asked, "mode=eager", "memory=true", "profile=true"))
    assert (answer.status, beside_progress(answer.err)) == (0, "")
    (row,) = rows(results)
    assert (row["status"], row["reason"]) == ("ok", None)
    assert row["latency_rounds_s"]
    assert row["kernels"] is row["step_peak_bytes"] is row["flops"] is None
    for note in ("memory_note", "work_note", "profile_note"):
        assert row[note].startswith("the process ended by SIGABRT, during memory; its output is in")
    assert row["dispatch_note"] is None or "SIGABRT" not in row["dispatch_note"]


# Exit status and table


@pytest.mark.full
def test_a_sweep_shows_its_own_rows_beside_newer_ones(cli: Cli, results: Path) -> None:
    real = ["budget=quick", "budget.warmup_min_s=0", "budget.timed_max_s=0.1"]
    sweep = ["-m", *TINY, "mode=eager"]
    for more in (real, [], real):
        answer = cli(*last_of_each(*sweep, *more))
        assert answer.status == 0
    assert "reusing 1 of 1 cases" in answer.out
    assert any(line.startswith(" eager ") for line in answer.out.splitlines())
    assert "no runs" not in answer.out


@pytest.mark.full
def test_a_closed_pipe_is_no_error(results: Path) -> None:
    command = f"'{sys.executable}' run.py 'results_dir={results}' -m {' '.join(TINY)} mode=eager"
    done = subprocess.run(["bash", "-c", f"{command} | head -1"], cwd=ROOT, text=True,
                          capture_output=True, check=True)  # fmt: skip
    assert len(done.stdout.splitlines()) == 1
    assert "Error" not in done.stderr
    assert [row["status"] for row in rows(results)] == ["ok"]


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


# Resuming


@pytest.mark.full
def test_a_repeated_sweep_measures_only_missing_cases(cli: Cli, results: Path) -> None:
    sweep = ["-m", *TINY]
    assert cli(*sweep, "mode=eager,no_grad").status == 0
    first = [row["run_id"] for row in rows(results)]
    assert len(first) == 2

    more = cli(*sweep, "mode=eager,no_grad,inference_mode")
    assert "reusing 2 of 3 cases" in more.out
    assert [row["run_id"] for row in rows(results)][:2] == first
    assert len(rows(results)) == 3
    for mode in ("eager", "no_grad", "inference_mode"):
        assert f" {mode} " in more.out

    anew = cli(*sweep, "mode=eager", "resume=false")
    assert "reusing" not in anew.out
    assert len(rows(results)) == 4


@pytest.mark.full
def test_a_row_of_a_smaller_budget_is_not_reused(cli: Cli, results: Path) -> None:
    sweep = ["-m", *TINY, "mode=eager"]
    quick = ["budget=quick", "budget.warmup_min_s=0", "budget.timed_max_s=0.1"]
    for arguments, reused in ((sweep, False), (last_of_each(*sweep, *quick), False), (sweep, True)):
        assert ("reusing 1 of 1 cases" in cli(*arguments).out) == reused
    assert len(rows(results)) == 2


@pytest.mark.full
def test_an_edited_model_is_measured_again(
    cli: Cli, results: Path, theirs: Callable[..., list[str]], tmp_path: Path
) -> None:
    sweep = ["-m", *theirs("positional"), "mode=eager"]
    cli(*sweep)
    assert "reusing 1 of 1" in cli(*sweep).out
    with (tmp_path / "their folder" / "net.py").open("a") as file:
        file.write("\n# now different\n")
    assert "reusing" not in cli(*sweep).out
    assert len(rows(results)) == 2


@pytest.mark.full
def test_a_case_named_twice_in_a_sweep_is_measured_once(cli: Cli, results: Path) -> None:
    assert cli("-m", *TINY, "mode=eager,eager,bf16/eager", "dtype=fp32").status == 0
    assert len(rows(results)) == 1


def test_a_dry_run_lists_the_cases(cli: Cli, results: Path) -> None:
    answer = cli("-m", *TINY, "mode=eager,no_grad", "dry_run=true")
    assert (answer.status, answer.err) == (0, "")
    listed = [line for line in answer.out.splitlines() if line.startswith("python run.py ")]
    assert [" mode=eager" in listed[0], " mode=no_grad" in listed[1], len(listed)] == [1, 1, 2]
    assert "dry_run=" not in answer.out
    assert not rows(results)


# Interrupted


SWEEP = ["-m", *TINY, "mode=eager,no_grad,inference_mode", "shape.batch=1,2"]


@pytest.mark.full
def test_after_ctrl_c_the_same_command_resumes(results: Path) -> None:
    sweep = started(results, SWEEP)
    assert soon(lambda: stored(results) >= 2, within_s=60)
    os.killpg(sweep.process.pid, signal.SIGINT)
    answer = sweep.end()
    assert answer.status == 130
    assert "Traceback" not in answer.err
    assert "run the sweep again to continue" in answer.out
    assert soon(lambda: not alive(sweep.sign))
    done = [row["run_id"] for row in rows(results)]
    assert 2 <= len(done) < 6

    rest = started(results, SWEEP).end()
    assert rest.status == 0
    assert f"reusing {len(done)} of 6 cases" in rest.out
    assert [row["run_id"] for row in rows(results)][: len(done)] == done
    assert len({row["case_id"] for row in rows(results)}) == len(rows(results)) == 6


def test_ctrl_c_while_hydra_opens_a_file_ends_cleanly(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hydra then closes a file that it never opened, and that error hides the Ctrl-C."""
    opened = Path.open

    def interrupted(path: Path, *arguments: Any, **options: Any) -> Any:
        if "hydra" in path.parts and path.suffix == ".yaml":
            raise KeyboardInterrupt
        return opened(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", interrupted)
    assert cli("mode=eager") == Answer(130, "stopped\n", "")


@pytest.mark.full
@pytest.mark.parametrize("later_s", [0.1, 0.7])
def test_ctrl_c_while_torch_is_imported_ends_cleanly(results: Path, later_s: float) -> None:
    sweep = started(results, SWEEP)
    assert soon(lambda: len(alive(sweep.sign)) >= 2, within_s=30)  # a helper process has started
    time.sleep(later_s)
    os.killpg(sweep.process.pid, signal.SIGINT)
    answer = sweep.end()
    assert answer.status == 130
    assert answer.err == ""
    assert soon(lambda: not alive(sweep.sign), within_s=10)
