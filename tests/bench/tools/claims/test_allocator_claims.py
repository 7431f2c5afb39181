"""The experiments on the caching allocator with a pretended one, as torch's is or otherwise."""

from __future__ import annotations

import pytest

from modescope.bench.tools.claims.table import CLAIMS
from modescope.bench.tools.claims.verdict import HOLDS, REFUTED, UNDECIDED, WITHIN_LIMITS
from tests.helpers.claims.pretended_memory import MIB, Rules, pretend

pytestmark = pytest.mark.usefixtures("as_in_a_child")

AS_TORCH = Rules()


@pytest.mark.parametrize(
    ("id", "answer", "rules"),
    [
        ("cache-rounding", WITHIN_LIMITS, AS_TORCH),
        ("cache-rounding", HOLDS, Rules(large_step=2 * MIB)),
        ("cache-rounding", REFUTED, Rules(small_step=256)),
        ("free-keeps", HOLDS, AS_TORCH),
        ("free-keeps", REFUTED, Rules(caches=False)),
        ("free-keeps", REFUTED, Rules(empties=False)),
        ("stream-reuse", WITHIN_LIMITS, AS_TORCH),
        ("stream-reuse", HOLDS, Rules(idle_streams_share=True)),
        ("stream-reuse", REFUTED, Rules(streams_share=True)),
        ("stream-reuse", REFUTED, Rules(waits_for_events=False)),
        ("stream-reuse", UNDECIDED, Rules(caches=False)),
        ("fragmentation", WITHIN_LIMITS, AS_TORCH),
        ("fragmentation", REFUTED, Rules(compacts=True)),
        ("fragmentation", UNDECIDED, Rules(expands=False)),
    ],
)
def test_a_verdict_follows_the_allocator(
    id: str, answer: str, rules: Rules, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = CLAIMS[id]
    observed = claim.observe(pretend(rules, monkeypatch))
    assert claim.decide(observed).answer == answer, observed
