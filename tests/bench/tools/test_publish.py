"""Files written by the tools: columns, headings, and that they appear once complete."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from modescope.bench.sweep.fingerprint import untested_warning
from modescope.bench.tools import publish
from modescope.bench.tools.publish import RunContext

AROUND = RunContext(
    started_at="2025-03-01T12:34:56.000007Z",
    device="cpu",
    device_name="a CPU",
    cpu_name="a CPU",
    cpu_model="a family",
    cpu_capability="AVX2",
    cpu_instructions="avx avx2",
    cpu_cores=4,
    threads=2,
    power_limit_w=None,
    torch_version="2.13.0",
    python_version="3.11.9",
    git_commit="abc",
    load_1min=0.256,
    command="python -m bench.tool --fast",
)


@dataclass(frozen=True)
class Apple:
    name: str
    weight_g: float | None
    slices_g: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Pear:
    name: str
    ripe: bool


@dataclass(frozen=True)
class Market:
    town: str | None
    stalls: int


MARKET = Market(None, 3)
Rows = dict[type, Sequence[Any]]


def written(folder: Path) -> tuple[Path, Path]:
    apples = [Apple("boskoop", 200.5, (100.0, 100.5))]
    rows: Rows = {Apple: apples, Pear: [Pear("conference", True)]}
    return publish.publish(folder, AROUND, "# A page\n", rows, MARKET)


def test_rows_of_two_kinds_have_nulls_in_columns_of_the_other(tmp_path: Path) -> None:
    page, table = written(tmp_path / "made" / "tool")
    assert [page.name, table.name] == [
        f"20250301T123456.000007Z.{end}" for end in ("md", "parquet")
    ]
    assert page.read_text() == "# A page\n"
    assert sorted(page.parent.iterdir()) == [page, table]
    shared = {"town": None, "stalls": 3, **asdict(AROUND)}
    assert pq.read_table(table).to_pylist() == [
        {"name": "boskoop", "weight_g": 200.5, "slices_g": [100.0, 100.5], "ripe": None, **shared},
        {"name": "conference", "weight_g": None, "slices_g": None, "ripe": True, **shared},
    ]
    rows: Rows = {Apple: [], Pear: [Pear("conference", False)]}  # columns stay
    _, lean = publish.publish(tmp_path / "lean", AROUND, "", rows, MARKET)
    assert pq.read_schema(lean).equals(pq.read_schema(table))


def test_a_file_that_cannot_be_completed_does_not_appear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(table: object, path: Path, compression: str) -> None:
        path.write_bytes(b"PAR1")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "write_table", full_disk)
    with pytest.raises(OSError, match="No space left"):
        written(tmp_path)
    assert [path.suffix for path in tmp_path.iterdir()] == [".md"]


def test_the_heading_names_machine_time_and_command() -> None:
    gpu = replace(AROUND, device_name="a GPU", power_limit_w=300.0, torch_version="2.16.0")
    assert publish.heading(gpu, "of its own") == [
        "a GPU, 2 of 4 cores of a CPU (AVX2, no bf16 instructions), power limit 300 W, "
        "torch 2.16.0, Python 3.11.9",
        untested_warning("2.16.0"),
        "2025-03-01T12:34Z, load average of the minute before: 0.26",
        "of its own",
        "`python -m bench.tool --fast`",
    ]
