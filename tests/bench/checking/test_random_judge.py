"""Which shifts of the means of random results rounding explains, and what is right or unjudged."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from modescope.bench.checking import exact_judge, random_judge
from modescope.bench.checking.checks import Check, Deviation, Limit, Seen
from modescope.bench.devices.devices import Cpu
from modescope.bench.model.outputs import Outputs
from modescope.bench.model.subject import Built, Inputs, Subject
from modescope.bench.records.cases import Case, Variant
from modescope.bench.records.results import Ended, Findings
from tests.helpers import planted, probe_models

FP32, EAGER, MODE = (cast(Built, name) for name in ("eager at fp32", "eager", "mode"))

ELEMENTS = 64


def rounding(seed: int, size: float = 0.3) -> Tensor:
    """What one step adds to the means of the results, whose standard deviation is 1."""
    return size * torch.randn(ELEMENTS, generator=torch.Generator().manual_seed(seed))


NONE, OWN, OTHER = torch.zeros(ELEMENTS), rounding(1), rounding(2)
FAULT = torch.ones(ELEMENTS)  # a bias of 1 added twice


@dataclass
class Dropped(Check):
    """A check whose results are a dropout of ones plus what rounding or a fault adds."""

    added: dict[Built, Tensor]
    unfit: str | None = None
    seen: Seen = field(default_factory=lambda: Seen(random=True))
    asked: list[Built] = field(default_factory=list)

    def examine(self, built: Built, variant: Variant) -> Deviation:
        raise NotImplementedError

    def results(self, built: Built) -> Outputs:
        self.asked.append(built)
        dropped = functional.dropout(torch.ones(ELEMENTS), 0.5)
        return {"output": (dropped + self.added[built]).double()}

    def limit(self, eager: Deviation, variant: Variant) -> Limit:
        raise NotImplementedError


Judged = Callable[[Dropped, Variant], Findings]


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Judged:
    """The columns of a mode with these results; raises Ended where its randomness is another."""

    def plain_eager(subject: Subject, case: Case, device: Any) -> Built:
        narrow = case.variant.mode.autocast or case.variant.dtype != "fp32"
        return EAGER if narrow else FP32

    def judge(check: Dropped, variant: Variant) -> Findings:
        monkeypatch.setattr(exact_judge, "plain_eager", plain_eager)
        subject = Subject(nn.Identity(), Inputs((torch.ones(1),), {}))
        case = probe_models.case(probe_models.model(probe_models.tells), variant)
        judge = random_judge.judge_of(check, subject, case, probe_models.smoke(), Cpu())
        return judge.judge(MODE, Findings())

    return judge


NARROW = [probe_models.variant("bf16"), probe_models.variant("bf16", autocast=True)]


@pytest.mark.parametrize("variant", NARROW, ids=["bf16", "autocast"])
def test_only_a_larger_shift_than_rounding_alone_causes_is_a_fault(
    variant: Variant, judged: Judged
) -> None:
    check = Dropped({FP32: NONE, EAGER: OWN, MODE: OTHER})
    assert judged(check, variant).checks.drawn_spread == pytest.approx(1, rel=0.1)
    assert FP32 in check.asked, "the shift is large enough to be in doubt"
    with pytest.raises(Ended, match="means apart by") as ended:
        judged(Dropped({FP32: NONE, EAGER: OWN, MODE: OTHER + FAULT}), variant)
    assert ended.value.result.status == "wrong_result"


def test_a_shift_is_a_fault_where_eager_rounds_to_the_same_means(judged: Judged) -> None:
    check = Dropped({FP32: NONE, EAGER: NONE, MODE: OTHER})
    with pytest.raises(Ended, match="means apart by"):
        judged(check, probe_models.variant("bf16"))
    assert FP32 in check.asked


def test_at_fp32_rounding_explains_no_shift(judged: Judged) -> None:
    check = Dropped({FP32: OWN, MODE: OTHER})
    with pytest.raises(Ended, match="means apart by"):
        judged(check, probe_models.variant("fp32"))
    calls = random_judge.CALLS + random_judge.MORE_CALLS
    assert check.asked.count(FP32) == calls, "it is not compared with itself"


@pytest.mark.parametrize(("last", "right"), [(1.0, True), (math.nan, False), (math.inf, False)])
def test_a_baseline_is_right_if_every_output_is_finite(last: float, right: bool) -> None:
    class Two(Dropped):
        def results(self, built: Built) -> Outputs:
            return {"a": NONE, "b": torch.tensor([1.0, last])}

    unused: Any = None
    judge = random_judge.RandomJudge(Two({}), unused, unused, unused, unused, Cpu())
    assert judge.baseline_is_right(MODE, probe_models.variant(), Findings()) == (right, Findings())


@pytest.mark.usefixtures("as_in_a_child")
@pytest.mark.parametrize("unjudged", [True, False])
def test_a_copy_without_randomness_that_cannot_be_judged_is_not_checked(
    unjudged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where rounding is chaotic."""
    if unjudged:
        monkeypatch.setattr(exact_judge, "judge", lambda *others: random_judge.NoJudge("chaos"))
    case = planted.case_of(planted.DROPPING, "inference")
    found = random_judge.check_without_randomness(case, probe_models.smoke(), Cpu(), Findings())
    assert found.checks.checked == ("not" if unjudged else "without_randomness")
    assert (found.checks.checked_note == "chaos") is unjudged
