"""The page: every claim with all that belongs to it."""

from __future__ import annotations

import pytest

from modescope.bench.tools.claims import page
from modescope.bench.tools.claims.check import CLAIMS, NumberRow
from modescope.bench.tools.claims.claim import REFUTED, UNDECIDED
from tests.helpers.claim_rows import row

NUMBERS = [
    NumberRow("view-contiguous", "a | refusal", None, None, None, "size < stride"),
    NumberRow("permute-exercise", "offset", 0.0, None, None, "0"),
]
ROWS = [
    row(
        verdict=REFUTED,
        because="`x.T` was accepted",
        counter_example="x.T.view(<shape>) is a view",
        limits=("none_of_it",),
    ),
    row(
        claim="permute-exercise",
        verdict=UNDECIDED,
        because="no GPU",
        printed=None,
        status="crashed",
        reason="it broke",
    ),
]
TEXT = page.page(["a CPU", "`python -m bench.claims`"], ROWS, NUMBERS)


@pytest.mark.parametrize(
    "part",
    [
        "0 hold, 0 within limits, 1 are refuted, 1 undecided here",
        "- permute-exercise: crashed, it broke",
        "\n| claim | verdict | statement | what this machine says |\n|---|---|---|---|\n"
        "| [view-contiguous](#view-contiguous) | refuted | `.view` can",
        "**Refuted**: `x.T` was accepted",
        "- counter-example: x.T.view(&lt;shape&gt;) is a view",
        "- limit: none_of_it",
        f"- measured: {CLAIMS['view-contiguous'].method}",
        "- source: 000 .view",
        "- 000: PyTorch memory allocation during tensor shape manipulation (2026-03-18)",
        r"| a \| refusal | size &lt; stride |",
        f"```python\n{CLAIMS['view-contiguous'].snippet}\n```",
        "It printed:\n\n```\nTrue\n```",
        "It was not run here.",
        "- `python -m bench.claims`",
    ],
)
def test_the_page_shows_it(part: str) -> None:
    assert part in TEXT


def test_each_claim_has_its_own_numbers() -> None:
    sections = TEXT.split("\n## ")
    assert ["offset" in section for section in sections] == [False, False, True, False]
