"""Which errors are accepted, by those of eager and those of rounding."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from modescope.bench.checking import exact_judge
from modescope.bench.checking.checks import (
    Check,
    Deviation,
    Limit,
    RoundingCheck,
    Seen,
    StateCheck,
    accepted_error,
)
from modescope.bench.devices.devices import Cpu
from modescope.bench.model.outputs import Outputs
from modescope.bench.model.subject import Built
from modescope.bench.records.cases import Variant
from modescope.bench.records.results import Ended, Findings
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
    calmer: Known | None = None  # on other batches, to which perturbed runs move

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
        return RoundingCheck(self.calmer or self, self.by_rounding, cast(Any, None))

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
LENIENT = replace(JUMPY, larger={"gradient of weight": 0.03})  # one parameter has its own limit


@pytest.mark.parametrize(
    ("eager", "mode", "by_rounding", "limit", "checked", "by"),
    [
        (SMALL, (2 * SMALL,), JUMPY, None, "exact", None),  # needs no perturbed runs
        (SMALL, (LARGE,), JUMPY, JUMPY.error, "exact", "rounding alone"),
        (SMALL, (LARGE, 0.02), LENIENT, JUMPY.error, "exact", "rounding alone"),
        (LARGE, (LARGE,), JUMPY, None, "exact", "rounding alone"),  # eager is a standard
        (0.3, (0.5,), CHAOTIC, None, "not", "by 200%"),
        (SMALL, (2 * SMALL,), CHAOTIC, None, "exact", None),  # as close as eager
    ],
    ids=["eager", "rounding", "a factor", "eager by rounding", "chaos", "eager despite chaos"],
)
def test_errors_that_eager_or_rounding_has_are_accepted(
    eager: float, mode: Any, by_rounding: Limit, limit: float | None, checked: str,
    by: str | None, judged: Judged,
) -> None:  # fmt: skip
    check = Known(deviation(eager), deviation(*mode), by_rounding)
    found = judged(check)
    assert (found.checks.checked, found.checks.error, found.checks.eager_error) == (
        checked,
        mode[0],
        eager,
    )
    assert limit is None or found.checks.error_limit == limit
    assert found.checks.checked_note is None if by is None else by in found.checks.checked_note
    assert by is not None or not check.reads_rounding
    if by_rounding is LENIENT:
        assert (found.checks.scale_error, found.checks.scale_error_limit) == (0.02, 0.03)


def test_on_calmer_batches_the_errors_and_the_limit_are_of_these(judged: Judged) -> None:
    calmer = Known(deviation(2e-4), deviation(5e-4), None)
    check = Known(deviation(SMALL), deviation(LARGE), CALM, calmer=calmer)
    found = judged(check)
    assert (found.checks.eager_error, found.checks.error) == (2e-4, 5e-4)
    assert found.checks.error_limit == accepted_error(2e-4, "fp32")


@pytest.mark.parametrize(
    ("eager", "mode", "by_rounding", "reason"),
    [
        (SMALL, (LARGE,), None, f"against float64 in {WEIGHT}"),
        (SMALL, (LARGE,), CALM, f"against float64 in {WEIGHT}"),
        (SMALL, (LARGE,), NotImplementedError("no such operator"), f"against float64 in {WEIGHT}"),
        (SMALL, (LARGE, 0.02), JUMPY, f"the scale of the {WEIGHT} is off by 0.02"),
        (LARGE, (SMALL,), None, "even eager at fp32"),
        (LARGE, (SMALL,), CALM, "even eager at fp32"),
        (0.3, (3.0,), CHAOTIC, "relative error 3"),
    ],
)
def test_errors_that_nothing_explains_are_wrong(
    eager: float, mode: Any, by_rounding: Limit | Exception | None, reason: str, judged: Judged
) -> None:
    with pytest.raises(Ended, match=reason) as ended:
        judged(Known(deviation(eager), deviation(*mode), by_rounding))
    assert ended.value.result.status == "wrong_result"


def test_lack_of_memory_in_perturbed_runs_is_reported(judged: Judged) -> None:
    with pytest.raises(MemoryError):
        judged(Known(deviation(SMALL), deviation(LARGE), MemoryError()))


@pytest.mark.parametrize(("eager", "limit"), [(SMALL, 1e-5), (LARGE, 0.0)])
def test_the_user_may_accept_an_error_of_any_kind(
    eager: float, limit: float, judged: Judged
) -> None:
    """Also where eager is no standard; below the limit it changes nothing."""
    check = Known(deviation(eager), deviation(LARGE, 0.02), CALM)
    found = judged(check, max_error=LARGE)
    assert found.checks.checked == "exact"
    assert found.checks.error_limit == pytest.approx(limit, rel=0.1)
    with pytest.raises(Ended, match=r"max_error=0\.003 "):
        judged(check, max_error=LARGE / 2)
    assert (
        judged(Known(deviation(SMALL), deviation(2 * SMALL), CALM), SMALL).checks.checked == "exact"
    )
    with pytest.raises(Ended) as ended:
        judged(Known(deviation(SMALL), deviation(math.nan), CALM), max_error=1e9)
    assert "max_error" not in ended.value.result.reason, "not a number"


def test_of_several_checks_the_larger_errors_count() -> None:
    case = probe_models.case(probe_models.model(probe_models.tells), probe_models.variant())
    check = Known(deviation(SMALL), deviation(LARGE, 5e-5), None)
    judge = exact_judge.ExactJudge(case, probe_models.smoke(), Cpu(), check, check.eager, JUMPY)
    found = judge.judge(MODE, Findings())
    check.mode = deviation(SMALL, 2e-5)
    found = judge.judge(MODE, found)
    assert (found.checks.error, found.checks.error_place, found.checks.scale_error) == (
        LARGE,
        WEIGHT,
        5e-5,
    )


@pytest.mark.parametrize(("of_case", "of_baseline", "right"),
                         [("bf16", "fp32", False), ("fp32", "bf16", True)])  # fmt: skip
def test_a_baseline_is_judged_at_its_own_precision(
    of_case: str, of_baseline: str, right: bool
) -> None:
    case = probe_models.case(probe_models.model(probe_models.tells), probe_models.variant(of_case))
    check = Known(deviation(SMALL), deviation(1e-2), None)
    judge = exact_judge.ExactJudge(case, probe_models.smoke(), Cpu(), check, None, CALM)
    found, _ = judge.baseline_is_right(MODE, probe_models.variant(of_baseline), Findings())
    assert found is right
