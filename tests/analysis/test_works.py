"""What --where says about stored columns decides which works of a large study are read.

The rows must be those that a table of the whole study has.
"""

from __future__ import annotations

import random
import re
import shutil
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from modescope.analysis import table as table_command
from modescope.analysis.compact.compaction import compact
from modescope.analysis.filters.pushdown import pushed
from modescope.analysis.filters.selection import select
from modescope.analysis.load import cache, chosen, keys, parts
from modescope.analysis.load.listing import RunFile
from modescope.analysis.metrics.registry import derived
from modescope.analysis.works import derived as works
from modescope.bench.records.errors import UsageError
from modescope.bench.records.results import Record
from tests.helpers.pass_columns import cpu_passes, cuda_passes
from tests.helpers.studies import cpu_sweep, cuda_sweep, not_measured, record, replicates, save

STORED = (
    'model == "mlp"', 'model != "mlp"', '"m" in model', 'model in ["other", "sized"]',
    'model.str.contains("^T", case=False)', 'mode == "compile"', 'mode == "no_such"',
    'dtype == "bf16"', "batch >= 4", "batch is null", 'phase == "train"', "threads > 1",
    'device == "cuda"', "not autocast", "autocast", 'compile != "none" or graph',
    'baseline_dtype == dtype', 'shape.str.contains("8")', "compile_cache == \"warm\"",
    "batch * 2 < 10", "optimizer is null", 'grad.isin(["enabled"])', "batch_dim is null",
)  # fmt: skip
DERIVED = (
    "speedup > 1", "speedup_same_grad > 1", "environment == \"B\"", "apart is not null",
    'status == "ok"', "pace < 1", "latency_at_full_pace_s > 0", "threads_gain > 1",
    'flags == "drift"', "replicates > 1", "measured_times > 1", "fusion_gain is not null",
    'cause.str.contains("o")', "pace_rounds_s > 1", "nonsense > 1", "mode",
)  # fmt: skip


