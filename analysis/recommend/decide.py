"""Recommends a mode for each model and shape, by intervals, never by point estimates alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

import pandas as pd

from modescope.analysis.derive.select import GROUP, SECTION, row_parts
from modescope.analysis.format import phrases
from modescope.analysis.format.phrases import Row
from modescope.analysis.recommend import choose, sentences
from modescope.analysis.recommend.amortized import gain
from modescope.analysis.recommend.choose import Option
from modescope.analysis.recommend.confirm import confirmed
from modescope.analysis.recommend.constraints import ANYTHING, Wishes
from modescope.analysis.recommend.exclusions import refusal
from modescope.analysis.recommend.types import Question, Recommendation, Refusal

QUESTION = (*GROUP, "compile_cache")
_COLUMNS = (
    *QUESTION, "run_id", "started_at", "mode", "apart", "grad", "autocast", "compile_mode", "graph",
    "device_name", "cpu_capability", "cpu_instructions", "budget", "budget_rank", "status",
    "reason", "in_effect", "in_effect_note", "flags", "flags_touch", "replicates", "error",
    "error_limit", "scale_error", "scale_error_limit", "max_error", "baseline_error",
    "baseline_error_limit", "checked", "checked_note", "checked_inputs", "checked_against",
    "latency_paired_s", "latency_paired_ci_low_s", "latency_paired_ci_high_s", "baseline_latency_s",
    "speedup", "speedup_ci_low", "speedup_ci_high",
    "confirming_speedup", "confirming_speedup_ci_low", "confirming_speedup_ci_high", "pace",
    "mde", "first_call_s", "baseline_first_call_s", "break_even_calls", "peak_bytes",
    "setup_peak_bytes", "weights_bytes", "input_bytes", "compile_options", "fullgraph",
)  # fmt: skip


def recommend(
    table: pd.DataFrame, calls: float | None = None, memory_limit_bytes: int | None = None
) -> tuple[Recommendation, ...]:
    """The answer to each Question of a derived table, in the order of its sections.

    Usable rows ended ok, were in effect and correct, had more than a smoke budget and a correct
    baseline that was in effect, and have an interval. Timing flags do not disqualify a row, because
    rounds in random order keep the ratio valid; they are reported. Results that could not be
    judged are reported, too.

    A mode is chosen if its interval lies above 1 + MARGIN, and above the noise floor (the baseline
    against itself) where that excludes 1. Modes within NEAR of the best, whose intervals allow a
    difference of less than MARGIN from it, are tied; the cheapest of those that were checked is
    chosen: by first call, memory, then simplicity. `calls` spreads the first call over so many
    further ones (`amortized.gain`). Where a second process of the mode or of the next best
    contradicts the first (`confirm`), the answer is undecided. Rows not known to fit into
    `memory_limit_bytes` are left out.
    """
    wishes = Wishes(calls, memory_limit_bytes)
    return tuple(
        _answer(rows, _baseline(section, rows[0]), wishes)
        for section in row_parts(phrases.as_rows(table[list(_COLUMNS)]), SECTION)
        for rows in row_parts(section, QUESTION)
    )


def _baseline(section: Sequence[Row], case: Row) -> Row | None:
    """The run of the baseline itself; preferably a usable one with the same compiler cache."""
    named = (case["baseline_mode"], case["baseline_dtype"])
    runs = [r for r in section if r["status"] == "ok" and (r["mode"], r["dtype"]) == named]

    def doubts(row: Row) -> tuple[bool, ...]:
        return (
            not phrases.is_control(row), refusal(row, ANYTHING) is not None,
            row["compile_cache"] != case["compile_cache"],
        )  # fmt: skip

    return min(runs, key=doubts, default=None)


def _answer(rows: Sequence[Row], baseline: Row | None, wishes: Wishes) -> Recommendation:
    question = Question(**{field.name: rows[0][field.name] for field in fields(Question)})
    options, refused = _options(rows, baseline, wishes)
    answer = confirmed(choose.chosen(question, options, refused, baseline, wishes))
    accepted = next(filter(None, map(phrases.baseline_accepted, rows)), "")
    unchecked = _unchecked([baseline] if baseline else rows)
    answer = replace(answer, baseline_accepted=accepted, baseline_unchecked=unchecked)
    headline, remarks = sentences.together([answer]), sentences.remarks(answer)
    return replace(answer, headline=headline, remarks=remarks)


def _unchecked(rows: Sequence[Row]) -> str:
    """Why no results of rows that ended ok could be judged; empty if those of any could."""
    reasons = [phrases.unchecked(row) for row in rows if row["status"] == "ok"]
    return reasons[0] if reasons and all(reasons) else ""


def _options(
    rows: Sequence[Row], baseline: Row | None, wishes: Wishes
) -> tuple[list[Option], list[Refusal]]:
    """The rows that may be chosen instead of the baseline, and why the others may not."""
    options, refused = [], []
    for row in rows:
        if phrases.is_control(row):
            continue
        if why := refusal(row, wishes):
            refused.append(Refusal(row["run_id"], phrases.mode(row), *why))
        elif ratio := gain(row, wishes.calls, _first_call_s(row, baseline)):
            options.append(Option(row, ratio))
        else:
            reason = "the first call's time, its own or the baseline's, is unknown"
            unknown = Refusal(row["run_id"], phrases.mode(row), "first_call_unknown", reason)
            refused.append(unknown)
    return options, refused


def _first_call_s(row: Row, baseline: Row | None) -> float | None:
    """The baseline's first call, measured with this row, or else in the baseline's own run.

    A baseline that compiles has none with this row: the case's own compilation warms its cache.
    """
    paired: float | None = row["baseline_first_call_s"]
    return paired if paired is not None or baseline is None else baseline["first_call_s"]
