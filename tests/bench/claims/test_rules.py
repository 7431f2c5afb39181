"""Every claim: what the page says of it is there, and its rule decides both ways."""

from __future__ import annotations

import re
from functools import cache, partial
from types import ModuleType
from typing import Any

import pytest

from bench.claims import measuring
from bench.claims.chapters import strided_kernels
from bench.claims.claim import ANSWERS, HOLDS, REFUTED, UNDECIDED, WITHIN_LIMITS
from bench.claims.needs import TOOLS, lacking
from bench.claims.table import CHAPTERS, CLAIMS, DOCUMENTS, claims_in
from bench.devices import Cpu
from tests.bench.claims import (
    in_autocast,
    in_autograd,
    in_compile,
    in_custom_ops,
    in_dispatch,
    in_memory,
    in_views,
)
from tests.bench.claims.examples import World

# One line per chapter.
MADE_UP: tuple[ModuleType, ...] = (
    *(in_views, in_dispatch, in_autograd, in_autocast),
    *(in_compile, in_custom_ops, in_memory),
)

EXAMPLES = {id: by_answer for chapter in MADE_UP for id, by_answer in chapter.EXAMPLES.items()}
WORLDS: list[World] = [world for chapter in MADE_UP for world in chapter.WORLDS]
MOST_LINES = 10


pytestmark = pytest.mark.usefixtures("as_in_a_child", "one_thread")


def test_no_two_claims_share_an_id() -> None:
    assert sum(len(claims_in(chapter)) for chapter in CHAPTERS) == len(CLAIMS)


@pytest.mark.parametrize("id", CLAIMS)
def test_a_claim_says_all_that_the_page_shows(id: str) -> None:
    claim = CLAIMS[id]
    assert re.fullmatch(r"[a-z0-9-]+", claim.id)
    assert claim.statement
    assert not claim.statement.endswith(".")
    assert claim.source
    assert {source.partition(" ")[0] for source in claim.source} <= set(DOCUMENTS)
    assert claim.devices
    assert set(claim.tools) <= set(TOOLS)
    for text in (claim.measured, claim.rule):
        assert text[0].isupper() or text[0] in "`_"
        assert text.endswith(".")
    lines = claim.snippet.splitlines()
    assert 0 < len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= 100
    compile(claim.snippet, id, "exec")


@pytest.mark.parametrize("id", CLAIMS)
def test_a_rule_is_tried_both_ways(id: str) -> None:
    assert {HOLDS, REFUTED} <= set(EXAMPLES.get(id, ())), f"{id}: an example of each is wanted"


@pytest.mark.parametrize(
    ("id", "answer", "seen"),
    [
        (id, answer, seen)
        for id, by_answer in EXAMPLES.items()
        for answer, observations in by_answer.items()
        for seen in observations
    ],
)
def test_a_rule_decides_by_what_was_observed(id: str, answer: str, seen: Any) -> None:
    verdict = CLAIMS[id].decide(seen)
    assert verdict.answer == answer
    assert answer in ANSWERS
    assert verdict.because
    assert bool(verdict.limits) == (answer == WITHIN_LIMITS)
    assert bool(verdict.counter_example) == (answer == REFUTED)


@cache
def _answer_here(id: str) -> str:
    """As torch is, asked once for all worlds of a claim."""
    claim = CLAIMS[id]
    return claim.decide(claim.observe(Cpu())).answer


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: f"{world.claim}: {world.what}")
def test_a_verdict_turns_where_the_opposite_is_true(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = CLAIMS[world.claim]
    missing = lacking(claim, ["cpu"])
    if missing:
        pytest.skip(missing)
    assert _answer_here(claim.id) not in (world.answer, UNDECIDED)
    with monkeypatch.context() as patch:
        world.plant(patch)
        there = claim.decide(claim.observe(Cpu()))
    assert there.answer == world.answer


def test_every_experiment_for_a_gpu_also_runs_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """On small tensors of the CPU, where its figures mean nothing: that it is sound Python."""
    monkeypatch.setattr(strided_kernels, "SIDE", 16)
    monkeypatch.setattr(strided_kernels, "speedup", partial(measuring.speedup, timed_max_s=0.02))
    slower = CLAIMS["strided-kernel-slow"].observe(Cpu())
    assert set(slower.factors) == set(strided_kernels.PAIRS)
    assert all(factor.value > 0 for factor in slower.factors.values())
    raw = CLAIMS["empty-strided-cuda"].observe(Cpu())
    assert (raw.error, raw.refused, raw.where, raw.strides) == (None, False, "cpu", (2, 1))
