"""Which of several nodes is named, on times whose differences are known."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from modescope.analysis import nodes, table
from modescope.analysis.nodes import WORK, Deviation
from modescope.bench.stats.estimates import Estimate
from tests.helpers.studies import record, save

RECORD = {**dict.fromkeys(WORK, "same"), "status": "ok", "budget_rank": 2, "baseline_mode": "eager"}


def processes(factors: Mapping[str, float], rows: int = 6, **columns: Any) -> pd.DataFrame:
    """So many rows of each node, of two works in turn; eager takes `factor` times as long on it."""
    return pd.DataFrame(
        {**RECORD, "node": node, "gpu_uuid": None, "model": ("mlp", "lstm")[row % 2],
         "baseline_latency_s": eager(factor * (1 + 1e-3 * (row - rows // 2)) * (1 + 9 * (row % 2)))}
        | columns
        for node, factor in factors.items() for row in range(rows)
    )  # fmt: skip


def eager(seconds: float) -> Estimate:
    return Estimate(seconds, None, None)


def found(*parts: pd.DataFrame) -> list[Deviation]:
    return nodes.deviations(pd.concat(parts, ignore_index=True))


@pytest.mark.parametrize(
    ("factors", "expected"),
    [
        ({"n1": 1.0, "n2": 1.02}, {}),
        ({"n1": 1.0, "n2": 1.08}, {"n2": 1.08}),
        ({"n1": 1.0, "n2": 0.92}, {"n1": 1 / 0.92}),
        ({"n1": 1.0, "n2": 1.0, "n3": 0.92}, {"n3": 0.92}),
        ({"n1": 1.0, "n2": 1.0, "n3": 1.3, "n4": 1.1}, {"n3": 1.3, "n4": 1.1}),
    ],
    ids=str,
)
def test_a_node_that_differs_by_more_than_3_percent_is_named(
    factors: dict[str, float], expected: dict[str, float]
) -> None:
    named = {one.name: one.ratio for one in found(processes(factors))}
    assert named == pytest.approx(expected, rel=2e-3)
    assert list(named) == list(expected)


def test_four_rows_of_a_node_are_too_few() -> None:
    many = processes({"n1": 1.0}, 8)
    named = [found(many, processes({"n2": 1.08}, rows)) for rows in (4, 5)]
    assert [[one.rows for one in each] for each in named] == [[], [5]]


@pytest.mark.parametrize(
    "columns",
    [
        {"baseline_latency_s": eager(float("nan"))},
        {"node": None},
        {"status": "wrong_result"},
        {"baseline_mode": "no_grad"},
        {"baseline_dtype": "bf16"},
    ],
    ids=str,
)
def test_what_is_no_eager_or_another_work_is_not_compared(columns: dict[str, Any]) -> None:
    usual, slow = processes({"n1": 1.0}), processes({"n2": 1.3})
    apart = processes({"n2": 1.3}, **columns)
    assert found(usual, apart) == []
    assert found(processes({"n1": 1.5}), apart) == []
    assert [one.rows for one in found(usual, slow, apart)] == [6]


def test_gpus_of_one_node_are_told_apart() -> None:
    usual = [processes({"n1": 1.0}, gpu_uuid=f"GPU-{at}a2b3c4d-5e6f") for at in range(2)]
    slow = processes({"n1": 1.08}, gpu_uuid="GPU-2a2b3c4d-5e6f")
    assert [one.name for one in found(*usual, slow)] == ["n1 GPU-2a2b3c4d"]
    one_each = processes({"n2": 1.08}, gpu_uuid="GPU-2a2b3c4d-5e6f")
    assert [one.name for one in found(usual[0], one_each)] == ["n2"]


def test_a_table_names_nodes_only_where_there_are_several(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = (
        [record(latency_s=1e-4 * factor, node=node, replicate=at) for at in replicates]
        for node, factor, replicates in (("n1", 1.0, range(5)), ("n2", 1.08, range(5, 10)))
    )
    for name, records, count in (("one", one, 0), ("two", [*one, *two], 1)):
        table.main([str(save(records, tmp_path / name))])
        assert capsys.readouterr().out.count("node n2: eager takes 1.08×") == count
