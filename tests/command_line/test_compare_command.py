"""`python -m analysis.compare`: studies on disk, exit statuses, files, and what people mistype."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest

from modescope.analysis import load
from modescope.analysis.compare import command, exporters, gate
from tests.helpers.comparisons import processes
from tests.helpers.studies import save

ALL = ("--gate", "exact,speedup,latency")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Studies of two modes: old, the same code again, slower, and other machines and models."""
    folder = tmp_path_factory.mktemp("studies")
    modes = ("eager", "compile")
    studies = {
        "old": processes(1, count=3, modes=modes),
        "same": processes(2, count=3, modes=modes),
        "slower": processes(3, {"compile": 1.2}, count=3, modes=modes),
        "few": processes(4, count=1, modes=modes),
        "elsewhere": processes(5, count=1, modes=modes, host="another"),
        "other": processes(6, count=1, modes=modes, model="mlp"),
    }
    for name, records in studies.items():
        save(records, folder / name)
    (folder / "empty" / "rows").mkdir(parents=True)
    shutil.copytree(folder / "few", folder / "copy")
    shutil.copytree(folder / "few", folder / "damaged")
    next((folder / "damaged" / "rows").iterdir()).write_bytes(b"PAR1 not whole")
    return folder


@pytest.fixture(autouse=True, scope="module")
def in_folder(folder: Path) -> Iterator[None]:
    """Each study is read once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(load, "read", cache(load.read))
        yield


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("old", "same", *ALL), 0),
        (("old", "slower"), 0),  # one after the other: timings are reported only
        (("old", "slower", *ALL), 1),
        (("old", "slower", *ALL, "--where", 'mode == "eager"'), 0),
        (("old", "few", *ALL, "--strict"), 3),
        (("old", "few", *ALL, "--strict", "--bisect"), 125),
        (("old", "elsewhere"), 2),
        (("old", "elsewhere", "--bisect"), 125),
        (("old", "damaged", "--allow", "unreadable_files"), 1),  # its row is missing
    ],
)
def test_exit_status(arguments: tuple[str, ...], status: int) -> None:
    assert command.main(arguments) == status


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "the following arguments are required: OLD, NEW"),
        (("nowhere", "same"), "OLD: no study at nowhere"),
        (("old", "old"), "OLD and NEW hold the same runs"),
        (("few", "copy"), "hold the same runs (2"),
        (("old", "other"), "no row of old is in other"),
        (("empty", "old"), "OLD: no row could be read in empty/rows"),
        (("old", "damaged"), "NEW: 1 file in damaged cannot be compared"),
        (("old", "elsewhere"), "differ in host bench-host → another"),
        (("old", "same", "--gate", "latncy"), "--gate latncy: no such gate"),
        (("old", "same", "--margin", "1"), "--margin 1: expected a percentage"),
        (("old", "same", "--where", 'mode == "amp"'), "so nothing is compared"),
        (("old", "same", "--json", "nowhere/j.json"), "--json nowhere/j.json cannot be written"),
        (("old", "few", "--gate", "launches"), "nothing is compared by --gate launches"),
    ],
)
def test_mistakes_end_with_a_sentence_and_status_2(
    arguments: tuple[str, ...], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(arguments) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert expected in errors[0]


def test_every_file_is_written_beside_the_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [f"--{name}={tmp_path / name}" for name in exporters.FILES]
    assert command.main(["old", "slower", *ALL, *options]) == 1
    sentence = "Regression: 1 of 2 rows fails (1 slower)."
    assert capsys.readouterr().out.startswith(sentence)
    for name in exporters.FILES:
        assert sentence in (tmp_path / name).read_text()


def test_a_refusal_replaces_the_files_of_an_earlier_comparison(tmp_path: Path) -> None:
    report = tmp_path / "junit.xml"
    assert command.main(["old", "same", "--junit", str(report)]) == 0
    assert command.main(["old", "other", "--junit", str(report), f"--json={tmp_path / 'j'}"]) == 2
    assert "no row of old" in next(ElementTree.parse(report).iter("error")).get("message")
    assert json.loads((tmp_path / "j").read_text())["status"] == 2


def test_github_gets_annotations_and_a_summary(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    assert command.main(["old", "slower", *ALL, "--github"]) == 1
    assert capsys.readouterr().out.startswith("::error title=modescope::Regression: 1 of 2")
    assert (tmp_path / "summary").read_text().startswith("\n**Regression")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    assert command.main(["old", "same", "--github"]) == 2


def test_a_fault_of_our_own_is_not_taken_for_a_regression(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(request: gate.Request) -> None:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(gate, "compare", broken)
    assert command.main(["old", "same"]) == 2
    assert command.main(["old", "same", "--bisect"]) == 125
    assert "ZeroDivisionError: ours" in capsys.readouterr().err


def test_a_reader_that_stops_reading_does_not_change_the_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def closed(text: str, **_: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("builtins.print", closed)
    monkeypatch.setattr("sys.stderr.close", lambda: None)
    assert command.main(["old", "slower", *ALL]) == 1


def test_a_row_measured_in_two_environments_counts_in_the_newer_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    older = processes(7, count=3, modes=("eager",), environment_id="env-0", torch_version="2.11")
    newer = processes(8, count=3, modes=("eager",))
    study = save([*older, *newer], tmp_path / "both")
    assert command.main([str(study), "same"]) == 0
    out = capsys.readouterr().out
    assert "OLD: 3 processes are left out, measured earlier in another environment" in out
    assert "the same code on both sides" in out


@pytest.mark.parametrize(
    ("earlier", "later", "left_out"),
    [("/a/python", "/b/python", 2), ("git:main (01)", "git:main (23)", 0)],
)
def test_a_row_measured_in_two_states_counts_in_the_later_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], earlier: str | None, later: str,
    left_out: int,
) -> None:  # fmt: skip
    """Two revisions of equal files are one state: their environments tell others apart."""
    first = processes(7, count=5, modes=("eager",), versus_state=earlier)
    again = processes(8, count=3, modes=("eager",), versus_state=later)
    study = save([*first, *again], tmp_path / "both")
    assert command.main([str(study), "same"]) == 0
    noted = f"OLD: {left_out} processes are left out"
    assert (noted in capsys.readouterr().out) is bool(left_out)
