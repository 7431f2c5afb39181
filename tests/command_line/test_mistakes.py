"""What people mistype, program by program: one line, status 2, and nothing else happens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from modescope import __main__ as modescope
from modescope.analysis import table, trend, why
from modescope.analysis.compare import command as compare
from modescope.analysis.report import __main__ as report
from modescope.bench import claims, selfcheck, watch
from modescope.bench.versus import __main__ as versus
from tests.helpers.studies import record, save

Main = Callable[[Sequence[str]], int]


@pytest.mark.parametrize(
    ("main", "words", "named"),
    [
        (table.main, ["results/nowhere"], "no study at results/nowhere"),
        (table.main, ["reslts/main"], "did you mean results/main?"),
        (table.main, ["mian"], "did you mean results/main?"),
        (table.main, ["results/nowhere"], "measure one with"),
        (table.main, ["--where", "mod = 'x'"], "--where"),
        (table.main, ["--where", "mode", "=", "compile"], "unrecognized arguments: compile"),
        (table.main, ["--wheree=1"], "--wheree"),
        (table.main, ["--against", "fast"], "--against"),
        (table.main, ["--against", "compile", "fp32"], "no study at fp32"),
        (report.main, ["results/main/report/index.html"], "did you mean results/main?"),
        (report.main, ["--where", "mode = 'amp'"], "0 of 2 rows match"),
        (why.main, ["--calls", "3"], "--calls"),
        (trend.main, ["results/main"] * 4, "SET 1 and SET 2 hold the same runs"),
        (compare.main, ["nowhere", "results/main"], "OLD: no study at nowhere"),
        (compare.main, ["results/main"] * 2, "OLD and NEW hold the same runs"),
        (compare.main, ["results/main"] * 2 + ["--margin", "1"], "--margin"),
        (compare.main, ["results/main"] * 2 + ["--gate", "exact,speed"], "--gate: 'speed'"),
        (compare.main, ["results/main"] * 2 + ["--allow", "torch"], "--allow: 'torch'"),
        (modescope.main, ["reprot"], "reprot: no such command, did you mean report?"),
        (modescope.main, ["list"], "list: no such command; modescope --help"),
        (
            modescope.main,
            ["--mode", "compile"],
            "--mode: settings come after a command: modescope run mode=compile\n",
        ),
        (modescope.main, ["--dry-run", "seed=1"], "modescope run dry_run=VALUE\n"),
        (modescope.main, ["shape.batch=8"], "modescope run shape.batch=8\n"),
        (modescope.main, ["-m", "mode=eager,compile"], "modescope run -m mode=eager,compile\n"),
        (versus.main, ["a", "b"], "old=a new=b [options] --"),
        (versus.main, ["--gate", "exact", "new=b"], "versus old=STATE new=b ["),
        (
            versus.main,
            ["old=a", "--", "mode=eager"],
            "new= is missing before --; type modescope versus old=a new=STATE [",
        ),
        (watch.main, [], "no program: modescope watch script.py"),
        (watch.main, ["python3", "train.py", "8"], "modescope watch train.py 8\n"),
        (watch.main, ["train.py"], "train.py: no such file"),
        (modescope.main, ["compare", "results/main", "results/main"], "modescope diff"),
        (modescope.main, ["run", "nonsense"], "nonsense: "),
        (
            modescope.main,
            ["run", "--mode", "compile"],
            "--mode: settings have no dashes: mode=compile",
        ),
        (modescope.main, ["run", "--modes=compile"], "--modes=compile; settings are written"),
        (claims.main, ["view-contigous"], "view-contigous"),
        (claims.main, ["dispatch-cost", "--quick"], "--quick: "),
        (selfcheck.main, ["--only", "speed"], "--only speed: "),
        (selfcheck.main, ["--device", "tpu"], "device=tpu: "),
        (selfcheck.main, ["--device", "gpu:1"], "did you mean cuda:1?"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(
    main: Main, words: list[str], named: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["modescope"])
    save([record("eager"), record("compile")], tmp_path / "results" / "main")
    assert main(words) == 2
    out, error = capsys.readouterr()
    assert (out, error.count("\n")) == ("", 1)
    assert error.startswith("error: ")
    assert named in error
    assert [path.name for path in tmp_path.glob("results/*/*")] == ["rows"]
