"""What is said of rows that are slower, over all kept studies: causes of a loss, and figures."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import pytest

from modescope.analysis.causes.finding import CAUSES, findings
from modescope.analysis.causes.types import EXPLAINING, Finding, Kind
from modescope.analysis.format import phrases
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import as_rows
from tests.helpers.derivations import table_of
from tests.helpers.paths import REFERENCE

STUDIES = sorted(str(each.parent.relative_to(REFERENCE)) for each in REFERENCE.rglob("rows"))


@cache
def explained(study: str) -> list[tuple[Row, tuple[Finding, ...]]]:
    """Each row of a kept study with its causes."""
    rows = as_rows(table_of(str(REFERENCE / study)))
    return list(zip(rows, findings(rows), strict=True))


def of_mode(study: str, model: str, mode: str, dtype: str) -> tuple[Row, Mapping[str, Finding]]:
    """The row of a mode in a kept study, and its causes by code."""
    ((row, found),) = (
        (row, found)
        for row, found in explained(study)
        if (row["model"], row["mode"], row["dtype"]) == (model, mode, dtype)
    )
    return row, {one.code: one for one in found}


@pytest.mark.parametrize("study", STUDIES)
def test_what_limits_a_gain_explains_no_loss(study: str) -> None:
    limits = {one.code for one in CAUSES if one.kind == Kind.LIMIT}
    for row, found in explained(study):
        said = {one.code for one in found if one.kind in EXPLAINING}
        assert row["verdict"] != "slower" or said.isdisjoint(limits), phrases.variant(row)


@pytest.mark.parametrize(
    ("study", "dtype", "added_s"),
    [("nvidia-h100", "fp32", 174e-6), ("nvidia-h100/bf16", "bf16", 66e-6)],
)
def test_a_small_loss_of_a_gpu_is_named_by_its_overhead(
    study: str, dtype: str, added_s: float
) -> None:
    """The device works no longer than for eager, and calls that nothing waits for lose nothing."""
    row, found = of_mode(study, "transformer", "compile", dtype)
    assert row["verdict"] == "slower"
    assert next(iter(found)) == "more_overhead"
    assert found["more_overhead"].kind in EXPLAINING
    assert found["more_overhead"].share == pytest.approx(added_s / row["latency_s"].value, rel=0.1)
    assert f"add {added_s * 1e6:.0f}" in found["more_overhead"].sentence
    assert "do not wait for each other" in found["more_overhead"].sentence


@pytest.mark.parametrize(("mode", "copied_s"), [("reduce-overhead", 14.9e-6),
                                                ("max-autotune", 14.7e-6)])  # fmt: skip
def test_a_copy_of_inputs_has_a_cause_of_its_own(mode: str, copied_s: float) -> None:
    row, found = of_mode("nvidia-h100/bf16", "mlp", mode, "bf16")
    share = pytest.approx(copied_s / row["latency_s"].value, rel=0.01)
    assert found["input_copies"].share == share
    assert f"{copied_s * 1e6:.1f} µs of the" in found["input_copies"].sentence
    assert "multi_tensor" not in "".join(one.sentence for one in found.values())


def test_calls_that_lose_in_a_row_too_are_not_said_to_lose_nothing() -> None:
    """Of the MLP in bf16 the host is the limit, whether a program waits or not."""
    for mode in ("compile", "reduce-overhead", "max-autotune"):
        _, found = of_mode("nvidia-h100/bf16", "mlp", mode, "bf16")
        assert "do not wait for each other" not in found["more_overhead"].sentence
