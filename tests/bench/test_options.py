"""Options of torch.compile, one at a time: verdicts, the fastest, and its code, of planted rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

import pytest

from modescope.analysis.rows.type import Row
from modescope.bench import options
from modescope.bench.resolve import Request
from modescope.bench.sweep import isolation
from tests.helpers.derivations import studies_of
from tests.helpers.studies import record

Planted = dict[str, tuple[float, str]]
"""Speedup and hash of the code by the name of an option; `compile` is the mode without any."""

PLAIN: Planted = {"compile": (1.0, "a")}
FASTER: Planted = PLAIN | {"cpp.simdlen": (1.3, "b"), "max_fusion_size": (0.7, "c")}
EQUAL: Planted = PLAIN | {"cpp.simdlen": (1.3, "a"), "max_fusion_size": (1.0, "c")}
OPTIONS = ["--option", "cpp.simdlen=1", "--option", "max_fusion_size=8"]

Run = Callable[[Planted, list[str]], tuple[int, str, list[list[str]]]]


def name_of(request: Request) -> str:
    mode = request.settings.mode
    return next(iter(mode.options), mode.name)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command with planted rows; returns its status, its output and what it measured."""

    def ran(planted: Planted, words: list[str]) -> tuple[int, str, list[list[str]]]:
        measured, folders = list[list[str]](), count()

        def measure(requests: Sequence[Request]) -> list[Row]:
            measured.append([f"{name_of(each)}/{each.baseline.name}" for each in requests])
            records = []
            for request in requests:
                mode, baseline = request.settings.mode, request.baseline
                speedup, code_hash = planted[name_of(request)]
                given = json.dumps({"options": mode.options}) if mode.options else None
                axes = json.dumps(dict(mode.mode().axes)) if mode.mode().axes else None
                records += [
                    record(mode.name, 1e-3, speedup, code_hash=code_hash, compile_options=given,
                           axes=axes, baseline_mode=baseline.name, replicate=number,
                           spread=0.01 + number / 1000)
                    for number in range(request.settings.replicates)
                ]  # fmt: skip
            (rows,) = studies_of(tmp_path / str(next(folders)), [records])
            return rows

        monkeypatch.setattr(options, "_measure", measure)
        status = options.main(["mlp", "--device", "cpu", f"results_dir={tmp_path}", *words])
        return status, capsys.readouterr().out, measured

    return ran


def verdicts(printed: str) -> dict[str, str]:
    """The line of each option in the table, without the option."""
    table = printed.partition("was fastest")[0]
    lines = (line.strip().partition(" ") for line in table.splitlines())
    return {name: rest.strip() for name, _, rest in lines if "=" in name and rest}


def test_the_fastest_option_is_measured_again_and_its_code_printed(run: Run) -> None:
    status, printed, measured = run(FASTER, OPTIONS)
    assert status == 0
    assert measured == [
        ["compile/compile", "cpp.simdlen/compile", "max_fusion_size/compile"],
        ["cpp.simdlen/compile"],
    ]
    said = verdicts(printed)
    assert said["cpp.simdlen=1"].startswith("1.300×")
    assert said["cpp.simdlen=1"].endswith("faster")
    assert said["max_fusion_size=8"].endswith("slower")
    assert "{'cpp.simdlen': 1}" in printed.partition("was fastest, in 3 processes")[2]


def test_equal_code_is_no_gain_whatever_the_rounds_say(run: Run) -> None:
    status, printed, measured = run(EQUAL, OPTIONS)
    assert (status, len(measured)) == (0, 1)
    said = verdicts(printed)
    assert said["cpp.simdlen=1"].endswith(options.EQUAL_CODE)
    assert said["max_fusion_size=8"].endswith("equivalent")
    assert "torch.compile" not in printed


def test_freezing_and_the_mode_without_it_are_each_paired_with_eager(run: Run) -> None:
    planted = {"compile": (0.9, "a"), "freezing": (1.35, "b")}
    status, printed, measured = run(planted, ["--option", "freezing=true"])
    assert status == 0
    assert measured == [["compile/eager", "freezing/eager"], ["freezing/eager", "compile/eager"]]
    assert verdicts(printed)["freezing=true"].startswith("1.500×")
    assert "torch._inductor.config.freezing = True" in printed


@pytest.mark.parametrize("option", ["cpp.simdlen", "=1", "cpp.simdlen="])
def test_an_option_needs_a_name_and_a_value(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert options.main(["mlp", "--device", "cpu", f"--option={option}"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_wrong_setting_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert options.main(["mlp", "--device", "cpu", "nonsense=1"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_sweep_of_cases_is_refused_before_anything_is_started(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolation, "start", lambda compiler: pytest.fail("started"))
    assert options.main(["mlp", "--device", "cpu", "shape.batch=1,8"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
