"""What the steps take, by kept rows of a GPU, and how they fall into calls.

A row holds what its case took. A case without a row takes what the most similar one did: of its
model and dtype, else of its model, else the longest of all that do as much before timing. A small
size is taken to last as long as the kept large one, but for the checks of training, which take
time with the weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from modescope.bench.records import rows
from tests.gpu import studies
from tests.gpu.running import GRACE_S
from tests.gpu.steps import RESERVE_S, STEPS, Step
from tests.gpu.studies import SMALL, CaseKind, Study
from tests.helpers.paths import REFERENCE

KEPT = REFERENCE / "nvidia-h100"
KEPT_STUDIES = (".", "bf16", "training")
ALONE_S = 0.4  # of a case: calls without the baseline's, which kept rows lack
COMMAND_S = 8.0
"""Of a study's command before its first case: imports, and torch in the process that forks."""

SMALL_WEIGHTS = {"mlp": 1 / 16, "transformer": 1 / 4}
"""Weights of the small size ÷ those of the kept one: (1024 ÷ 4096)² and (1024 ÷ 2048)²."""

CALL_S, ALL_S = 560.0, 660.0
"""The longest call that leaves time within ten minutes to begin and to pack; and all calls."""


@dataclass(frozen=True)
class Seconds:
    """What a kept case took."""

    case: CaseKind
    seconds: float


def kept_seconds(folder: Path = KEPT) -> list[Seconds]:
    """Reads the duration of every row that ended ok."""
    columns = ["run_id", "schema_version", "status", "model", "mode", "dtype", "phase"]
    found: list[Seconds] = []
    for study in KEPT_STUDIES:
        read = rows.read(folder / study / rows.ROWS, [*columns, "duration_s"])
        for row in read.table.to_pylist() if read else ():
            kind = CaseKind(row["model"], row["mode"], row["dtype"], studies.LARGE, row["phase"])
            if row["status"] == "ok":
                found.append(Seconds(kind, row["duration_s"]))
    return found


def case_s(case: CaseKind, kept: Sequence[Seconds]) -> float:
    """Returns what a case is expected to take."""
    if case.phase == "train":
        return _training_s(case, kept)
    alike = [
        each for each in kept
        if each.case.phase == case.phase and each.case.work == case.work
    ]  # fmt: skip
    dtype = "fp32" if case.dtype == "tf32" else case.dtype
    of_model = [each.seconds for each in alike if each.case.model == case.model]
    of_dtype = [
        each.seconds for each in alike if (each.case.model, each.case.dtype) == (case.model, dtype)
    ]
    exact = [
        each.seconds
        for each in alike
        if (each.case.model, each.case.dtype, each.case.mode) == (case.model, dtype, case.mode)
    ]
    for found in (exact, of_dtype, of_model):
        if found:
            return median(found)
    return max(each.seconds for each in alike)


def _training_s(case: CaseKind, kept: Sequence[Seconds]) -> float:
    """As much as inference before its checks, and the checks of the kept rows by weights."""
    plain = replace(case, phase="inference")
    trained = [each for each in kept if each.case.phase == "train"]
    of_model = [each for each in trained if each.case.model == case.model] or trained
    checks_s = max(
        each.seconds - case_s(replace(each.case, phase="inference"), kept) for each in of_model
    )
    share = SMALL_WEIGHTS.get(case.model, 1.0) if case.shape == SMALL else 1.0
    return case_s(plain, kept) + share * checks_s


def study_s(study: Study, kept: Sequence[Seconds]) -> float:
    """Returns what a study is expected to take."""
    cases = [case for each in study.sweeps for case in each.cases()]
    return COMMAND_S + ALONE_S * len(cases) + sum(case_s(case, kept) for case in cases)


def with_expected(steps: Iterable[Step], kept: Sequence[Seconds]) -> list[Step]:
    """Returns the steps, each with what it is expected to take, and studies with a limit for it."""
    found = []
    for step in steps:
        if step.expected_s is None:
            expected_s = study_s(studies.named(step.words[0]), kept)
            step = replace(step, expected_s=expected_s, limit_s=max(step.limit_s, 1.6 * expected_s))
        found.append(step)
    return found


@dataclass(frozen=True)
class Planned:
    """In which call a step runs as expected; None: the budget does not reach so far."""

    step: Step
    call: int | None


def plan(steps: Sequence[Step], all_s: float = ALL_S, call_s: float = CALL_S) -> list[Planned]:
    """Returns the steps with their calls, as `tests.gpu.__main__` starts them.

    A call ends where the next step does not fit into it. A step that does not fit into the budget
    is left out, and shorter ones after it are tried. The last steps run at the end of each call.
    """
    call, spent_s, of_call_s = 1, 0.0, 0.0
    kept_s = RESERVE_S + GRACE_S
    end_s = sum(step.expected_s for step in steps if step.last)
    planned = []
    for step in steps:
        assert step.expected_s is not None
        if step.last:
            planned.append(Planned(step, call))
            continue
        if spent_s + step.expected_s > all_s - kept_s:
            planned.append(Planned(step, None))
            continue
        if of_call_s + step.expected_s > call_s - kept_s:
            call, of_call_s, spent_s = call + 1, 0.0, spent_s + end_s
        planned.append(Planned(step, call))
        spent_s, of_call_s = spent_s + step.expected_s, of_call_s + step.expected_s
    return planned


def total_s(planned: Sequence[Planned], call: int | None = None) -> float:
    """What the planned steps take in one call or, without it, in all."""
    chosen = [each for each in planned if each.call is not None and not each.step.last]
    calls = {each.call for each in chosen} if call is None else {call}
    ends_s = sum(each.step.expected_s for each in planned if each.step.last) * len(calls)
    return ends_s + sum(each.step.expected_s for each in chosen if each.call in calls)


def lines(planned: Sequence[Planned]) -> Iterator[str]:
    """Yields the dry timing as lines of text, with what is cut first."""
    yield f"{'step':>4}  {'name':28} {'expected':>9} {'limit':>7}  call"
    for each in planned:
        step = each.step
        call = "every" if step.last else each.call or "not within the budget"
        times = f"{step.expected_s:7.0f} s {step.limit_s:5.0f} s"
        yield f"{step.number:>4}  {step.name:28} {times}  {call}"
    for call in sorted({each.call for each in planned if each.call}):
        yield f"call {call}: {total_s(planned, call):.0f} s"
    yield f"steps 1 to 8: {total_s(planned):.0f} s"
    in_order = [e.step.name for e in planned if e.call is not None and not e.step.last]
    yield f"cut first on a slower card: {', '.join(reversed(in_order[-5:]))}"


def main(all_s: float, call_s: float) -> None:
    """Prints the dry timing."""
    print("\n".join(lines(plan(with_expected(STEPS, kept_seconds()), all_s, call_s))))
