"""Constraints on recommendations, from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from modescope.analysis import table
from modescope.analysis.recommend.constraints import calls, size_bytes
from modescope.bench.records.errors import UsageError
from tests.helpers.recommendations import MIB, control, needs
from tests.helpers.studies import record, save


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8 gib", 8 * 2**30), ("1.5GiB", 3 * 2**29), ("64KiB", 2**16), ("1TiB", 2**40),
        ("1000B", 1000), (".5MiB", 2**19), ("8GB", 8 * 10**9), ("64kB", 64_000),
    ],
)  # fmt: skip
def test_sizes_are_read_as_bytes(text: str, size: int) -> None:
    assert size_bytes(text) == size


@pytest.mark.parametrize(
    "text", ["", "GiB", "-1GiB", "0GiB", "0.1B", "1e9", "nan", "8XB", "8", "8G", "9" * 400 + "B"]
)
def test_an_invalid_size_is_an_error_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match=r"--memory-limit .*8GiB"):
        size_bytes(text)


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("10_000", 10_000), ("1e6", 1_000_000)])
def test_numbers_of_calls_are_read(text: str, number: float) -> None:
    assert calls(text) == number


@pytest.mark.parametrize("text", ["", "0", "-5", "0.5", "inf", "nan", "many"])
def test_an_invalid_number_of_calls_is_an_error(text: str) -> None:
    with pytest.raises(UsageError, match=r"--calls .*10000"):
        calls(text)


def test_the_table_ends_with_recommendations_within_constraints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        control(**needs(10 * MIB)), record("compile", speedup=1.2, **needs(90 * MIB)),
        record("no_grad", speedup=1.1, first_call_s=0.001, **needs(10 * MIB)),
    ]  # fmt: skip
    save(rows, tmp_path)
    for options, mode in (
        ([], "compile, 1.2"),
        (["--calls", "100"], "no_grad, 1.1"),
        (["--memory-limit", "50MiB"], "no_grad, 1.1"),
        (["--where", 'mode != "compile"'], "no_grad, 1.1"),
    ):
        assert table.main([str(tmp_path), *options]) == 0
        below = " ".join(capsys.readouterr().out.partition("\n\n")[2].split())
        assert below.startswith(f"use for transformer, batch 4, seq 64, inference fp32: {mode}")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--calls", "none"], "--calls none: must be"),
        (["--memory-limit", "8GHz"], "--memory-limit 8GHz: must be"),
    ],
)
def test_a_wrong_constraint_is_one_line_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], named: str
) -> None:
    save([record()], tmp_path)
    assert table.main([str(tmp_path), *options]) == 2
    error = capsys.readouterr().err
    assert named in error
    assert error.count("\n") == 1
