"""What differs between the sides is reported, or refused until it is allowed by name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modescope.analysis.compare import differences
from modescope.analysis.compare.sides import matched
from modescope.bench.records.errors import UsageError
from tests.helpers.comparisons import processes, side

FEW: dict[str, Any] = {"count": 1, "modes": ("compile",)}


def found(old: dict[str, Any], new: dict[str, Any]) -> list[differences.Difference]:
    sides = side("OLD", processes(1, **FEW, **old)), side("NEW", processes(2, **FEW, **new))
    return differences.found(matched(*sides))


@pytest.mark.parametrize(
    ("column", "old", "new"),
    [
        ("torch_version", "2.12.1", "2.13.0"),
        ("model_source_id", "0123456789abcdef", "fedcba9876543210"),
        ("seed", 0, 1),
        ("cpu_governor", None, "powersave"),
    ],
)
def test_what_may_differ_is_reported(column: str, old: Any, new: Any) -> None:
    (one,) = found({column: old}, {column: new})
    assert (one.column, one.rows, one.refusal) == (column, 1, None)
    assert one.old == ("–" if old is None else str(old)[:8])
    differences.check([one], ())


@pytest.mark.parametrize(
    ("name", "column", "old", "new"),
    [
        ("host", "host", "one", "other"),
        ("host", "cpu_model", "AMD 25.17", "AMD 26.2"),
        ("host", "cpu_quota_cores", None, 2.0),
        ("device", "device_name", "NVIDIA H100", "NVIDIA H200"),
        ("driver_version", "driver_version", "550", "570"),
        ("power_limit", "power_limit_w", 700.0, 500.0),
        ("harness", "source_id", "0" * 16, "1" * 16),
        ("budget", "budget", "quick", "standard"),
        ("budget", "budget_settings", '{"max_rounds":20}', '{"max_rounds":40}'),
        ("variables", "variables", "{}", '{"OMP_NUM_THREADS":"1"}'),
    ],
)
def test_what_makes_results_incomparable_is_refused_until_allowed(
    name: str, column: str, old: Any, new: Any
) -> None:
    differing = found({column: old}, {column: new})
    with pytest.raises(UsageError, match=f"{column} .* → .*--allow {name}$"):
        differences.check(differing, ())
    with pytest.raises(UsageError, match=column):
        differences.check(differing, set(differences.ALLOWED) - {name})
    differences.check(differing, (name,))


def test_only_variables_that_differ_are_named() -> None:
    old, new = {"A": "1", "B": "2"}, {"A": "1", "C": "3"}
    (one,) = found({"variables": json.dumps(old)}, {"variables": json.dumps(new)})
    assert (one.old, one.new) == ("B=2, C=–", "B=–, C=3")


def test_a_run_that_ended_before_its_environment_was_read_differs_in_nothing() -> None:
    blank = {"environment_id": None, "host": None, "torch_version": None, "status": "crashed"}
    assert found({}, blank) == []


def test_sides_of_versus_that_are_exchanged_are_refused() -> None:
    old = side("OLD", processes(1, **FEW), versus_side="new", versus_block=0)
    new = side("NEW", processes(2, **FEW), versus_side="old", versus_block=0)
    differing = differences.found(matched(old, new))
    with pytest.raises(UsageError, match=r"versus_side new → old.*--allow versus_side"):
        differences.check(differing, ())


def test_names_that_are_never_refused_are_refused() -> None:
    with pytest.raises(UsageError, match=r"--allow torch: nothing has this name; there are host"):
        differences.names_of(["host,torch"])
    assert differences.names_of(["host, budget", "host"]) == ("host", "budget")
