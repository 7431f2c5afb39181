"""What `analysis.why` says of each situation, and whether it is right."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from modescope.analysis.causes import finding
from modescope.analysis.causes.types import Finding
from modescope.analysis.derive.registry import derived
from modescope.analysis.format import phrases
from modescope.analysis.format.phrases import Row
from modescope.analysis.where import select
from modescope.analysis.why.command import paragraphs
from modescope.bench.records.errors import UsageError
from tests.situations.table import Complaint, Measured, Other


@dataclass(frozen=True)
class Answer:
    """A situation, its row and the causes that are named."""

    situation: Measured
    row: Row
    causes: tuple[Finding, ...]
    fault: str | None  # None: it names what is there, and nothing else

    @property
    def codes(self) -> tuple[str, ...]:
        return tuple(one.code for one in self.causes)

    @property
    def first(self) -> str:
        """What `python -m analysis.why` says first."""
        return next(paragraphs(self.row, self.causes))


def answers(study: Path, situations: Iterable[Measured]) -> Iterator[Answer]:
    """Reads a study once. Raises UsageError where a situation has no row, or several."""
    rows = derived(study)
    causes = finding.of_table(rows)
    for situation in situations:
        matching = select(rows, situation.row)
        if len(matching) != 1:
            raise UsageError(
                f"{situation.title}: {len(matching)} rows of {study} match "
                f"{situation.row}, and it needs one; measure it with --measure"
            )
        (row,) = phrases.as_rows(matching)
        found = causes[row["run_id"]]
        yield Answer(situation, row, found, fault(situation, found))


def fault(situation: Measured, found: tuple[Finding, ...]) -> str | None:
    """What is wrong with these causes, in one clause; None if nothing is."""
    if isinstance(situation, Complaint):
        return _not_first(situation, found)
    assert isinstance(situation, Other)
    untrue = [one.code for one in found if one.code not in situation.true]
    return f"names {', '.join(untrue)}, which is not there" if untrue else None


def _not_first(complaint: Complaint, found: tuple[Finding, ...]) -> str | None:
    expected = " or ".join(complaint.first)
    if not found:
        return f"names no cause instead of {expected}"
    if found[0].code not in complaint.first:
        return f"names {found[0].code} first, not {expected}"
    sentence = found[0].text.removesuffix(found[0].remedy)
    if not re.search(complaint.says, sentence):
        return f"its first sentence does not say {complaint.says}"
    return None
