"""No advice is refuted by the study in which it stands: over all kept studies."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from modescope.analysis.causes.finding import findings
from modescope.analysis.causes.types import Finding, Kind
from modescope.analysis.derive.select import SAME_BASELINE, values_of
from modescope.analysis.estimates import high, low
from modescope.analysis.format import phrases
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import as_rows
from tests.helpers.derivations import table_of
from tests.helpers.paths import REFERENCE

STUDIES = sorted(str(each.parent.relative_to(REFERENCE)) for each in REFERENCE.rglob("rows"))

MODE = re.compile(r"mode=([\w-]+)")
DTYPE = re.compile(r"(?<!baseline\.)dtype=(\w+)")
MOST = re.compile(r"can be at most ([\d.]+)× as fast")


def _advice(study: str) -> Iterator[tuple[Row, Finding, list[Row]]]:
    """Each cause of each row, with the other rows over the same baseline that count."""
    rows = as_rows(table_of(str(REFERENCE / study)))
    for row, found in zip(rows, findings(rows), strict=True):
        work = values_of(row, SAME_BASELINE)
        same = [one for one in rows if values_of(one, SAME_BASELINE) == work
                and one is not row and predicates.why_left_out(one) is None]  # fmt: skip
        for each in found:
            yield row, each, same


@pytest.mark.parametrize("study", STUDIES)
def test_no_mode_is_advised_that_was_measured_as_no_faster(study: str) -> None:
    for row, each, others in _advice(study):
        modes, dtypes = MODE.findall(each.remedy), DTYPE.findall(each.remedy) or [row["dtype"]]
        if not predicates.has_interval(row) or each.kind in (Kind.COST, Kind.HINT):
            continue  # what saves a first call or memory need not be faster
        for other in others:
            if phrases.mode(other) in modes and other["dtype"] in dtypes:
                said = (phrases.variant(row), each.code, each.remedy)
                assert low(other["speedup"]) > high(row["speedup"]), said


@pytest.mark.parametrize("study", STUDIES)
def test_no_limit_is_named_that_another_row_exceeds(study: str) -> None:
    for row, each, others in _advice(study):
        for most in MOST.findall(each.sentence):
            gains = [low(one["speedup"]) / row["speedup"].value for one in others
                     if one["dtype"] == row["dtype"]]  # fmt: skip
            assert max(gains, default=0.0) <= float(most), (phrases.variant(row), each.sentence)


@pytest.mark.parametrize("study", STUDIES)
def test_nothing_else_helps_only_where_nothing_else_did(study: str) -> None:
    for row, each, others in _advice(study):
        if each.remedy.startswith("Only less work"):
            faster = [phrases.variant(one) for one in others if one["dtype"] == row["dtype"]
                      and low(one["speedup"]) > high(row["speedup"])]  # fmt: skip
            assert faster == [], phrases.variant(row)


def test_copies_of_inputs_are_no_generated_kernels_and_tuning_is_no_remedy_for_itself() -> None:
    causes = {
        row["mode"]: {each.code: each.remedy}
        for row, each, _ in _advice("nvidia-h100/bf16")
        if row["model"] == "mlp" and each.code == "slower_kernels"
    }
    assert [*causes] == ["max-autotune"]
    remedy = causes["max-autotune"]["slower_kernels"]
    assert MODE.findall(remedy) == ["compile"]
    assert "max_autotune_gemm_backends = 'ATEN'" in remedy


def test_multiples_of_8_are_advised_only_where_the_precision_has_tensor_cores() -> None:
    for study in STUDIES:
        for row, each, _ in _advice(study):
            assert row["dtype"] != "fp32" or "multiples of 8" not in each.text
