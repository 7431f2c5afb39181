"""`make gpu`: steps that end in every way, the budget, and runs that go on after a kill."""

from __future__ import annotations

import os
import signal
import tarfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.gpu import __main__ as command
from tests.gpu import driving, keep, proof, running
from tests.gpu.driving import Drive, Setting
from tests.gpu.log import Log, Machine, locked
from tests.gpu.steps import FOLDER, STEPS, Step
from tests.helpers.commands import start
from tests.helpers.fake_gpu_steps import MACHINE, MODULE, SLOW_S, last, ran, step
from tests.helpers.paths import ROOT
from tests.helpers.processes import alive, marker, soon


@pytest.fixture(autouse=True)
def _short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "GRACE_S", 0.2)
    monkeypatch.setattr(driving, "GRACE_S", 0.2)
    monkeypatch.setattr(driving, "SHORTEST_S", 0.1)


def log_of(folder: Path, machine: Machine = MACHINE) -> Log:
    log = Log(folder)
    if log.machine is None:
        log.begin(machine)
    return log


def drive(
    folder: Path, *steps: Step, budget_s: float = 60.0, call_s: float = 60.0, reserve_s: float = 0.5
) -> tuple[int, dict[str, str], dict[str, str]]:
    """Exit status of a call, the verdicts of the steps, and why some were not run."""
    log = log_of(folder)
    called = Drive(steps, Setting(folder, budget_s, call_s, reserve_s=reserve_s), log)
    return called.run(), proof.verdicts(steps, Log(folder)), called.reasons


@pytest.mark.parametrize(
    ("action", "verdict"),
    [
        ("pass", "passed"),
        ("fail", "failed"),
        ("skip", "skipped"),
        ("usage", "crashed"),
        ("raise", "crashed"),
        ("segfault", "crashed"),
        ("hang", "timeout"),
    ],
)
def test_a_step_has_the_verdict_of_its_end(action: str, verdict: str, tmp_path: Path) -> None:
    status, verdicts, _ = drive(
        tmp_path, step(action, "one", limit_s=0.6 if action == "hang" else 20)
    )
    assert verdicts == {"one": verdict}
    assert status == (0 if verdict in ("passed", "skipped") else 1)


def test_a_crash_says_how_it_ended(tmp_path: Path) -> None:
    drive(tmp_path, step("segfault", "one"), step("usage", "two"))
    said = [line.said for line in Log(tmp_path).lines]
    assert [each.rpartition("; ")[2] for each in said] == ["signal 11", "exit status 2"]


def test_a_step_that_runs_out_of_time_may_tidy_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "GRACE_S", 5.0)
    begin = time.monotonic()
    _, verdicts, _ = drive(tmp_path, step("tidy", "one", limit_s=4.0))
    assert time.monotonic() - begin < 9.0
    assert verdicts == {"one": "timeout"}
    assert Log(tmp_path).last()["one"].said == "tidied"


def test_beside_a_step_that_hangs_and_one_that_crashes_the_others_finish(tmp_path: Path) -> None:
    steps = [
        step("pass", "a"), step("hang", "b", limit_s=1.0), step("segfault", "c"),
        step("pass", "d"), last(),
    ]  # fmt: skip
    begin = time.monotonic()
    status, verdicts, _ = drive(tmp_path, *steps)
    assert time.monotonic() - begin < 20
    assert list(verdicts.values()) == ["passed", "timeout", "crashed", "passed", "passed"]
    assert status == 1
    assert ran(tmp_path) == ["a", "b", "c", "d", "end"]


