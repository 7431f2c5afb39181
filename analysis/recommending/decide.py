"""Which mode for this model and shape? Decided on intervals, never on their middles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

import pandas as pd

from analysis import words
from analysis.recommending import choosing, sentences
from analysis.recommending.choosing import Option
from analysis.recommending.gains import gain
from analysis.recommending.records import Question, Recommendation, Refusal
from analysis.recommending.refusals import refusal
from analysis.recommending.wishes import ANYTHING, Wishes
from analysis.rows import GROUP, SECTION, row_parts
from analysis.words import Row

ASKED = (*GROUP, "compile_cache")
_COLUMNS = (
    *ASKED, "run_id", "started_at", "mode", "apart", "grad", "autocast", "compile", "graph",
    "device_name", "cpu_capability", "cpu_instructions", "budget", "budget_rank", "status",
    "reason", "in_effect", "in_effect_note", "flags", "replicates", "error", "error_limit",
    "max_error", "baseline_error", "latency_s", "latency_ci_low_s", "latency_ci_high_s",
    "baseline_latency_s", "speedup", "speedup_ci_low", "speedup_ci_high", "mde", "first_call_s",
    "baseline_first_call_s", "break_even_calls", "peak_bytes", "setup_peak_bytes",
    "weights_bytes", "input_bytes",
)  # fmt: skip


def recommend(
    table: pd.DataFrame, calls: float | None = None, memory_limit_bytes: int | None = None
) -> tuple[Recommendation, ...]:
    """The answer to each Question of a derived table, in the order of its sections.

    Only rows count that ended ok, are known to have been in effect and right, had more than a smoke
    budget, a baseline that was right and in effect, and an interval. Flags about times do not
    disqualify (rounds of random order keep the ratio) and are told.

    A mode is chosen where its interval lies above 1 + MARGIN, and above what the baseline reads
    against itself where that excludes 1. Modes that are within MARGIN of the best as far as their
    intervals say are tied; of those the cheapest is chosen: by first call, memory, simplicity.
    `calls` weighs the first call against as many further ones (`gains.gain`), and what is not known
    to fit into `memory_limit_bytes` is left out.
    """
    wishes = Wishes(calls, memory_limit_bytes)
    return tuple(
        _answer(asked, _baseline(section, asked[0]), wishes)
        for section in row_parts(words.as_rows(table[list(_COLUMNS)]), SECTION)
        for asked in row_parts(section, ASKED)
    )


def _baseline(section: Sequence[Row], asked: Row) -> Row | None:
    """The run of the baseline itself, best one that counts and had the same cache."""
    named = (asked["baseline_mode"], asked["baseline_dtype"])
    found = [
        row for row in section if row["status"] == "ok" and (row["mode"], row["dtype"]) == named
    ]

    def doubts(row: Row) -> tuple[bool, ...]:
        return (
            not words.is_control(row), refusal(row, ANYTHING) is not None,
            row["compile_cache"] != asked["compile_cache"],
        )  # fmt: skip

    return min(found, key=doubts, default=None)


def _answer(rows: Sequence[Row], baseline: Row | None, wishes: Wishes) -> Recommendation:
    question = Question(**{field.name: rows[0][field.name] for field in fields(Question)})
    options, refused = _options(rows, baseline, wishes)
    answer = choosing.chosen(question, options, refused, baseline, wishes)
    accepted = next(filter(None, map(words.baseline_accepted, rows)), "")
    answer = replace(answer, baseline_accepted=accepted)
    headline, remarks = sentences.together([answer]), sentences.remarks(answer)
    return replace(answer, headline=headline, remarks=remarks)


def _options(
    rows: Sequence[Row], baseline: Row | None, wishes: Wishes
) -> tuple[list[Option], list[Refusal]]:
    """The rows that may be chosen beside the baseline, and why the others may not."""
    options, refused = [], []
    for row in rows:
        if words.is_control(row):
            continue
        if why := refusal(row, wishes):
            refused.append(Refusal(row["run_id"], words.mode(row), *why))
        elif found := gain(row, wishes.calls, _first_call_s(row, baseline)):
            options.append(Option(row, found))
        else:
            why = (
                "first_call_unknown",
                "how long the first call takes, or the baseline's, is not known",
            )
            refused.append(Refusal(row["run_id"], words.mode(row), *why))
    return options, refused


def _first_call_s(row: Row, baseline: Row | None) -> float | None:
    """The baseline's first call: beside this row, or else in its own run.

    One that compiles is not read beside a case, which leaves it a warm cache.
    """
    beside: float | None = row["baseline_first_call_s"]
    return beside if beside is not None or baseline is None else baseline["first_call_s"]
