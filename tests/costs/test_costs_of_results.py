"""The time for results, from writing one to a report of a study: `make bench`.

In other sessions every body runs once, on small data.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from modescope.analysis.derive.registry import derive
from modescope.analysis.derive.select import latest
from modescope.analysis.load import read
from modescope.analysis.load import samples as load
from modescope.analysis.report import report
from modescope.bench.records import parquet
from modescope.bench.records.results import Record
from tests.helpers import studies
from tests.helpers.commands import Show

pytestmark = pytest.mark.full

FEW, MANY = 3, 1_000

ROUNDS = 240  # with 1,200 single calls: what a small transformer has at budget=standard


@pytest.fixture(scope="module")
def runs(measuring: bool, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of different cases, fewer where nothing is measured."""
    sizes = range(1, 1 + (MANY if measuring else FEW))
    cases = (studies.record(shape=f'{{"batch":{n}}}', batch=n, rounds=ROUNDS) for n in sizes)
    return studies.save(cases, tmp_path_factory.mktemp("study"))


def median_s(benchmark: BenchmarkFixture) -> float:
    return float(benchmark.stats.stats.median)


def test_writing_a_record(benchmark: BenchmarkFixture, tmp_path: Path, show: Show) -> None:
    def fresh() -> tuple[tuple[Record, Path], dict[str, object]]:
        return (studies.record(rounds=ROUNDS), tmp_path), {}

    benchmark.pedantic(parquet.write, setup=fresh, rounds=200)
    assert len(list(tmp_path.glob("*.parquet"))) == (1 if benchmark.disabled else 200)
    if benchmark.enabled:
        show(f"writing a record: {median_s(benchmark) * 1e3:.1f} ms")


def test_loading_runs(benchmark: BenchmarkFixture, runs: Path, show: Show) -> None:
    loaded = benchmark.pedantic(load, (runs,), rounds=3)
    assert len(loaded) == len(list((runs / "rows").iterdir())) >= FEW
    if benchmark.enabled:
        show(f"loading {len(loaded):,} runs: {median_s(benchmark):.1f} s")


def test_deriving_metrics(benchmark: BenchmarkFixture, runs: Path, show: Show) -> None:
    processes = latest(read(runs).table)
    table = benchmark.pedantic(derive, (processes,), rounds=3)
    assert table["speedup"].notna().sum() == len(processes) >= FEW
    if benchmark.enabled:
        show(f"deriving every metric of {len(table):,} rows: {median_s(benchmark):.1f} s")


def test_rendering_a_report(benchmark: BenchmarkFixture, tmp_path: Path, show: Show) -> None:
    """Of two models in all modes, five processes of a case, and a series over four modes."""
    study = [
        *studies.cpu_sweep("transformer", rounds=ROUNDS),
        *studies.cpu_sweep("mlp", rounds=ROUNDS),
        *studies.replicates(5, rounds=ROUNDS),
        *studies.dispatch_series(rounds=ROUNDS),
    ]
    assert len(study) == 11 + 11 + 5 + 20
    if benchmark.disabled:
        study = study[:11]
    folder = studies.save(study, tmp_path)
    path = benchmark.pedantic(report.write, (folder,), rounds=3)
    assert path.stat().st_size > 10_000
    if benchmark.enabled:
        show(f"report of a study of {len(study)} runs: {median_s(benchmark):.1f} s")