@pytest.mark.parametrize("action", ["grandchild", "leave"])
def test_no_process_of_a_step_is_left(
    action: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign = marker()
    monkeypatch.setenv("MODESCOPE_TEST", sign)
    drive(tmp_path, step(action, "one", limit_s=1.5))
    assert soon(lambda: not alive(sign), within_s=3)


def test_the_budget_holds(tmp_path: Path) -> None:
    steps = [
        step("hang", "a", limit_s=2.0, expected_s=1.5), step("hang", "b", limit_s=30.0), last(),
    ]  # fmt: skip
    begin = time.monotonic()
    # what is reserved for the last step is enough to start a process on a busy machine
    _, verdicts, _ = drive(tmp_path, *steps, budget_s=10.0, reserve_s=5.0)
    assert time.monotonic() - begin < 10.0 + 1.5
    # b by the budget, before its own limit
    assert verdicts == {"a": "timeout", "b": "stopped", "end": "passed"}


def test_a_step_beyond_the_budget_is_not_started_and_a_shorter_one_is(tmp_path: Path) -> None:
    steps = [step("pass", "long", expected_s=50.0), step("pass", "short")]
    _, verdicts, reasons = drive(tmp_path, *steps, budget_s=10.0)
    assert verdicts == {"long": "not run", "short": "passed"}
    assert reasons["long"].startswith("budget")
    assert ran(tmp_path) == ["short"]


def test_earlier_calls_count_towards_the_budget(tmp_path: Path) -> None:
    drive(tmp_path, step("hang", "a", limit_s=2.0), budget_s=5.0)
    _, verdicts, reasons = drive(tmp_path, step("pass", "b", expected_s=2.5), budget_s=5.0)
    assert verdicts == {"b": "not run"}
    assert set(reasons) == {"b"}


def test_a_call_ends_in_time_and_the_next_goes_on(tmp_path: Path) -> None:
    steps = [step("pass", "a"), step("pass", "b", expected_s=8.0), step("pass", "c"), last()]
    _, verdicts, _ = drive(tmp_path, *steps, call_s=8.0)
    assert verdicts == {"a": "passed", "b": "not run", "c": "not run", "end": "passed"}
    _, verdicts, _ = drive(tmp_path, *steps)
    assert set(verdicts.values()) == {"passed"}
    assert ran(tmp_path) == ["a", "end", "b", "c", "end"]


def test_a_step_that_goes_on_gets_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driving, "AGAIN_S", 0.5)
    limit_s = 1.8 * SLOW_S  # beside the start of Python, for one half of its work
    _, verdicts, _ = drive(tmp_path, step("on", "a", limit_s=limit_s), step("pass", "b"))
    assert verdicts["b"] == "passed"
    assert ran(tmp_path)[:2] == ["a", "b"]
    if verdicts["a"] != "passed":  # on a busy machine
        assert ran(tmp_path).count("a") == 2


def test_nothing_goes_on_before_steps_of_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driving, "AGAIN_S", 0.1)
    steps = [step("on", "a", limit_s=0.2), step("pass", "b", expected_s=30.0)]
    _, verdicts, _ = drive(tmp_path, *steps, call_s=20.0)
    assert verdicts == {"a": "timeout", "b": "not run"}
    assert len(Log(tmp_path).lines) == 1


@pytest.mark.parametrize("moment", ["in the first", "after the second", "in the last"])
def test_a_run_that_is_killed_goes_on(moment: str, tmp_path: Path) -> None:
    named = "busy:a,busy:b,pass:c,busy:d"
    words = ["-m", MODULE, "drive", str(tmp_path), named]
    call = start(words, ROOT)

    def reached() -> bool:
        if moment == "after the second":
            return "b" in Log(tmp_path).ended()
        return ("a" if moment == "in the first" else "d") in ran(tmp_path)

    assert soon(reached, within_s=60)
    os.kill(call.process.pid, signal.SIGKILL)
    call.process.communicate()
    ended = {*Log(tmp_path).ended()}
    assert soon(lambda: not alive(call.sign), within_s=10)  # the guard has seen to it
    assert ended == {"in the first": set(), "in the last": {"a", "b", "c"}}.get(moment, {"a", "b"})

    again = start(words, ROOT)
    answer = again.end(60)
    assert answer.status == 0, answer
    assert {*Log(tmp_path).ended()} == {*"abcd", "end"}
    assert all(ran(tmp_path).count(name) == 1 for name in ended)
    page = (tmp_path / proof.PAGE).read_text()
    assert page.count("| passed |") == 5


def test_a_line_that_was_cut_off_is_no_line(tmp_path: Path) -> None:
    drive(tmp_path, step("pass", "a"))
    with (tmp_path / "steps.jsonl").open("a") as file:
        file.write('{"step": "b", "verd')
    _, verdicts, _ = drive(tmp_path, step("pass", "a"), step("pass", "b"))
    assert verdicts == {"a": "passed", "b": "passed"}
    assert ran(tmp_path) == ["a", "b"]


def test_a_long_output_is_cut(tmp_path: Path) -> None:
    drive(tmp_path, step("chatty", "a"))
    kept = (tmp_path / "output" / "a.txt").stat().st_size
    assert kept < running.HEAD_BYTES + running.TAIL_BYTES + 100


