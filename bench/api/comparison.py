"""The result of `modescope.compare`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from modescope.analysis.causes import finding
from modescope.analysis.derive.registry import derive
from modescope.analysis.derive.select import SECTION, latest, ordered, row_parts
from modescope.analysis.format import phrases
from modescope.analysis.format.paragraphs import beneath, paragraph
from modescope.analysis.format.phrases import Row
from modescope.analysis.load import read
from modescope.analysis.recommend.decide import recommend
from modescope.analysis.recommend.merge_sizes import Advice, fold
from modescope.analysis.recommend.types import Recommendation
from modescope.analysis.why.command import paragraphs
from modescope.bench.api.listing import listing
from modescope.bench.text.tables import plain


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
        """What to use by precision, such as fp32 and bf16; without those where nothing is known.

        Where every mode in bf16 is slower than the baseline, that is the baseline, in fp32.
        """
        found = {one.question.dtype: _best(one) for one in reversed(self.answers)}
        return {dtype: best for dtype, best in found.items() if best}

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
        return f"no case could be measured; {phrases.variant(failed)}: {phrases.ended(failed)}"

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

    @property
    def place(self) -> str:
        """The study's folder, from the working folder if it is below that."""
        here = Path.cwd()
        below = self.study.is_relative_to(here)
        return str(self.study.relative_to(here) if below else self.study)

    def report(self) -> Path:
        """Writes the study's report, and returns its path."""
        from modescope.analysis.report.report import write

        return write(self.study)

    def __repr__(self) -> str:
        lines = paragraph(self.failure) if self.failure else []
        for one in () if self.failure else self.advice:
            lines += paragraph(one.text)
            lines += [line for remark in one.remarks for line in beneath(remark)]
        for rows in row_parts(self.rows, SECTION):
            shown = listing(rows)
            lines += ["", shown.title]
            lines += [plain(shown.headers, shown.measured)] if shown.measured else []
            lines += [line for one in shown.others for line in paragraph(": ".join(one))]
        return "\n".join([*lines, "", f"study: {self.place}"])

    def _repr_html_(self) -> str:
        from modescope.bench.api.comparison_page import html

        return html(self.frame, self.advice, self.failure, self.place)


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
