"""Which errors are accepted, by those of eager and those of rounding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from modescope.bench.case import exact_judge
from modescope.bench.devices.devices import Cpu
from modescope.bench.records.cases import Variant
from modescope.bench.records.results import Ended, Findings
from modescope.bench.steps.outputs import Outputs
from modescope.bench.steps.phase_interface import (
    Check,
    Deviation,
    Limit,
    RoundingCheck,
    Seen,
    StateCheck,
    accepted_error,
)
from modescope.bench.steps.subject import Built
from tests.helpers import probe_models

EAGER, MODE = (cast(Built, name) for name in ("eager", "mode"))

WEIGHT = "gradient of weight in step 1"


def deviation(error: float, scale: float = 0.0) -> Deviation:
    return Deviation(error, WEIGHT, {WEIGHT: scale})


@dataclass
class Known(Check):
    """A check with known errors of eager, of the mode and of rounding."""

    eager: Deviation
    mode: Deviation
    by_rounding: Limit | Exception | None
    reads_rounding: list[Variant] = field(default_factory=list)
    unfit: str | None = None
    seen: Seen = field(default_factory=Seen)

    def examine(self, built: Built, variant: Variant) -> Deviation:
        return self.eager if built == EAGER else self.mode

    def results(self, built: Built) -> Outputs:
        raise NotImplementedError

    def limit(self, eager: Deviation, variant: Variant) -> Limit:
        return Limit(accepted_error(eager.error, variant.dtype), 1e-4)

    def rounding(self, variant: Variant) -> RoundingCheck | None:
        self.reads_rounding.append(variant)
        if isinstance(self.by_rounding, Exception):
            raise self.by_rounding
        if self.by_rounding is None:
            return None
        return RoundingCheck(self, self.by_rounding, cast(Any, None))

    def examine_state(self, built: Built) -> StateCheck:
        return StateCheck()


Judged = Callable[..., Findings]


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Judged:
    """The columns of a mode in fp32 with these errors; raises Ended where they are too large."""
    monkeypatch.setattr(exact_judge, "plain_eager", lambda *others: EAGER)
    case = probe_models.case(probe_models.model(probe_models.tells), probe_models.variant())

    def judge(check: Known, max_error: float | None = None) -> Findings:
        plan = replace(probe_models.smoke(), max_error=max_error)
        judge = exact_judge.judge(check, cast(Any, None), case, plan, Cpu())
        return judge.judge(MODE, judge.columns(Findings()))

    return judge


SMALL, LARGE = 1e-7, 3e-3
CALM, JUMPY, CHAOTIC = Limit(1e-4, 1e-4), Limit(1e-2, 1e-4), Limit(2.0, 1.0)


def test_errors_as_large_as_those_of_eager_need_no_perturbed_runs(judged: Judged) -> None:
    check = Known(deviation(SMALL), deviation(2 * SMALL), JUMPY)
    found = judged(check)
    assert (found.checked, found.checked_note) == ("exact", None)
    assert not check.reads_rounding


def test_rounding_explains_what_eager_does_not(judged: Judged) -> None:
    found = judged(Known(deviation(SMALL), deviation(LARGE), JUMPY))
    assert found.checked == "exact"
    assert found.checked_note is not None
    assert "rounding alone" in found.checked_note
    assert found.error == LARGE
    assert found.error_limit == JUMPY.error


@pytest.mark.parametrize(
    "by_rounding",
    [None, CALM, NotImplementedError("no such operator")],
    ids=["unknown", "calm", "perturbing fails"],
)
def test_what_rounding_cannot_do_is_wrong(
    by_rounding: Limit | Exception | None, judged: Judged
) -> None:
    with pytest.raises(Ended, match=f"against float64 in {WEIGHT}") as ended:
        judged(Known(deviation(SMALL), deviation(LARGE), by_rounding))
    assert ended.value.result.status == "wrong_result"


def test_a_factor_that_rounding_cannot_cause_is_wrong(judged: Judged) -> None:
    with pytest.raises(Ended, match="the scale of the gradient of weight in step 1 is off by"):
        judged(Known(deviation(SMALL), deviation(LARGE, 0.02), JUMPY))


def test_a_factor_of_one_parameter_may_have_a_limit_of_its_own(judged: Judged) -> None:
    own = replace(JUMPY, larger={"gradient of weight": 0.03})
    found = judged(Known(deviation(SMALL), deviation(LARGE, 0.02), own))
    assert found.checked == "exact"
    assert (found.scale_error, found.scale_error_limit) == (0.02, 0.03)


def test_eager_that_rounding_explains_is_a_standard(judged: Judged) -> None:
    found = judged(Known(deviation(LARGE), deviation(LARGE), JUMPY))
    assert (found.checked, found.eager_error) == ("exact", LARGE)


@pytest.mark.parametrize("by_rounding", [None, CALM], ids=["unknown", "calm"])
def test_eager_that_rounding_does_not_explain_is_none(
    by_rounding: Limit | None, judged: Judged
) -> None:
    with pytest.raises(Ended, match="even eager at fp32 has a relative error of"):
        judged(Known(deviation(LARGE), deviation(SMALL), by_rounding))


def test_where_rounding_explains_everything_nothing_counts_as_checked(judged: Judged) -> None:
    found = judged(Known(deviation(0.3), deviation(0.5), CHAOTIC))
    assert found.checked == "not"
    assert found.checked_note is not None
    assert "rounding at fp32 alone can change the gradients of this model by 200%" in (
        found.checked_note
    )


def test_as_close_as_eager_counts_even_where_rounding_explains_everything(judged: Judged) -> None:
    assert judged(Known(deviation(SMALL), deviation(2 * SMALL), CHAOTIC)).checked == "exact"


def test_what_even_chaos_does_not_explain_is_wrong(judged: Judged) -> None:
    with pytest.raises(Ended, match="relative error 3"):
        judged(Known(deviation(0.3), deviation(3.0), CHAOTIC))


def test_lack_of_memory_in_perturbed_runs_is_reported(judged: Judged) -> None:
    with pytest.raises(MemoryError):
        judged(Known(deviation(SMALL), deviation(LARGE), MemoryError()))


def test_the_user_may_accept_an_error_of_any_kind(judged: Judged) -> None:
    check = Known(deviation(SMALL), deviation(LARGE, 0.02), CALM)
    assert judged(check, max_error=LARGE).checked == "exact"
    with pytest.raises(Ended):
        judged(check, max_error=LARGE / 2)


@pytest.mark.parametrize(("of_case", "of_baseline", "right"),
                         [("bf16", "fp32", False), ("fp32", "bf16", True)])  # fmt: skip
def test_a_baseline_is_judged_at_its_own_precision(
    of_case: str, of_baseline: str, right: bool
) -> None:
    case = probe_models.case(probe_models.model(probe_models.tells), probe_models.variant(of_case))
    standard = exact_judge.Standard(Known(deviation(SMALL), deviation(1e-2), None), None, CALM)
    judge = exact_judge.ExactJudge(standard, case, probe_models.smoke(), Cpu())
    found, _ = judge.baseline_is_right(MODE, probe_models.variant(of_baseline), Findings())
    assert found is right
