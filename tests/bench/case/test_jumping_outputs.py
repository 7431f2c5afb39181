"""Outputs that jump are explained by rounding, and a wrong program is still found among them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from modescope.bench.checking import exact_judge
from modescope.bench.checking.exact_judge import ExactJudge
from modescope.bench.checking.prepare import check_for
from modescope.bench.devices.devices import Cpu
from modescope.bench.model.building import build
from modescope.bench.model.subject import Built
from modescope.bench.modes import modes
from modescope.bench.modes.phases import ONE_CALL
from modescope.bench.records.cases import Variant
from modescope.bench.records.results import Findings, Result
from tests.helpers import planted, probe_models
from tests.helpers.planted import PLANTED, Family
from tests.helpers.probe_models import variant

pytestmark = pytest.mark.usefixtures("as_in_a_child", "one_thread", "restored_settings")

AMP, FP32 = variant("bf16", autocast=True), variant()

Change = Callable[[Any], Any]


def family(name: str) -> Family:
    return Family(f"tests.helpers.jumping_models:{name}", "", "")


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """How the check of a model ends in a mode that changes its outputs so."""

    def judge(name: str, asked: Variant, change: Change | None = None, seed: int = 0) -> Result:
        def plant(built: Built, of: Family) -> Built:
            return replace(built, step=lambda: change(built.step()))

        mode = replace(asked.mode, name=PLANTED)
        case = replace(planted.case_of(family(name)), variant=replace(asked, mode=mode))
        case = replace(case, options=ONE_CALL.options)
        with monkeypatch.context() as patch:
            return planted.verdict(family(name), case, seed, patch, plant if change else None)

    return judge


@pytest.mark.parametrize("name", ["boxes", "many_boxes", "mask", "labels", "best", "gated"])
def test_what_rounding_does_in_float64_too_is_explained_and_counts_as_not_checked(
    name: str, judged: Callable[..., Result]
) -> None:
    for seed in range(3):
        result = judged(name, AMP, seed=seed)
        assert result.status == "ok", result.reason
        found = result.findings
        if name == "gated" and found.checks.checked == "exact":  # as close as eager
            continue
        assert (found.checks.checked, found.checks.error, found.checks.error_place) == (
            "not",
            None,
            None,
        )
        assert "explained by rounding" in found.checks.checked_note
        assert "output" in found.checks.checked_note.partition("bf16")[2]


@pytest.mark.parametrize("name", ["boxes", "mask", "labels", "best", "gated"])
def test_where_nothing_jumps_the_check_is_exact(name: str, judged: Callable[..., Result]) -> None:
    found = judged(name, FP32).findings
    assert (found.checks.checked, found.checks.checked_note, found.checks.unchecked_outputs) == (
        "exact",
        None,
        None,
    )
    assert found.checks.error < 1e-6


def rows(number: int) -> Change:
    return lambda output: tuple(each[number:] for each in output)


WRONG: dict[str, tuple[str, Variant, Change]] = {
    "a row less, which rounding never takes": ("boxes", FP32, rows(1)),
    "too many rows less": ("boxes", AMP, rows(300)),
    "rows of another kind": ("boxes", AMP, lambda output: (output[0].T, output[1])),
    "as many rows, of other values": ("boxes", AMP, lambda output: (output[0] * 1.5, output[1])),
    "an output less": ("boxes", AMP, lambda output: output[:1]),
    "an inverted mask": ("mask", AMP, lambda output: ~output),
    "an inverted mask in fp32": ("mask", FP32, lambda output: ~output),
    "a flipped element in fp32": ("mask", FP32, lambda output: output ^ (output.cumsum(0) == 1)),
    "labels off by one": ("labels", AMP, lambda output: (output + 1) % 4),
    "all labels the same": ("labels", AMP, torch.zeros_like),
    "no gate": ("gated", AMP, lambda output: output + 0.3),
    "the best in fp32, of other rows": ("best", FP32, lambda output: output.roll(1, 0)),
    "a smooth output beside": (
        "boxes_beside_all",
        AMP,
        lambda output: (output[0], output[1] * 1.1),
    ),
    "nan": ("boxes", AMP, lambda output: (output[0] * torch.nan, output[1])),
    "elements where there are none": ("nothing", AMP, lambda output: torch.ones(2, 5)),
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_program_is_found(fault: str, judged: Callable[..., Result]) -> None:
    name, asked, change = WRONG[fault]
    for seed in range(3):
        result = judged(name, asked, change, seed)
        assert result.status == "wrong_result"
        assert "max_error" not in (result.reason or "") or result.findings.checks.error <= 0.1
        assert "inf" not in (result.reason or "").replace("information", "")


def test_a_smooth_output_beside_one_that_jumps_is_checked(judged: Callable[..., Result]) -> None:
    found = judged("boxes_beside_all", AMP).findings
    assert (found.checks.checked, found.checks.unchecked_outputs) == ("exact", "output [0]")
    assert "explained by rounding" in found.checks.checked_note
    assert 0 < found.checks.error < found.checks.error_limit < 0.02
    assert found.checks.error_place == "output [1]"


def test_a_smooth_output_that_amplifies_rounding_is_not_explained(
    judged: Callable[..., Result],
) -> None:
    result = judged("cancelling", AMP)
    assert result.status == "wrong_result"
    assert result.findings.checks.error > 0.1
    assert "max_error" not in result.reason


def test_what_has_no_elements_is_not_checked(judged: Callable[..., Result]) -> None:
    found = judged("nothing", FP32).findings
    assert (found.checks.checked, found.checks.error, found.checks.eager_error) == (
        "not",
        None,
        None,
    )
    assert "[0] (no elements), [1] (no elements)" in found.checks.checked_note
    beside = judged("nothing_beside_all", FP32).findings
    assert (beside.checks.checked, beside.checks.unchecked_outputs) == (
        "exact",
        "[0] (no elements)",
    )


@pytest.mark.parametrize(
    ("of_case", "of_baseline", "change", "right"),
    [
        (FP32, AMP, None, True),
        (FP32, AMP, rows(1), True),
        (FP32, AMP, rows(300), False),
        (AMP, FP32, None, True),
        (AMP, FP32, rows(1), False),  # which rounding of bf16 explains
    ],
)
def test_a_baseline_is_explained_by_rounding_at_its_own_precision(
    of_case: Variant, of_baseline: Variant, change: Change | None, right: bool
) -> None:
    torch.manual_seed(0)
    model = replace(probe_models.model(probe_models.linear), target=family("boxes").target)
    subject = build(model, {})
    check = check_for(ONE_CALL, subject, Cpu(), 0)
    case = probe_models.case(model, of_case)
    judge = exact_judge.judge(check, subject, case, probe_models.smoke(), Cpu())
    assert isinstance(judge, ExactJudge)
    built = modes.build(subject.cast(None), of_baseline, True, Cpu(), ONE_CALL)
    right_step = built.step
    if change:
        built = replace(built, step=lambda: change(right_step()))
    found, columns = judge.baseline_is_right(built, of_baseline, Findings())
    assert found is right
    explained = right and of_baseline is AMP
    assert (columns.checks.baseline_error is None) is explained
