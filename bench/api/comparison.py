"""The result of `modescope.compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from modescope.analysis.causes import finding
from modescope.analysis.format import cells, phrases
from modescope.analysis.format.columns import MODE, NAMING, PEAK, SPEEDUP, VERDICT, Column, wanted
from modescope.analysis.format.paragraphs import beneath, paragraph
from modescope.analysis.format.phrases import Row
from modescope.analysis.load.study import read
from modescope.analysis.metrics.registry import derive
from modescope.analysis.recommend.decide import recommend
from modescope.analysis.recommend.merge_sizes import Advice, fold
from modescope.analysis.recommend.types import Recommendation
from modescope.analysis.rows.select import SECTION, latest, ordered, row_parts
from modescope.analysis.why.command import paragraphs
from modescope.bench.text.tables import plain

COLUMNS = (
    SPEEDUP,
    VERDICT,
    Column("latency [95 %]", cells.latency, key="latency_s"),
    PEAK,
    Column("remarks", cells.remarks, optional=True),
)
"""Columns beside the mode's name and precision."""


@dataclass(frozen=True)
class Best:
    """The mode to use at one precision. Fields are named as columns of a study."""

    mode: str
    dtype: str
    speedup: float  # over the baseline
    speedup_ci_low: float | None
    speedup_ci_high: float | None
    latency_s: float
    peak_bytes: float | None
    text: str  # the recommendation in a sentence

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, repr=False, eq=False)
class Comparison:
    """What was measured, and which mode to use.

    `frame`: a row per mode and precision, with the columns of results/README.md, fastest first.
    `messages`: what the sweep said, such as how many rows were reused.
    """

    study: Path
    frame: pd.DataFrame
    answers: tuple[Recommendation, ...]  # one for each precision, the baseline's first
    messages: tuple[str, ...]

    @property
    def best(self) -> Best | None:
        """The mode to use at the baseline's precision; None if none is known (see `verdict`).

        Where several sizes were measured, of the first one.
        """
        return _best(self.answers[0]) if self.answers else None

    @property
    def bests(self) -> dict[str, Best]:
        """The modes to use by precision, such as fp32 and bf16; without those that have none."""
        found = [best for best in map(_best, self.answers) if best]
        return {best.dtype: best for best in reversed(found)}

    @property
    def verdict(self) -> str:
        """Which mode to use and why, in a sentence for each precision; or why nothing is known."""
        if failed := self.failure:
            return failed
        return "\n".join(one.text for one in self.advice)

    @property
    def advice(self) -> tuple[Advice, ...]:
        """The sentences of `verdict`, each with further remarks."""
        return fold(self.answers)

    @property
    def failure(self) -> str | None:
        """What is wrong if not a single case could be measured; None if one could."""
        wrong = [row for row in self.rows if row["status"] != "ok"]
        if len(wrong) < len(self.rows) or not wrong:
            return None
        failed = next((row for row in wrong if row["status"] != "skipped"), wrong[0])
        every = "the only case" if len(wrong) == 1 else f"all {len(wrong)} cases"
        return f"nothing was measured: {every} failed; {phrases.variant(failed)} {_ended(failed)}"

    @property
    def why(self) -> dict[str, str]:
        """By mode and precision, such as `compile fp32`: why it is as fast as it is."""
        found = finding.of_table(self.frame)
        several = len(row_parts(self.rows, SECTION)) > 1
        return {
            f"{phrases.work(row)}: {phrases.variant(row)}" if several else phrases.variant(row):
            "\n".join(paragraphs(row, found.get(row["run_id"], ())))
            for row in self.rows
        }  # fmt: skip

    @property
    def rows(self) -> list[Row]:
        """The rows of `frame` as mappings; unknown values are None."""
        return phrases.as_rows(self.frame)

    def report(self) -> Path:
        """Writes the study's report, and returns its path."""
        from modescope.analysis.report.report import write

        return write(self.study)

    def __repr__(self) -> str:
        lines = paragraph(self.failure) if self.failure else []
        for one in () if self.failure else self.advice:
            lines += paragraph(one.text)
            lines += [line for remark in one.remarks for line in beneath(remark)]
        for section in row_parts(self.rows, SECTION):
            headers, measured, others = table(section)
            lines += ["", heading(section[0])]
            lines += [plain(headers, measured)] if measured else []
            lines += [line for name, end in others for line in paragraph(f"{name}: {end}")]
        return "\n".join([*lines, "", f"study: {self.study}"])

    def _repr_html_(self) -> str:
        from modescope.bench.api.comparison_page import html

        return html(self)


def comparison(study: Path, run_ids: Sequence[str], messages: Sequence[str]) -> Comparison:
    """These runs of a study, as `modescope.compare` returns them."""
    frame = ordered(derive(latest(read(study).table, among=run_ids)))
    return Comparison(study, frame, _ranked(recommend(frame)), tuple(messages))


def _ranked(answers: Sequence[Recommendation]) -> tuple[Recommendation, ...]:
    def other_precision(one: Recommendation) -> bool:
        return one.question.dtype != one.question.baseline_dtype

    return tuple(sorted(answers, key=other_precision))


def _best(answer: Recommendation) -> Best | None:
    chosen = answer.choice
    if chosen is None:
        return None
    return Best(
        mode=chosen.mode,
        dtype=chosen.dtype,
        speedup=chosen.speedup.value,
        speedup_ci_low=chosen.speedup.low,
        speedup_ci_high=chosen.speedup.high,
        latency_s=chosen.latency.value,
        peak_bytes=chosen.peak_bytes,
        text=fold([answer])[0].text,
    )


def heading(row: Row) -> str:
    """`Net, inference · Intel Xeon, AVX512, 1 thread · against eager fp32`."""
    place = phrases.place(row, letter=False)
    return f"{phrases.work(row)} · {place} · against {phrases.baseline(row)}"


def table(
    section: Sequence[Row],
) -> tuple[list[str], list[list[str]], list[tuple[str, str]]]:
    """Headers and rows of what was measured, and for each other case its name and its reason."""
    measured = [row for row in section if row["status"] == "ok"]
    several = len({row["dtype"] for row in measured}) > 1
    columns = [*(NAMING if several else (MODE,)), *wanted(COLUMNS, measured)]
    lines = [[column.cell(row) for column in columns] for row in measured]
    others = [(phrases.variant(row), _ended(row)) for row in section if row not in measured]
    return [column.title for column in columns], lines, others


def _ended(row: Mapping[str, object]) -> str:
    return phrases.ended(row)
