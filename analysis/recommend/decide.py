"""Recommends a mode for each model and shape, by intervals and never by point estimates alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import fields, replace

import pandas as pd

from modescope.analysis.derive import formulas
from modescope.analysis.derive.select import GROUP, SECTION, split_rows, trusted
from modescope.analysis.estimates import high, low
from modescope.analysis.format import phrases
from modescope.analysis.recommend import starting
from modescope.analysis.recommend.constraints import ANYTHING, Wishes
from modescope.analysis.recommend.tf32 import relate
from modescope.analysis.recommend.ties import cheapest
from modescope.analysis.recommend.types import (
    Choice,
    Outcome,
    Question,
    Recommendation,
    Refusal,
    RefusalKind,
    hurdle,
)
from modescope.analysis.rows import predicates
from modescope.analysis.rows.confirming import again, contradicted, stays_ahead
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import as_rows, required, value_of
from modescope.bench.modes.backends import BACKENDS
from modescope.bench.records.outcomes import Status
from modescope.bench.stats import estimates
from modescope.bench.stats.estimates import MARGIN, Estimate
from modescope.bench.summary import GROWS

QUESTION = (*GROUP, "compile_cache")
QUESTION_COLUMNS = [field.name for field in fields(Question) if field.name != "of_packages"]

NEAR = 0.03
"""Modes further apart than this (0.03: 3 %) are never tied, however wide their intervals are.

In a disturbed study, compile at 1.75× [1.23, 2.29] is not as fast as inference_mode at 1.19× [1.16,
1.24].
"""

NO_BASELINE = {"baseline_failed", "baseline_wrong", "baseline_not_in_effect"}
"""The flags of a row that had a baseline and could not be compared with it."""

RULES: tuple[tuple[RefusalKind, Callable[[Row], object]], ...] = (
    (RefusalKind.SKIPPED, lambda row: row["status"] == Status.SKIPPED),
    (RefusalKind.WRONG, lambda row: row["status"] == Status.WRONG_RESULT),
    (RefusalKind.FAILED, lambda row: row["status"] != Status.OK),
    (RefusalKind.NOT_IN_EFFECT, lambda row: not row["in_effect"]),
    (RefusalKind.SMOKE, predicates.is_smoke),
    (RefusalKind.UNCHECKED, lambda row: row["error"] is None and not predicates.unchecked(row)),
    (RefusalKind.WRONG, lambda row: not predicates.unchecked(row) and _exceeds_its_limit(row)),
    (RefusalKind.NO_BASELINE, lambda row: NO_BASELINE & {*predicates.flags(row)}),
    (RefusalKind.GROWS, lambda row: GROWS in predicates.flags(row)),
    (RefusalKind.SLOW_HOST, predicates.host_slower),
    (RefusalKind.NO_INTERVAL, lambda row: not predicates.has_interval(row)),
)
"""What excludes a row, whatever its speedup; the first rule that holds is the reason.

