"""Files written by the tools: columns, headings, and that they appear once complete."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch

from modescope.bench.records.errors import UsageError
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


def test_files_are_named_after_the_start(tmp_path: Path) -> None:
    page, table = written(tmp_path / "made" / "tool")
    assert [page.name, table.name] == [
        f"20250301T123456.000007Z.{end}" for end in ("md", "parquet")
    ]
    assert page.read_text() == "# A page\n"
    assert sorted(page.parent.iterdir()) == [page, table]


def test_rows_of_two_kinds_have_nulls_in_columns_of_the_other(tmp_path: Path) -> None:
    _, table = written(tmp_path)
    apple, pear = pq.read_table(table).to_pylist()
    assert (apple["name"], apple["weight_g"], apple["ripe"]) == ("boskoop", 200.5, None)
    assert apple["slices_g"] == [100.0, 100.5]
    assert (pear["name"], pear["weight_g"], pear["ripe"]) == ("conference", None, True)
    for row in (apple, pear):
        assert (row["town"], row["stalls"]) == (None, 3)
        assert (row["started_at"], row["cpu_cores"]) == (AROUND.started_at, 4)


def test_columns_stay_when_a_kind_has_no_rows(tmp_path: Path) -> None:
    _, full = written(tmp_path / "full")
    rows: Rows = {Apple: [], Pear: [Pear("conference", False)]}
    _, lean = publish.publish(tmp_path / "lean", AROUND, "", rows, MARKET)
    schema = pq.read_schema(full)
    assert pq.read_schema(lean).equals(schema)
    assert schema.names[:6] == ["name", "weight_g", "slices_g", "ripe", "town", "stalls"]
    assert len(set(schema.names)) == len(schema.names)


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
    assert publish.heading(AROUND, "of its own") == [
        "a CPU (AVX2, no bf16 instructions), 2 of 4 cores, torch 2.13.0, Python 3.11.9",
        "2025-03-01T12:34Z, load average of the minute before: 0.26",
        "of its own",
        "`python -m bench.tool --fast`",
    ]
    gpu = replace(AROUND, device_name="a GPU", power_limit_w=300.0)
    first = (
        "a GPU, 2 of 4 cores of a CPU (AVX2, no bf16 instructions), power limit 300 W, "
        "torch 2.13.0, Python 3.11.9"
    )
    assert publish.heading(gpu)[0] == first
    assert publish.heading(replace(AROUND, device_name=None, cpu_name=None))[0].startswith("– (")


def test_the_context_describes_this_process() -> None:
    words = ["--only", "two words"]
    context = publish.run_context("cpu", 1, "python -m bench.tool", words)
    assert (context.device, context.threads) == ("cpu", 1)
    assert (context.torch_version, context.cpu_cores >= 1) == (torch.__version__, True)
    assert shlex.split(context.command) == ["python", "-m", "bench.tool", *words]
    assert math.isfinite(context.load_1min)
    assert context.started_at.endswith("Z")


def test_device_auto_is_recorded_as_the_device_found() -> None:
    context = publish.run_context("auto", 1, "program", [])
    assert context.device == ("cuda" if torch.cuda.is_available() else "cpu")
    assert context.command == "program"


def test_an_unknown_device_has_no_context() -> None:
    with pytest.raises(UsageError, match="device=tpu: allowed are auto, cpu"):
        publish.run_context("tpu", 1, "program", [])


def test_pages_of_the_tools_warn_of_an_untested_torch() -> None:
    lines = publish.heading(replace(AROUND, torch_version="2.16.0"))
    assert "torch 2.16.0" in lines[0]
    assert lines[1] == untested_warning("2.16.0")
