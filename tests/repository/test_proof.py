"""The proof on a GPU: its runner on stub steps, and the table of its real ones."""

from __future__ import annotations

import shlex
import signal
import sys
import tarfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from modescope.bench.records.errors import UsageError
from modescope.bench.tools.claims import arguments as claims_arguments
from modescope.bench.tools.claims.table import CLAIMS
from modescope.bench.tools.peers import arguments as peers_arguments
from modescope.bench.tools.selfcheck.__main__ import _parse as parse_selfcheck
from tests.helpers.commands import Ask
from tests.helpers.paths import ROOT
from tests.helpers.processes import alive, marker, soon
from tests.proof import __main__ as proof
from tests.proof import records, running, table
from tests.proof.facts import __main__ as facts
from tests.proof.passed_tests import note
from tests.proof.records import Machine
from tests.proof.step import FOLDER, PYTHON, Command, Setting, Step
from tests.proof.table import PASSED, STEPS, TIMED_CLAIMS, must, passed

CPU = Machine(None, "2.13.0", "3.12.1")
GPU = Machine("NVIDIA H100", "2.11.0", "3.12.1")

COUNTS = "open({!r}, 'a').write('ran\\n')"
WAITS = """
import os, sys, time
if os.path.exists(sys.argv[1]): sys.exit()
try:
    open(sys.argv[1], 'a').write('begun')
    time.sleep(20)
except KeyboardInterrupt:
    open(sys.argv[1], 'a').write(', saved')
    sys.exit(130)
"""
STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
subprocess.Popen(['sleep', sys.argv[1]])
time.sleep(60)
"""

Prove = Callable[..., int]


def python(code: str, *words: str) -> Command:
    return Command((PYTHON, "-c", code, *words))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "proof"


@pytest.fixture
def prove(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Prove:
    """The command with these steps on that machine; returns its exit status."""

    def call(*words: str, steps: tuple[Step, ...], here: Machine = CPU) -> int:
        monkeypatch.setattr(proof, "STEPS", steps)
        monkeypatch.setattr(proof, "machine", lambda *_: here)
        with monkeypatch.context() as patch:
            patch.setattr(signal, "signal", lambda *_: None)
            return proof.main(["--folder", str(folder), *words])

    return call


def counting(file: Path, name: str = "counts", needs_gpu: bool = False) -> Step:
    return Step(name, f"step {name}", (python(COUNTS.format(str(file))),), needs_gpu=needs_gpu)


def test_a_second_call_reuses_what_is_there(
    prove: Prove, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    step = counting(tmp_path / "count")
    assert [prove(steps=(step,)) for _ in range(2)] == [0, 0]
    assert (tmp_path / "count").read_text() == "ran\n"
    assert "  1 done   step counts (" in capsys.readouterr().out


def test_a_cheap_last_step_is_always_repeated(prove: Prove, tmp_path: Path) -> None:
    code = COUNTS.format(str(tmp_path / "count"))
    step = Step("last", "last", (python(code),), needs_gpu=False, repeats=True)
    assert [prove(steps=(step,)) for _ in range(2)] == [0, 0]
    assert (tmp_path / "count").read_text() == "ran\n" * 2


def test_a_step_is_stopped_in_its_time_and_continues(
    prove: Prove, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, after = tmp_path / "state", tmp_path / "after"
    commands = (python(WAITS, str(file)), python(COUNTS.format(str(after))))
    step = Step(
        "waits", "waits", commands, minutes=0.02, needs_gpu=False,
        reached=lambda folder: file.read_text(),
    )  # fmt: skip
    assert prove(steps=(step,)) == 0
    assert "open   waits (stopped when its time was over, after 0.0 min; begun, saved)" in (
        capsys.readouterr().out
    )
    assert not after.exists()
    assert prove(steps=(replace(step, minutes=9),)) == 0
    assert "1 done, 0 failed, 0 open" in capsys.readouterr().out
    assert after.exists()


def test_what_ignores_ctrl_c_is_killed_with_its_children(
    prove: Prove, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "GRACE_S", 0.1)
    sign = marker()
    step = Step("stubborn", "stubborn", (python(STUBBORN, sign),), 0.005, needs_gpu=False)
    begin = time.monotonic()
    assert prove(steps=(step,)) == 0
    assert time.monotonic() - begin < 10
    assert soon(lambda: not alive(sign))


def test_a_call_ends_after_its_minutes(
    prove: Prove, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    waits = Step("waits", "waits", (python(WAITS, str(state)),), needs_gpu=False)
    steps = (waits, counting(tmp_path / "count"))
    assert prove("--minutes", "0.01", steps=steps) == 0
    assert not (tmp_path / "count").exists()
    assert "0 done, 0 failed, 2 open" in capsys.readouterr().out
    state.write_text("let it end")
    assert prove(steps=steps) == 0
    assert "2 done, 0 failed, 0 open" in capsys.readouterr().out


def test_a_failed_step_is_shown_and_repeated_only_by_its_number(
    prove: Prove, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "count"
    fails = python(f"{COUNTS.format(str(file))}; print('the reason'); exit(3)")
    steps = (
        Step("fails", "fails", (fails, python("")), needs_gpu=False),
        counting(tmp_path / "after"),
    )
    assert prove(steps=steps) == 1
    printed = capsys.readouterr().out
    assert "status 3: python -c" in printed
    assert "| the reason" in printed
    assert "failed fails (1 of 2 commands failed: output/fails.txt)" in printed
    assert (tmp_path / "after").exists()
    assert prove(steps=steps) == 1
    assert file.read_text() == "ran\n"
    assert prove("--only", "1", steps=steps) == 1
    assert file.read_text() == "ran\n" * 2


def test_a_step_for_a_gpu_is_open_on_a_cpu(
    prove: Prove, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = (counting(tmp_path / "count", needs_gpu=True),)
    assert prove(steps=steps) == 0
    assert "open   step counts (needs a GPU)" in capsys.readouterr().out
    assert not (tmp_path / "count").exists()


def test_records_belong_to_their_machine(
    prove: Prove, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "count"
    steps = (counting(file, needs_gpu=True),)
    assert prove(steps=steps, here=GPU) == 0
    capsys.readouterr()
    assert prove(steps=steps) == 0
    assert "done   step counts" in capsys.readouterr().out, "visible without a GPU"
    assert prove(steps=steps, here=Machine("NVIDIA H200", "2.11.0", "3.12.1")) == 0
    assert file.read_text() == "ran\n" * 2


def test_a_step_waits_for_what_it_needs(prove: Prove, capsys: pytest.CaptureFixture[str]) -> None:
    step = Step("keeps", "keeps", (python(""),), needs_gpu=False, lacks=lambda folder: "no rows")
    assert prove(steps=(step,)) == 0
    assert "open   keeps (no rows)" in capsys.readouterr().out


def test_the_archive_continues_elsewhere(
    prove: Prove, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    step = counting(tmp_path / "count")
    assert prove(steps=(step,)) == 0
    archive, elsewhere = folder.with_name("proof.tar.gz"), tmp_path / "elsewhere"
    words = ("--folder", str(elsewhere), "--start-from", str(archive))
    assert prove(*words, steps=(step,)) == 0
    assert (tmp_path / "count").read_text() == "ran\n"
    assert (elsewhere / "output" / "counts.txt").read_text().startswith("\n$ python -c")
    assert prove(*words, steps=(step,)) == 2
    assert "is not empty" in capsys.readouterr().err


def test_the_archive_holds_what_cannot_be_made_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = ("proof.json", "main/runs/a.parquet", "facts/page.md", "main/traces/small.gz")
    again = ("reference/runs/a.parquet", "main/report/index.html", "caches/a/b", "main/logs/log")
    for name in (*kept, *again, "main/runs/.partial"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / "main/traces/large.gz").write_bytes(b"0" * 5000)
    monkeypatch.setattr(records, "ARCHIVE_MAX_BYTES", 4000)
    assert records.pack(folder, tmp_path / "all.tar.gz") == ["main/traces/large.gz"]
    with tarfile.open(tmp_path / "all.tar.gz") as tar:
        assert sorted(tar.getnames()) == sorted(kept)
    records.unpack(tmp_path / "all.tar.gz", tmp_path / "new")
    assert (tmp_path / "new/facts/page.md").read_text() == "facts/page.md"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("--only 0", "--only 0: allowed are numbers from 1 to 1"),
        ("--only 1,2", "--only 1,2: allowed are"),
        ("--only one", "--only one: allowed are"),
        ("--minutes 0", "0 is not a number of minutes above 0"),
        ("--start-from nowhere.tar.gz", "--start-from nowhere.tar.gz cannot be unpacked"),
        ("--wheels nowhere", "holds no wheels; make gpu-wheels downloads them"),
        ("--archive /proc/none/proof.tar.gz", "--archive /proc/none/proof.tar.gz"),
        ("--frobnicate", "unrecognized arguments: --frobnicate"),
    ],
)
def test_wrong_arguments_are_one_sentence(
    words: str, reason: str, prove: Prove, capsys: pytest.CaptureFixture[str]
) -> None:
    step = Step("nothing", "nothing", (python(""),), needs_gpu=False)
    assert prove(*words.split(), steps=(step,)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert reason in line


def test_a_damaged_record_is_named(
    prove: Prove, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.mkdir()
    (folder / records.FILE).write_text('{"counts": []}')
    assert prove(steps=()) == 2
    assert f"{folder / records.FILE} cannot be read" in capsys.readouterr().err


def test_an_interpreter_without_torch_is_refused(tmp_path: Path) -> None:
    stub = tmp_path / "python"
    stub.write_text("#!/bin/sh\necho No module named torch >&2; exit 1\n")
    stub.chmod(0o755)
    with pytest.raises(UsageError, match=r"cannot import torch \(No module named torch\)"):
        proof.machine(str(stub), False)


def test_a_rehearsal_is_small_and_has_a_gpu(
    prove: Prove, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = "import os, sys; print(sys.argv[1], 'pretended' in os.environ.get('PYTHONPATH', ''))"
    both = Command((PYTHON, "-c", code, "large"), (PYTHON, "-c", code, "small"))
    judge = Command((PYTHON, "-c", "exit(1)"), judges=True)
    steps = (
        Step("gpu", "gpu", (both, judge)),
        Step("cpu", "cpu", (both,), needs_gpu=False),
        Step("hardware", "hardware", (Command((PYTHON,), ()),)),
    )
    assert prove("--rehearse", steps=steps, here=GPU) == 0
    rehearsed = folder.with_name("proof-rehearsed")
    for name, gpu in (("gpu", True), ("cpu", False)):
        assert f"\nsmall {gpu}\n" in (rehearsed / "output" / f"{name}.txt").read_text()
    assert "open   hardware (left out of rehearsals" in capsys.readouterr().out
    assert prove(steps=steps[:1], here=GPU) == 1, "a verdict counts outside of a rehearsal"


def test_the_list_runs_nothing(
    prove: Prove, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert prove("--list", steps=(counting(tmp_path / "count"),)) == 0
    assert "open   step counts" in capsys.readouterr().out
    assert not folder.exists()
    assert not (tmp_path / "count").exists()


def test_the_last_outcome_of_a_test_counts(tmp_path: Path) -> None:
    outcomes = (("a::x", "failed"), ("a::x", "passed"), ("a::y", "skipped"), ("b::z", "passed"))
    for test, outcome in outcomes:
        note(tmp_path / PASSED, test, outcome)
    assert passed(("a",), tmp_path) == "1 passed, 1 skipped"
    assert passed(("c",), tmp_path) == "no test"


def one_value(word: str, place: int) -> str:
    """A setting with one of its values: composing all their combinations takes seconds."""
    key, equals, values = word.partition("=")
    return f"{key}{equals}{values.split(',')[place]}"


def sweeps() -> list[tuple[str, ...]]:
    """The settings of the sweeps with one value each: the last, and the first of a rehearsal.

    Without the batch, in which several differ. A prepared sweep is composed in its rehearsal alone,
    which has one value for all that it varies.
    """
    found: dict[tuple[str, ...], None] = {}
    for command in (command for step in STEPS for command in step.commands):
        for place, words in ((-1, command.words), (0, command.rehearsed or ())):
            prepared = any(word.startswith("experiment=") for word in words)
            if words[1:2] == ("run.py",) and not (prepared and place):
                one = (one_value(word, place) for word in words[3:])
                found[tuple(word for word in one if not word.startswith("shape.batch="))] = None
    return list(found)


OTHERS = list(
    dict.fromkeys(
        words[2:]
        for step in STEPS
        for command in step.commands
        for words in (command.words, command.rehearsed or ())
        if words and words[1] != "run.py"
    )
)


def test_steps_have_names_and_fit_into_nine_minutes() -> None:
    assert len({step.name for step in STEPS}) == len(STEPS)
    assert max(step.minutes for step in STEPS) <= 9
    assert all(step.commands for step in STEPS)


def test_every_file_of_cuda_tests_belongs_to_a_step() -> None:
    named = {word for step in STEPS for command in step.commands for word in command.words}
    files = {str(file.relative_to(ROOT)) for file in (ROOT / "tests/cuda").glob("test_*.py")}
    assert files <= named


def test_every_timed_claim_about_a_gpu_is_a_command() -> None:
    timed = {name for name, claim in CLAIMS.items() if claim.timed and "cuda" in claim.devices}
    assert set(TIMED_CLAIMS) == timed


def test_names_of_commands_are_the_same_everywhere() -> None:
    here, there = Setting(sys.executable, Path("a")), Setting("python3", Path("/b"))
    (command, *_) = must("mlp", 1)
    assert command.name(here) == command.name(there)
    assert "budget=quick" in command.name(here)
    assert command.line(there)[0] == "python3"
    assert "results_dir=/b" in command.line(there)


@pytest.mark.parametrize("settings", sweeps(), ids=" ".join)
def test_every_sweep_is_understood(settings: tuple[str, ...], ask: Ask, tmp_path: Path) -> None:
    assert ask("-m", *(word.replace(FOLDER, str(tmp_path)) for word in settings))


@pytest.mark.parametrize("words", OTHERS, ids=shlex.join)
def test_every_other_command_is_understood(words: tuple[str, ...], tmp_path: Path) -> None:
    module, *rest = (word.replace(FOLDER, str(tmp_path)) for word in words)
    if module == "pytest":
        assert rest == list(
            table.tests(rest[-1], only=rest[-2]).line(Setting(sys.executable, tmp_path))[3:]
        )
        assert (ROOT / rest[-1]).exists()
    elif module == "bench.selfcheck":
        parse_selfcheck(rest)
    elif module == "bench.peers":
        peers_arguments.parse(rest, None)
    elif module == "bench.claims":
        claims_arguments.parse(rest, None)
    elif module == "tests.proof.facts":
        facts.parse(rest)
    else:
        path = ROOT / module.replace(".", "/")
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists()