Timing flags exclude nothing else: each is reported with the ratio.
"""

COMPILED = BACKENDS["inductor"].modes
"""The values of `mode.compile` whose rows have steps from eager to the mode."""


def recommend(table: pd.DataFrame, wishes: Wishes = ANYTHING) -> tuple[Recommendation, ...]:
    """Returns a Recommendation for each Question in `table`, which needs all derived columns.

    They are sorted by machine, model and size, then by precision, baseline and compiler cache;
    packages come after other modes.

    A row is usable if it ended ok, was in effect and correct, had more than a smoke budget and a
    correct baseline that was in effect, and has an interval; on CUDA, if its host was not slow.
    Results that could not be checked, and other flags on timings, are reported but exclude no row.

    A mode is chosen if its interval lies above 1 + MARGIN, and above the noise floor (the baseline
    against itself) if the floor excludes 1. A mode that compiles or captures is not chosen where an
    interval is wide (`estimates.is_wide`): of the floor, or of a mode that is no clear loss. A mode
    is tied with the best mode if it is within NEAR of it and their intervals allow a difference
    below MARGIN. Of tied modes, checked ones are preferred; then the first call, memory and
    simplicity decide. With `wishes.calls`, the first call is spread over that many further calls
    (`starting.gain`); with `wishes.starts`, the time of so many processes counts from their start,
    and caches and packages are ranked together. Rows that are not known to fit into
    `wishes.memory_limit_bytes` are left out. If a second process of the chosen mode or of the next
    best contradicts the first process, the answer is undecided, unless both say the same
    (`_stands`). How answers in tf32 relate to eager in fp32 is in `analysis.recommend.tf32`.
    """
    return tuple(
        answer
        for section in split_rows(as_rows(table), SECTION)
        for answer in relate(
            section,
            [
                _confirmed(_answer(rows, _baseline(section, rows[0]), wishes))
                for rows in _by_question(section, wishes)
            ],
        )
    )


def _by_question(section: Sequence[Row], wishes: Wishes) -> Iterator[Sequence[Row]]:
    """Yields the rows of each question; beside packages, the baseline alone is none."""
    if wishes.starts is not None:
        yield from split_rows(section, GROUP)
        return
    for rows in split_rows(section, QUESTION):
        others = [row for row in rows if not _is_packaged(row)]
        packaged = [row for row in rows if _is_packaged(row)]
        if not packaged or not all(map(predicates.is_control, others)):
            yield others
        if packaged:
            yield packaged


def _is_packaged(row: Row) -> bool:
    return phrases.ahead_s(row) is not None


def unconfirmed(answers: Iterable[Recommendation], run_ids: Collection[str]) -> list[str]:
    """Returns those of `run_ids` that a second process has to repeat to confirm `answers`.

    Intervals hold within a process. A recommendation of a mode that compiles or captures therefore
    rests on two processes of that mode and of the next best mode (`bench.sweep.sweep`).
    """
    return [
        choice.run_id
        for answer in answers
        for choice in _pair(answer)
        if choice.again is None and choice.row["replicates"] == 1 and choice.run_id in run_ids
    ]


def to_explain(table: pd.DataFrame, run_ids: Collection[str]) -> list[str]:
    """Returns those of `run_ids` whose steps are to be measured: the best compiled mode of a work.

    Of a work that has a row with steps already there is none. `table` has all derived columns.
    """
    found = []
    for section in split_rows(as_rows(trusted(table)), SECTION):
        compiled = [
            row
            for row in section
            if row["compile_mode"] in COMPILED
            and row["phase"] == "inference"
            and row["axes"] is None
        ]
        best = max(compiled, key=lambda row: low(row["speedup"]), default=None)
        known = any(row["steps_gap"] is not None or row["steps_note"] for row in section)
        if best is None or known:
            continue
        found += [best["run_id"]] if best["run_id"] in run_ids else []
    return found


def _confirmed(answer: Recommendation) -> Recommendation:
    """Returns `answer`, with outcome BETWEEN if two processes of one mode contradict each other.

    The mode is the recommended or the next best one (`_pair`). Of the next best, a contradiction
    does not matter if even its faster process stays below the recommended mode, nor of the
    recommended one if its slower process stands (`_stands`).
    """
    if _stands(answer):
        return answer
    for choice in _pair(answer):
        best = None if choice is answer.choice else _pair(answer)[0].row
        if contradicted(choice.row, best):
            return replace(answer, outcome=Outcome.BETWEEN, choice=None, tied=(), disputed=choice)
    return answer


def _stands(answer: Recommendation) -> bool:
    """Whether the mode is recommended by either of its processes: nothing is as fast as the slower.

    It is above the hurdle, and surely ahead of both processes of the next best mode.
    """
    choice, wishes, pair = answer.choice, answer.wishes, _pair(answer)
    if not pair or choice is None or answer.tied or wishes.calls or wishes.starts:
        return False
    slower = min(map(low, filter(None, (choice.speedup, choice.again))))
    return slower > hurdle(answer.floor) and all(
        stays_ahead(choice.row, other.row) for other in pair[1:]
    )


def _pair(answer: Recommendation) -> list[Choice]:
    """The recommended mode and the next best mode; empty unless the former compiles or captures."""
    choice = answer.choice
    if answer.outcome is not Outcome.MODE or choice is None or not formulas.builds(choice.row):
        return []
    return [choice, *([answer.rival] if answer.rival else [])]


def _baseline(section: Sequence[Row], case: Row) -> Row | None:
    """Returns the run that measured the baseline of the row `case` as a mode; None without one.

    `section`: the rows of the same model and size on the same machine. A run that is timed against
    itself is preferred, then a usable one, then one with the compiler cache (cold or warm) of
    `case`.
    """
    named = (case["baseline_mode"], case["baseline_dtype"])
    runs = [r for r in section if r["status"] == Status.OK and (r["mode"], r["dtype"]) == named]

    def doubts(row: Row) -> tuple[bool, ...]:
        return (
            not predicates.is_control(row), refusal(row, ANYTHING) is not None,
            row["compile_cache"] != case["compile_cache"],
        )  # fmt: skip

    return min(runs, key=doubts, default=None)


def _answer(rows: Sequence[Row], baseline: Row | None, wishes: Wishes) -> Recommendation:
    usable, refused = list[Choice](), list[Refusal]()
    for row in rows:
        if predicates.is_control(row):
            continue
        ratio, why = starting.gain(row, wishes, baseline), refusal(row, wishes)
        if why is None and ratio is None:
            unknown = RefusalKind.START_UNKNOWN if wishes.starts else RefusalKind.FIRST_CALL_UNKNOWN
            why = unknown
        if why is not None:
            name = starting.named(row, wishes)
            refused.append(Refusal(row["run_id"], name, why, predicates.host_slower(row)))
        elif ratio is not None:
            usable.append(_choice(row, ratio, baseline, wishes))
    floor, fits = _floor(baseline), fits_into(baseline, wishes.memory_limit_bytes)
    least_gain = 0.0 if fits is False else hurdle(floor)  # a baseline that does not fit cannot win
    no_losses = [choice for choice in usable if high(choice.gain) >= 1 / (1 + MARGIN)]
    is_disturbed = any(map(estimates.is_wide, (floor, *(choice.speedup for choice in no_losses))))
    barred = [choice for choice in usable if is_disturbed and formulas.builds(choice.row)]
    winners = [
        choice for choice in usable if low(choice.gain) > least_gain and choice not in barred
    ]
    best = max(winners, key=lambda choice: low(choice.gain), default=None)
    close = [choice for choice in winners if best and _is_equal(choice.gain, best.gain)]
    others = [choice for choice in usable if choice not in close]
    lost = (
        Refusal(choice.run_id, choice.mode, RefusalKind.DISTURBED)
        if choice in barred and low(choice.gain) > least_gain
        else _lost(choice, best if choice in winners else None, least_gain, wishes)
        for choice in others
    )
    rivals = [choice for choice in others if high(choice.gain) >= 1]
    outcome = _outcome(winners, usable, refused, fits)
    choice, tied = cheapest(close) if close else (None, ())
    if outcome is Outcome.BASELINE and baseline is not None and floor is not None:
        choice = _choice(baseline, floor, baseline, ANYTHING)
    unchecked = [predicates.unchecked(row) for row in ([baseline] if baseline else rows)
                 if row["status"] == Status.OK]  # fmt: skip
    return Recommendation(
        Question(
            **{name: value_of(rows[0], name) for name in QUESTION_COLUMNS}
            | ({"compile_cache": None} if wishes.starts else {}),
            of_packages=wishes.starts is None and _is_packaged(rows[0]),
        ),
        wishes, outcome, choice, tied, (*lost, *refused), floor,
        min((choice.row["replicates"] for choice in usable), default=1),
        max((s for choice in usable if (s := choice.row["speedup_process_spread"])), default=None),
        _mde(no_losses), is_disturbed, fits,
        baseline_unchecked=unchecked[0] if unchecked and all(unchecked) else "",
        rival=max(rivals, key=lambda choice: low(choice.gain), default=None),
    )  # fmt: skip


def _ranked(choice: Choice, wishes: Wishes) -> Estimate:
    return choice.gain if wishes.starts else choice.speedup


def _choice(row: Row, gain: Estimate, baseline: Row | None, wishes: Wishes) -> Choice:
    peak, of_baseline = row["peak_bytes"], baseline["peak_bytes"] if baseline else None
    return Choice(
        run_id=row["run_id"],
        mode=starting.named(row, wishes),
        dtype=row["dtype"],
        speedup=required(row["speedup"]),
        gain=gain,
        again=again(row),
        extra_bytes=None if peak is None or of_baseline is None else peak - of_baseline,
        row=row,
    )


def _floor(baseline: Row | None) -> Estimate | None:
    """The noise floor: the speedup of the baseline over itself; None without a usable run of it."""
    if baseline is None or not predicates.is_control(baseline) or refusal(baseline, ANYTHING):
        return None
    return baseline["speedup"]


def _mde(no_losses: Sequence[Choice]) -> float | None:
    """Returns the largest `mde` of rows that are no clear losses; None if one is unknown.

    `mde` is the smallest true change (0.02: 2 %) that a row's interval shows in 80 % of such runs.
    """
    known = [choice.row["mde"] for choice in no_losses if choice.row["mde"] is not None]
    return max(known, default=None) if len(known) == len(no_losses) else None


def refusal(row: Row, wishes: Wishes) -> RefusalKind | None:
    """Returns why a row cannot be recommended, whatever its speedup.

    None if it can be: it is then usable and fits into the memory limit of `wishes`.
    """
    for kind, holds in RULES:
        if holds(row):
            return kind
    fits = fits_into(row, wishes.memory_limit_bytes)
    return RefusalKind.MEMORY_UNKNOWN if fits is None else None if fits else RefusalKind.MEMORY


def _exceeds_its_limit(row: Row) -> bool:
    limit, error = predicates.accepted_error(row), row["error"]
    return limit is not None and not required(error) <= limit


def fits_into(row: Row | None, limit_bytes: int | None) -> bool | None:
    """Whether a row needs at most `limit_bytes` in addition to an empty process; None if unknown.

    A limit of None is no limit. Weights and inputs are added to the peak of the first call, because
    they were allocated before it. On a CPU this peak is the growth of the process including the
    compiler, which has to fit, too.
    """
    if limit_bytes is None:
        return True
    if row is None:
        return None
    first = (row["setup_peak_bytes"], row["weights_bytes"], row["input_bytes"])
    sizes = [size for size in first if size is not None]
    if len(sizes) == len(first) and sum(sizes) > limit_bytes:
        return False
    return None if row["peak_bytes"] is None else bool(row["peak_bytes"] <= limit_bytes)


def _is_equal(ratio: Estimate, best: Estimate) -> bool:
    """Whether the gain `ratio` ties with the gain `best`.

    It does if it is not surely lower by more than MARGIN, and within NEAR of it.
    MARGIN also covers most differences between two processes of one mode.
    """
    return not _is_less(ratio, best) and abs(math.log(ratio.value / best.value)) < math.log1p(NEAR)


def _is_less(ratio: Estimate, best: Estimate) -> bool:
    apart = estimates.quotient(best, ratio)
    return apart is not None and low(apart) > 1 + MARGIN


def _outcome(
    winners: Sequence[Choice],
    usable: Sequence[Choice],
    refused: Sequence[Refusal],
    baseline_fits: bool | None,
) -> Outcome:
    if winners:
        return Outcome.MODE
    if baseline_fits is False:
        return Outcome.NOTHING
    is_open = any(refusal.kind is RefusalKind.SLOW_HOST for refusal in refused)
    if usable or is_open:
        equal = all(high(choice.gain) <= 1 + MARGIN for choice in usable) and not is_open
        return Outcome.BASELINE if equal else Outcome.UNDECIDED
    exceeding = {RefusalKind.MEMORY, RefusalKind.MEMORY_UNKNOWN}
    barred = any(refusal.kind in exceeding for refusal in refused)
    return Outcome.BASELINE if barred else Outcome.NOTHING


def _lost(choice: Choice, best: Choice | None, least_gain: float, wishes: Wishes) -> Refusal:
    """Says why the usable row `choice` is neither chosen nor tied.

    `least_gain`: the gain above which a row's interval must lie to win. `best`: the best such
    winner if `choice` is a winner, too, else None.
    """
    if best:
        kind = RefusalKind.LESS if _is_less(choice.gain, best.gain) else RefusalKind.OPEN
    elif wishes.calls is not None and low(choice.speedup) > least_gain:
        kind = RefusalKind.UNPAID
    elif high(_ranked(choice, wishes)) < 1 / (1 + MARGIN):
        kind = RefusalKind.SLOWER
    else:
        kind = RefusalKind.NOISE if low(choice.speedup) > 1 + MARGIN else RefusalKind.NO_DIFFERENCE
    return Refusal(choice.run_id, choice.mode, kind)
