"""`python -m analysis.compare`: studies on disk, exit statuses, files, and what people mistype."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from modescope.analysis import load
from modescope.analysis.compare import arguments, command, gate
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
        (("old", "elsewhere", "--bisect"), 125),
        (("old", "damaged", "--allow", "unreadable_files"), 1),  # its row is missing
    ],
)
def test_exit_status(arguments: tuple[str, ...], status: int) -> None:
    assert command.main(arguments) == status


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("old", "other"), "no row of old is in other"),
        (("old", "damaged"), "NEW: 1 file in damaged"),
        (("old", "elsewhere"), "host"),
        (("old", "same", "--where", 'mode == "amp"'), "so nothing is compared"),
    ],
)
def test_studies_that_cannot_be_compared_are_refused(
    arguments: tuple[str, ...], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(arguments) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert expected in errors[0]


def test_every_file_is_written_beside_the_text_and_replaced_by_a_refusal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [f"--{name}={tmp_path / name}" for name in arguments.FILES]
    assert command.main(["old", "slower", *ALL, *options]) == 1
    sentence = "Regression: 1 of 2 rows fails (1 slower)."
    assert capsys.readouterr().out.startswith(sentence)
    for name in arguments.FILES:
        assert sentence in (tmp_path / name).read_text()
    assert command.main(["old", "other", *options]) == 2
    report = ElementTree.parse(tmp_path / "junit")
    assert "no row of old" in next(report.iter("error")).get("message")
    assert json.loads((tmp_path / "json").read_text())["status"] == 2


def test_github_gets_annotations_and_a_summary(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    assert command.main(["old", "slower", *ALL, "--github"]) == 1
    assert capsys.readouterr().out.startswith("::error title=modescope::Regression: 1 of 2")
    assert (tmp_path / "summary").read_text().startswith("\n**Regression")


def test_a_fault_of_our_own_is_not_taken_for_a_regression(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gate, "compare", lambda request: 1 / 0)
    assert command.main(["old", "same"]) == 2
    assert command.main(["old", "same", "--bisect"]) == 125
    assert "ZeroDivisionError" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("earlier", "later", "left_out"),
    [
        ({"environment_id": "env-0", "torch_version": "2.11"}, {}, ["5"]),
        ({"versus_state": "/a/python"}, {"versus_state": "/b/python"}, ["2"]),
        ({"versus_state": "git:main (01)"}, {"versus_state": "git:main (23)"}, []),
    ],
)
def test_a_row_measured_twice_counts_in_the_later_environment_and_state(
    tmp_path: Path, capsys: pytest.CaptureFixture[str],
    earlier: dict[str, Any], later: dict[str, Any], left_out: list[str],
) -> None:  # fmt: skip
    """Two revisions of equal files are one state: their environments tell others apart."""
    first = processes(7, count=5, modes=("eager",), **earlier)
    again = processes(8, count=3, modes=("eager",), **later)
    study = save([*first, *again], tmp_path / "both")
    assert command.main([str(study), "same"]) == 0
    said = capsys.readouterr().out
    assert re.findall(r"OLD: (\d+) processes are left out", said) == left_out