def test_the_page_says_what_a_pretended_gpu_shows(tmp_path: Path) -> None:
    log = log_of(tmp_path, replace(MACHINE, pretended=True))
    Drive([step("pass", "a|b")], Setting(tmp_path, 60.0, 60.0), log).run()
    page = (tmp_path / proof.PAGE).read_text()
    assert "pretended GPU: shows that the steps run, nothing about CUDA" in page
    assert "nothing about CUDA" not in proof.page([step("pass", "a")], log_of(tmp_path / "b"), {})


def test_the_page_keeps_what_earlier_calls_have_shown(tmp_path: Path) -> None:
    """A call with --only left a page with the steps of its own alone."""
    steps = [
        replace(each, module=MODULE, words=("pass", FOLDER, each.name), smoke=None, limit_s=60.0)
        for each in STEPS
        if each.name in ("power", "graphs")
    ]
    for each in reversed(steps):
        Drive([each], Setting(tmp_path, 60.0, 60.0, reserve_s=0.5), log_of(tmp_path)).run()
    page = (tmp_path / proof.PAGE).read_text()
    assert page.index("| 3 | power | passed |") < page.index("| 4 | graphs | passed |")
    assert "- 2 passed; " in page


def test_the_folder_is_kept_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = tmp_path / "graphs"
    for name in ("logs/x.log", "report/index.html", *(f"traces/{n}.json.gz" for n in range(4))):
        (study / name).parent.mkdir(parents=True, exist_ok=True)
        (study / name).write_text("x" * 1000)
    (study / "traces" / "1.pickle").write_text("x")
    keep.prune(tmp_path)
    assert {each.name for each in (study / "traces").iterdir()} == {"0.json.gz", "1.json.gz"}
    assert not (study / "logs").exists()
    assert keep.size_bytes(tmp_path) == 2000
    with tarfile.open(keep.pack(tmp_path, tmp_path.with_name("out"))) as archive:
        assert f"{tmp_path.name}/graphs/traces/0.json.gz" in archive.getnames()
    monkeypatch.setattr(keep, "MOST_BYTES", 1500)
    keep.prune(tmp_path)
    assert keep.size_bytes(tmp_path) == 0


@pytest.mark.parametrize(
    "words",
    [
        ["--budget-s", "soon"],
        ["--budget-s", "-1"],
        ["--only", "nothing"],
        ["--wheels", "/none"],
        ["x"],
    ],
)
def test_a_mistake_is_one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(words) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_a_folder_of_another_machine_or_run_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_of(tmp_path, replace(MACHINE, gpu="NVIDIA A100"))
    monkeypatch.setattr(command, "read_machine", lambda pretended: MACHINE)
    words = ["--folder", str(tmp_path), "--only", "power"]
    assert command.main(words) == 2
    with locked(tmp_path):
        assert command.main(words) == 2


@pytest.mark.parametrize("option", ["--folder", "--out"])
def test_a_folder_that_cannot_be_made_is_a_mistake_before_anything_runs(
    option: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(command, "read_machine", lambda pretended: MACHINE)
    (file := tmp_path / "file").touch()
    words = ["--folder", str(tmp_path / "a"), "--only", "power", option, str(file)]
    assert command.main(words) == 2
    assert capsys.readouterr().err == f"error: {file}: File exists\n"
    assert not (tmp_path / "a" / "steps.jsonl").exists()


def test_the_folder_is_named_by_the_card() -> None:
    assert command.default_folder(MACHINE).name == "nvidia-h200"
    pretended = command.default_folder(replace(MACHINE, pretended=True))
    assert "reference" not in pretended.parts


def test_again_repeats_what_did_not_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = (step("pass", "a"), step("fail", "b"))
    drive(tmp_path, *steps)
    monkeypatch.setattr(command, "read_machine", lambda pretended: MACHINE)
    monkeypatch.setattr(command, "_steps", lambda options: steps)
    for words, times in (([], 1), (["--again"], 2)):
        assert command.main(["--folder", str(tmp_path), *words]) == 1
        assert ran(tmp_path).count("a") == 1
        assert ran(tmp_path).count("b") == times


def test_without_a_gpu_it_says_so() -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is one")
    call = start(["-m", "tests.gpu", "--only", "power"], ROOT)
    answer = call.end(100)
    assert answer.status == 2
    assert answer.err.count("\n") == 1
