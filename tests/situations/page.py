"""What `analysis.why` says of each situation, whether it is right, and the list of docs/why.md."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from modescope.analysis.causes import finding
from modescope.analysis.causes.types import Finding
from modescope.analysis.format import cells, phrases
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import as_rows
from modescope.analysis.where import select
from modescope.analysis.why import paragraphs
from modescope.bench.records.errors import UsageError
from modescope.bench.text import prose
from tests.helpers.derivations import table_of
from tests.helpers.paths import ROOT
from tests.situations.table import ELSEWHERE, Complaint, Measured, Other

PATH = ROOT / "docs" / "why.md"
FIRST = "## What is said of known complaints"
"""The heading from which on the page is generated."""


@dataclass(frozen=True)
class Answer:
    """A situation, its row and the causes that are named."""

    situation: Measured
    row: Row
    causes: tuple[Finding, ...]
    fault: str | None  # None: it names what is there, and nothing else

    @property
    def first(self) -> str:
        """What `python -m analysis.why` says first."""
        return next(paragraphs(self.row, self.causes))


def answers(study: Path, situations: Iterable[Measured]) -> Iterator[Answer]:
    """Reads a study once. Raises UsageError where a situation has no row, or several."""
    rows = table_of(study)
    causes = finding.findings_by_run(rows)
    for situation in situations:
        matching = select(rows, situation.row)
        if len(matching) != 1:
            raise UsageError(
                f"{situation.title}: {len(matching)} rows of {study} match "
                f"{situation.row}, and it needs one; measure it with --measure"
            )
        (row,) = as_rows(matching)
        found = causes[row["run_id"]]
        yield Answer(situation, row, found, _fault(situation, found))


def _fault(situation: Measured, found: tuple[Finding, ...]) -> str | None:
    """What is wrong with these causes, in one clause; None if nothing is."""
    codes = [one.code for one in found]
    if isinstance(situation, Other):
        untrue = [code for code in codes if code not in situation.true]
        return f"names {', '.join(untrue)}, which is not there" if untrue else None
    assert isinstance(situation, Complaint)
    if not found or codes[0] not in situation.first:
        return f"names {', '.join(codes) or 'no cause'}, not {' or '.join(situation.first)} first"
    sentence = found[0].text.removesuffix(found[0].remedy)
    is_said = re.search(situation.says, sentence)
    return None if is_said else f"its first sentence does not say {situation.says}"


def generated(study: Path, answers: Sequence[Answer]) -> str:
    """The part of the page from `FIRST` on."""
    complaints = [one for one in answers if isinstance(one.situation, Complaint)]
    others = [one for one in answers if isinstance(one.situation, Other)]
    first: dict[int, Answer] = {}
    for one in complaints:
        assert isinstance(one.situation, Complaint)
        first.setdefault(one.situation.number, one)
    rows = table_of(study)
    lines = [
        f"{FIRST}\n",
        f"{_right(complaints)} name the cause first, with figures. Measured on {_machine(rows)}\n",
        f"Of the other cases {_right(others)} name no cause that is not there.\n",
        *(line for one in first.values() for line in _block(one)),
    ]
    return "\n".join(lines).rstrip("\n") + "\n"


def _right(answers: Sequence[Answer]) -> str:
    return f"{sum(one.fault is None for one in answers)} of {len(answers)} rows"


def _machine(rows: pd.DataFrame) -> str:
    """`AMD EPYC, AVX2, no bf16 instructions, ..., torch 2.13.0, 2026-11-24.`"""
    row = as_rows(rows)[0]
    place = phrases.place({**row, "threads": 1}, letter=False)
    days = sorted({str(one)[:10] for one in rows["started_at"]})
    versions = f"torch {row['torch_version']}, Python {row['python_version']}"
    busy = sum("contended" in predicates.flags(one) for one in as_rows(rows))
    beside = f"beside other programs in {busy} of {len(rows)} rows"
    return f"{place}, unless a row says otherwise; {versions}; {' and '.join(days)}; {beside}."


def _block(answer: Answer) -> Iterator[str]:
    """A complaint, and what is said first of its row."""
    one, row = answer.situation, answer.row
    assert isinstance(one, Complaint)
    yield f"**{one.number} · {prose(one.title)}** ({prose(one.thread)})"
    yield from (f"Wrong: it {prose(answer.fault)}.",) if answer.fault else ()
    where = f" · {phrases.place(row, letter=False)}" if one in ELSEWHERE else ""
    made_up = "" if one.sweep else " · a row made up as a GPU would record it"
    yield f"\n```text\n{phrases.variant(row)} · {cells.outcome(row)}{where}{made_up}"
    yield textwrap.fill(answer.first, 120, break_long_words=False, break_on_hyphens=False)
    yield "```\n"