def _records() -> list[Record]:
    sized = [
        record("compile" if case % 2 else "eager", 1e-3 / (1 + case % 3), 1.0 + case % 5 / 10,
               run_id=f"sized-{case:03d}", case_id=f"sized-{case:03d}", model="sized",
               shape=f'{{"batch":{batch}}}', batch=batch, threads=threads,
               environment_id="two" if batch == 8 else "one", compile_cache=cache,
               pace_rounds_s=(1e-4 + 1e-6 * case,) * 40,
               started_at=f"2026-03-02T10:{case:02d}:00Z")
        for case, (batch, threads, cache) in enumerate(product((1, 4, 8), (1, 2), ("cold", "warm")))
    ]  # fmt: skip
    again = [
        replace(one, attempt=replace(one.attempt, run_id=f"again-{place}", status=status,
                                     started_at=f"2026-03-03T10:{place:02d}:00Z"))
        for place, (one, status) in enumerate(zip(sized[:4], ("ok", "failed", "skipped", "ok"),
                                                  strict=True))
    ]  # fmt: skip
    return [
        *cpu_sweep(), *cuda_sweep(model="mlp"), *cpu_passes(), *cuda_passes(),
        *replicates(3, model="other"), *sized, *again,
        not_measured("amp", "oom", "no room", model="large", case_id="large"),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study in two parts and some files."""
    folder = tmp_path_factory.mktemp("study")
    save(_records(), folder / "all")
    files = sorted((folder / "all" / "runs").iterdir())
    random.Random(1).shuffle(files)
    (folder / "runs").mkdir()
    for some in (files[: len(files) // 2], files[len(files) // 2 : -9]):
        for path in some:
            shutil.move(path, folder / "runs")
        compact(folder)
        (path,) = (folder / "compact").glob("[!.]*.parquet")
        path.rename(folder / path.name)
    for path in folder.glob("*.parquet"):
        path.rename(folder / "compact" / path.name)
    for path in files[-9:]:
        shutil.move(path, folder / "runs")
    return folder


@pytest.fixture
def large(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(chosen, "LARGE", 0)
    monkeypatch.setattr(works, "MOST_ROWS", 5)
    return folder


def _drawn(count: int) -> list[str]:
    draw = random.Random(7)
    found = []
    for _ in range(count):
        joined = draw.sample(STORED, draw.randint(1, 2)) + draw.sample(DERIVED, draw.randint(0, 2))
        draw.shuffle(joined)
        by = draw.choice((" and ", " and ", " and ", " or "))
        found.append(by.join(f"({one})" if draw.random() < 0.5 else one for one in joined))
    return found


@pytest.fixture(scope="module")
def whole(folder: Path) -> pd.DataFrame:
    return derived(folder)


@pytest.mark.parametrize(
    "expressions",
    [
        [*STORED[::3], *_drawn(5)],
        pytest.param([*STORED, *_drawn(45)[5:]], marks=pytest.mark.full),
    ],
    ids=["some", "many"],
)
def test_the_rows_are_those_of_the_whole_study(
    expressions: list[str], large: Path, whole: pd.DataFrame
) -> None:
    read, empty = 0, 0
    for expression in expressions:
        try:
            expected = select(whole, expression)
        except UsageError as error:
            message = re.escape(str(error))
            with pytest.raises(UsageError, match=f"^{message}$"):
                works.table(large, expression).where(expression)
            continue
        found = works.table(large, expression)
        got_rows = found.where(expression)
        pd.testing.assert_frame_equal(
            got_rows.rows.reset_index(drop=True),
            expected.rows.reset_index(drop=True),
            obj=expression,
            check_dtype=False,
        )
        assert table_command.csv(got_rows.rows) == table_command.csv(expected.rows), expression
        assert got_rows.count == expected.count, expression
        read += not found.is_whole
        empty += expected.rows.empty
    assert read > len(expressions) / 2
    assert empty > len(expressions) / 20


def test_works_that_cannot_match_are_not_read(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, of_rows = [], parts._rows

    def seen(path: Path, mask: NDArray[np.bool_]) -> pa.Table:
        read.append((int(mask.sum()), len(mask)))
        return of_rows(path, mask)

    monkeypatch.setattr(parts, "_rows", seen)
    found = works.table(large, 'model == "sized" and speedup > 1')
    assert set(found.rows["model"]) == {"sized"}
    assert 0 < sum(wanted for wanted, _ in read) < sum(rows for _, rows in read)


def test_a_part_that_goes_while_its_rows_are_read_makes_all_be_read(
    large: Path, whole: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compaction has merged it, or a page of it is damaged."""

    def gone(path: Path, mask: object) -> object:
        raise FileNotFoundError(path)

    monkeypatch.setattr(parts, "_rows", gone)
    found = works.table(large, 'model == "mlp"')
    assert found.is_whole
    pd.testing.assert_frame_equal(found.rows, whole)


def test_only_conditions_on_stored_columns_that_are_joined_by_and_are_pushed() -> None:
    def names(expression: str) -> tuple[str, ...] | None:
        found = pushed(expression, keys.WORK)
        return None if found is None else found.names

    assert names('model == "mlp" and speedup > 1') == ("model",)
    assert names('(mode == "a" or dtype == "b") and batch > 1') == ("dtype", "mode", "batch")
    assert names('model == "mlp" or speedup > 1') is None
    assert names('not (model == "mlp" and speedup > 1)') is None
    assert names("batch > speedup") is None
    assert names("speedup is null") is None
    assert names("1 > ") is None


def test_notes_say_which_values_the_whole_study_has(large: Path) -> None:
    expression = 'model == "mpl"'
    (note,) = works.table(large, expression).where(expression).notes
    assert note == 'no row has model "mpl"; there are large, mlp, other, sized, transformer'


def test_of_a_large_study_the_first_works_are_shown(
    large: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert table_command.main([str(large)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    found = works.table(large, first=True)
    assert f"the first {len(found.rows)} of {found.total} rows" in out
    assert 5 <= len(found.rows) < found.total
    assert table_command.main([str(large), "--all"]) == 0
    assert "of these alone" not in capsys.readouterr().out


def test_a_run_that_is_there_twice_makes_all_be_read(large: Path, whole: pd.DataFrame) -> None:
    (path, *_) = sorted((large / "all" / "runs").iterdir()) or [None]
    part = min((large / "compact").glob("[!.]*.parquet"))
    copy = part.with_name("part-copy.parquet")
    shutil.copy(part, copy)
    try:
        assert chosen.read(large, lambda found: found.table["model"]) is None
        found = works.table(large, 'model == "mlp"')
        assert found.is_whole
        pd.testing.assert_frame_equal(found.rows, whole)
    finally:
        copy.unlink()
    assert path is None


def test_a_part_with_statistics_of_another_code_is_read_as_well(
    large: Path, whole: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "reader", lambda: "another")
    found = works.table(large, 'model == "sized"')
    expected = whole[whole["model"] == "sized"].reset_index(drop=True)
    pd.testing.assert_frame_equal(found.rows.reset_index(drop=True), expected, check_dtype=False)
    assert RunFile("a", 1, 2) == RunFile("a", 1, 2)
