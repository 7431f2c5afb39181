"""Formats the answers to claims: as a page in Markdown, and as lines for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from modescope.bench.records.outcomes import Status
from modescope.bench.text import markdown, prose
from modescope.bench.tools.claims.check import CLAIMS, ClaimRow, NumberRow
from modescope.bench.tools.claims.claim import HOLDS, REFUTED, UNDECIDED, WITHIN_LIMITS

NAMES = {HOLDS: "holds", WITHIN_LIMITS: "within limits", REFUTED: "refuted", UNDECIDED: "undecided"}

DOCUMENTS = {
    "000": "PyTorch memory allocation during tensor shape manipulation (2026-03-18)",
    "001": "Is it safe to create new gpu tensor during cuda graph capturing?",
    "002": "PyTorch Internals",
    "003": "PyTorch Internals: A Deep Dive Reference",
    "004": "Why can't I use the CUDA backend for 'aten::empty_strided'? (2025-01-30)",
}
"""The title of each document, by its key in a claim's `source`."""


def page(heading: Sequence[str], rows: Sequence[ClaimRow], numbers: Sequence[NumberRow]) -> str:
    """Returns the page in Markdown: a table of all claims, then a section for each."""
    table = ["| claim | verdict | statement | what this machine says |", "|---|---|---|---|"]
    for row in rows:
        named, statement = f"[{row.claim}](#{row.claim})", prose(row.statement)
        table.append(f"| {named} | {NAMES[row.verdict]} | {statement} | {prose(row.because)} |")
    parts = [
        "# The textbook, tested on this machine",
        f"**{summary(rows)}.** The statements are those of documents that explain how PyTorch "
        "executes a step; a verdict follows from what was observed in this run alone. An ordinary "
        "case that contradicts a statement refutes it; what contradicts it elsewhere is a limit. "
        "In brackets: the 95 % interval of a median over rounds.",
        "\n".join([f"- {line}" for line in [*heading, *map(prose, failures(rows))]]),
        "\n".join(table),
    ]
    for row in rows:
        parts += _section(row, [number for number in numbers if number.claim == row.claim])
    documents = [f"- {key}: {title}" for key, title in DOCUMENTS.items()]
    return "\n\n".join([*parts, "## Documents", "\n".join(documents)]) + "\n"


def _section(row: ClaimRow, numbers: Sequence[NumberRow]) -> Iterator[str]:
    claim = CLAIMS[row.claim]
    yield f"## {row.claim}"
    yield prose(row.statement)
    yield f"**{NAMES[row.verdict].capitalize()}**: {prose(row.because)}"
    facts = [
        ("counter-example", row.counter_example),
        *(("limit", limit) for limit in row.limits),
        ("measured", claim.method),
        ("source", claim.source),
        ("needs", claim.needs),
        ("tested on", row.tested_on),
    ]
    yield "\n".join(f"- {name}: {prose(text)}" for name, text in facts if text)
    if numbers:
        yield markdown(
            ("number", "observed"), [(number.label, number.written) for number in numbers]
        )
    yield f"To see it, in Python started where modescope lies:\n\n```python\n{claim.snippet}\n```"
    if row.printed is None:
        yield "It was not run here."
    else:
        yield f"It printed:\n\n```\n{row.printed.rstrip()}\n```"


def summary(rows: Sequence[ClaimRow]) -> str:
    """Counts the verdicts: `Of 44 statements 7 hold, 17 within limits, 9 are refuted, ...`."""
    counts = Counter(row.verdict for row in rows)
    decided = f"{counts[HOLDS]} hold, {counts[WITHIN_LIMITS]} within limits"
    others = f"{counts[REFUTED]} are refuted, {counts[UNDECIDED]} undecided here"
    return f"Of {len(rows)} statements {decided}, {others}"


def failures(rows: Sequence[ClaimRow]) -> list[str]:
    """Returns a line for each claim whose function or snippet failed."""
    failed = [row for row in rows if row.status not in (Status.OK, Status.SKIPPED)]
    return [f"{row.claim}: {row.status}, {row.reason}" for row in failed]


def line(row: ClaimRow) -> str:
    """Returns a row as lines for a terminal: verdict, claim and reason, then limits."""
    text = f"{NAMES[row.verdict]:13}  {row.claim}: {row.because}"
    more = [*row.limits, *filter(None, [row.counter_example])]
    return "\n".join([text, *(f"{'':15}{added}" for added in more)])
