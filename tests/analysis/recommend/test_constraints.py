"""Constraints on recommendations, from the command line."""

from __future__ import annotations

from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from modescope.analysis import table
from modescope.analysis.recommend.constraints import calls, size
from tests.helpers.recommendations import MIB, control, needs
from tests.helpers.studies import record, save


def test_sizes_are_read_as_bytes() -> None:
    read = {
        "8 gib": 8 * 2**30, "1.5GiB": 3 * 2**29, "64KiB": 2**16, "1TiB": 2**40, "1000B": 1000,
        ".5MiB": 2**19, "8GB": 8 * 10**9, "64kB": 64_000,
    }  # fmt: skip
    assert {text: size(text) for text in read} == read


@pytest.mark.parametrize("text", ["", "GiB", "-1GiB", "0.1B", "8", "8G", "8iB", "9" * 400 + "B"])
def test_an_invalid_size(text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        size(text)


@pytest.mark.parametrize("text", ["", "0.5", "inf", "nan", "many"])
def test_an_invalid_number_of_calls(text: str) -> None:
    with pytest.raises(ArgumentTypeError):
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
        (["--calls", "1e2"], "no_grad, 1.1"),
        (["--memory-limit", "50MiB"], "no_grad, 1.1"),
    ):
        assert table.main([str(tmp_path), *options]) == 0
        below = " ".join(capsys.readouterr().out.partition("\n\n")[2].split())
        assert below.startswith(f"use for transformer, batch 4, seq 64, inference fp32: {mode}")
    assert table.main([str(tmp_path), "--memory-limit", "8GHz"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
