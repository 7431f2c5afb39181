"""Rules on the measured steps between eager and a compiled mode.

Where a row has them, rules that infer the same (`Cause.inferred`) are not used.
"""

from __future__ import annotations

from collections.abc import Sequence

from modescope.analysis.causes.outcome import is_compared, is_faster, is_slower
from modescope.analysis.causes.types import Cause, Context, Evidence, Kind
from modescope.analysis.derive import steps
from modescope.analysis.derive.steps import Step
from modescope.analysis.format import numbers, phrases
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import required, value_of
from modescope.bench.records.gap_steps import ELSEWHERE
from modescope.bench.stats.estimates import Estimate, ends, is_wide

APART = 0.1
"""By how much the intervals of a speedup and of what the steps make of it may miss each other."""


def are_used(row: Row) -> bool:
    """Whether a row is explained by measured steps: it has some, and its speedup agrees with them.

    The two were measured one after the other, so they may be APART. The speedup of a row that does
    not begin at its baseline, as of another precision, need not agree.
    """
    gap = value_of(row, "steps_gap")
    if gap is None or not is_compared(row) or not steps.named(row):
        return False
    if not steps.begin_at_baseline(row):
        return True
    low, high = (1 / max(1e-9, 1 - end) for end in ends(gap))
    least, most = ends(required(row["speedup"]))
    return low <= most * (1 + APART) and least <= high * (1 + APART)


def measured_gain(context: Context) -> Evidence | None:
    """The mode is faster than its baseline, and what it saves was measured step by step."""
    row = context.row
    if not is_faster(row) or not steps.begin_at_baseline(row) or not are_used(row):
        return None
    saving = [step.share.value for step in steps.named(row) if step.share.value > 0]
    return Evidence(max(saving, default=None), _texts(row))


def measured_loss(context: Context) -> Evidence | None:
    """The mode is slower than its baseline, and what it adds was measured step by step."""
    row = context.row
    if not is_slower(row) or not steps.begin_at_baseline(row) or not are_used(row):
        return None
    return Evidence(None, _texts(row))


def measured_parts(context: Context) -> Evidence | None:
    """What a mode saves and adds was measured, but is no difference to its baseline.

    It is not shown to be faster or slower, or its baseline has another precision.
    """
    row = context.row
    differs = is_faster(row) or is_slower(row)
    if (differs and steps.begin_at_baseline(row)) or not are_used(row):
        return None
    return Evidence(None, _texts(row))


def _texts(row: Row) -> dict[str, str]:
    found, gap = steps.named(row), required(value_of(row, "steps_gap"))
    saves = _listed(row, "saves", [step for step in found if step.share.value > 0])
    adds = _listed(row, "adds", [step for step in found if step.share.value < 0])
    dtype = "" if row["autocast"] or row["dtype"] == "fp32" else f" {row['dtype']}"
    axes = "".join(f" with {k}={v}" for k, v in steps.axes_of_eager(row).items())
    trial = steps.best_trial(row)
    return {
        "where": f" {ELSEWHERE}" if value_of(row, "steps_note") == ELSEWHERE else "",
        "unit": f"a call of eager{dtype}{axes}",
        "parts": "; ".join(filter(None, (saves, adds) if steps.is_saving(row) else (adds, saves))),
        "whole": _whole(row, gap),
        "least": numbers.percent(steps.least(row)),
        "tried": f"{trial[0].sentence} made it {numbers.ratio(trial[1])} as fast." if trial else "",
    }


def _listed(row: Row, verb: str, members: Sequence[Step]) -> str:
    texts = []
    for place, step in enumerate(members):
        verb = verb.removesuffix("s") if step.kind.name == "guards" else verb
        subject = step.kind.saves if verb == "saves" else step.kind.adds
        if step.unlike:
            subject = f"other operators, which {subject} brings with it ({step.unlike}),"
        part = _parts_of_code(row) if step.kind.name == "code" else ""
        texts.append(f"{subject}{f' {verb}' if not place else ''} {_amount(step.share)}{part}")
    return phrases.listed(texts) if texts else ""


def _parts_of_code(row: Row) -> str:
    """Says what fusion saves of what the compiler's code saves, and what dispatch of operators."""
    fused, dispatch = value_of(row, "step_fusion"), steps.saved_dispatch(row)
    whole = required(value_of(row, "step_code")).value
    parts = []
    if dispatch is not None and steps.least(row) < dispatch < whole:
        parts.append(f"at least {numbers.whole_percent(dispatch)} is dispatch of operators")
    named = fused is not None and steps.exceeds(fused, steps.least(row))
    if named and 0 < fused.value / whole < 1:
        parts.append(f"{_amount(fused)} is fusion")
    return f" (of which {phrases.listed(parts)})" if parts else ""


def _amount(share: Estimate) -> str:
    """Formats what is saved or added, without its sign; of a wide interval the near end."""
    if share.low is None or share.high is None:
        return numbers.whole_percent(abs(share.value))
    near, far = sorted(map(abs, ends(share)))
    if is_wide(Estimate(abs(share.value), near, far)):
        return f"at least {numbers.percent(near)}"
    return numbers.share_interval(Estimate(abs(share.value), near, far))


def _whole(row: Row, gap: Estimate) -> str:
    """Says what the steps are together, and their sum if that is outside the gap's interval."""
    low, high = ends(gap)
    whole = f"saves {_amount(gap)}" if low > 0 else f"adds {_amount(gap)}"
    if low <= 0 <= high:
        whole = f"may save or add nothing, {numbers.share_interval(gap)}"
    total = gap.value - (value_of(row, "steps_rest") or 0.0)
    return whole if low <= total <= high else f"{whole} (the steps {numbers.whole_percent(total)})"


_SENTENCE = (
    "switched one at a time{where}, in parts of {unit}, {parts}; together the mode {whole}. Steps "
    "up to {least} cannot be told from none."
)

CAUSES = (
    Cause(Kind.GAIN, measured_gain, _SENTENCE, "{tried}"),
    Cause(Kind.LOSS, measured_loss, _SENTENCE, "{tried}"),
    Cause(Kind.PART, measured_parts, _SENTENCE, "{tried}"),
)
