"""Constraints on recommendations, from the command line."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from modescope.analysis import table
from modescope.analysis.recommend.constraints import calls, size_bytes
from modescope.analysis.report import report
from modescope.bench.records.errors import UsageError
from tests.helpers.recommendations import MIB, control, needs
from tests.helpers.studies import record, save


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8GiB", 8 * 2**30), ("8 gib", 8 * 2**30), ("1.5GiB", 3 * 2**29), ("512MiB", 2**29),
        ("64KiB", 2**16), ("1TiB", 2**40), ("1000B", 1000), ("4096 b", 4096), (".5MiB", 2**19),
        ("8GB", 8 * 10**9), ("8 gb", 8 * 10**9), ("1.5TB", 15 * 10**11), ("512MB", 512 * 10**6),
        ("64kB", 64_000),
    ],
)  # fmt: skip
def test_sizes_are_read_as_bytes(text: str, size: int) -> None:
    assert size_bytes(text) == size


@pytest.mark.parametrize(
    "text",
    [
        "", "GiB", "-1GiB", "0GiB", "0GB", "0.1B", "1e9", "8 GiB of it", "nan", "8XB", "8Gbit",
        "8", "0.5", "8G", "512m", "9" * 400, "9" * 400 + "B", "9" * 308 + "TiB", "9" * 308 + "TB",
    ],
)  # fmt: skip
def test_an_invalid_size_is_an_error_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match=r"--memory-limit .*8GiB"):
        size_bytes(text)


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("10_000", 10_000), ("1e6", 1_000_000)])
def test_numbers_of_calls_are_read(text: str, number: float) -> None:
    assert calls(text) == number


@pytest.mark.parametrize("text", ["", "0", "-5", "0.5", "inf", "nan", "many", "1,000"])
def test_an_invalid_number_of_calls_is_an_error(text: str) -> None:
    with pytest.raises(UsageError, match=r"--calls .*10000"):
        calls(text)


@pytest.mark.parametrize("program", [table, report])
@pytest.mark.parametrize("option", [("--calls", "none"), ("--memory-limit", "8GHz")])
def test_an_invalid_constraint_is_one_line_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], program: ModuleType, option: tuple[str, str]
) -> None:
    save([record()], tmp_path)
    assert program.main([str(tmp_path), *option]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {option[0]} {option[1]}: must be")
    assert error.count("\n") == 1


def printed(folder: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert table.main([str(folder), *options]) == 0
    above, _, below = capsys.readouterr().out.partition("\n\n")
    assert above
    return " ".join(below.split())


def test_the_table_ends_with_recommendations(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save([control(**needs(10 * MIB)), record("compile", speedup=1.2, **needs(90 * MIB))], tmp_path)
    start = "use for transformer, batch 4, seq 64, inference fp32: "
    assert printed(tmp_path, capsys).startswith(f"{start}compile, 1.200× [1.192, 1.208] over eager")
    few = printed(tmp_path, capsys, "--calls", "100")
    assert few.startswith(
        f"{start}eager: no mode pays for its first call within 100 calls Not recommended: comp"
    )
    small = printed(tmp_path, capsys, "--memory-limit", "50MiB")
    assert "compile: a call needs 90.0 MiB, more than the limit of 50 MiB." in small


def test_rows_excluded_by_where_are_not_recommended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save([record("compile", speedup=1.2), record("no_grad", speedup=1.1), control()], tmp_path)
    assert ": no_grad, 1.10" in printed(tmp_path, capsys, "--where", 'mode != "compile"')


def test_constraints_are_refused_with_csv(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save([record()], tmp_path)
    assert table.main([str(tmp_path), "--csv", "--calls", "10"]) == 2
    assert "--csv" in capsys.readouterr().err
