"""Every claim: what the page says of it is there, and its rule decides both ways."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, partial
from types import ModuleType
from typing import Any

import pytest

from modescope.bench.devices.devices import Cpu
from modescope.bench.tools.claims import lab, measuring
from modescope.bench.tools.claims.chapters.views import strided
from modescope.bench.tools.claims.needs import TOOLS, lacking
from modescope.bench.tools.claims.rules import Expected, limiting
from modescope.bench.tools.claims.table import CHAPTERS, CLAIMS, DOCUMENTS, claims_in
from modescope.bench.tools.claims.verdict import ANSWERS, HOLDS, REFUTED, UNDECIDED, WITHIN_LIMITS
from tests.helpers.claims import autocast, autograd, compiling, custom_ops, dispatch, memory, views
from tests.helpers.claims.examples import ANSWER_OF, World, as_expected, decide

# A chapter's examples are in a file of tests/helpers/claims; one file may have those of several.
MADE_UP: tuple[ModuleType, ...] = (
    *(views, dispatch, autograd, autocast),
    *(compiling, custom_ops, memory),
)

EXAMPLES = {id: {HOLDS: [{}]} for id in CLAIMS} | {
    id: by_answer for chapter in MADE_UP for id, by_answer in chapter.EXAMPLES.items()
}
WORLDS: dict[str, Sequence[World]] = {
    id: worlds for chapter in MADE_UP for id, worlds in chapter.WORLDS.items()
}
MOST_LINES = 10
WRONG = "something else"


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
    for each in claim.figures.values():
        if isinstance(each, Expected) and (callable(each.ok) or each.ok is False):
            assert each.words
        if isinstance(each, Expected) and each.step is limiting:
            assert each.words or each.ok is True
    assert claim.devices
    assert set(claim.tools) <= set(TOOLS)
    for text in (claim.measured, claim.rule):
        assert text[0].isupper() or text[0] in "`_"
        assert text.endswith(".")
    lines = claim.snippet.splitlines()
    assert 0 < len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= 100
    compile(claim.snippet, id, "exec")


def test_a_value_of_no_figure_is_refused() -> None:
    with pytest.raises(KeyError, match="permute-exercise has no figure stride, strips"):
        CLAIMS["permute-exercise"].made_up({"strips": 1, "stride": 2, "shape": (5, 3, 4)})


@pytest.mark.parametrize("id", CLAIMS)
def test_a_rule_is_tried_both_ways(id: str) -> None:
    """By an observation made up, or by a figure that is not as expected."""
    figures = CLAIMS[id].figures.values()
    by_figure = {ANSWER_OF.get(each.step) for each in figures if isinstance(each, Expected)}
    assert {HOLDS, REFUTED} <= {*EXAMPLES[id], *by_figure}, f"{id}: an example is wanted"


BY_FUNCTION = [
    (id, name, ANSWER_OF[each.step])
    for id, claim in CLAIMS.items()
    for name, each in claim.figures.items()
    if isinstance(each, Expected) and each.step in ANSWER_OF and callable(each.ok)
]


@pytest.mark.parametrize(("id", "name", "answer"), BY_FUNCTION)
def test_an_example_turns_each_function_among_the_figures(id: str, name: str, answer: str) -> None:
    """One in which this figure alone is not as it has to be."""
    base = {**as_expected(id), **EXAMPLES[id][HOLDS][0]}
    turned = [observed[name] for observed in EXAMPLES[id].get(answer, ()) if name in observed]
    answers = {decide(id, {**base, name: value}).answer for value in turned}
    assert answer in answers, f"{id}: an example with another value of {name} is wanted"


@pytest.mark.parametrize(
    ("id", "answer", "observed"),
    [
        (id, answer, observed)
        for id, by_answer in EXAMPLES.items()
        for answer, observations in by_answer.items()
        for observed in observations
    ],
)
def test_a_rule_decides_by_what_was_observed(id: str, answer: str, observed: Any) -> None:
    verdict = decide(id, observed)
    assert verdict.answer == answer
    assert answer in ANSWERS
    assert verdict.because
    assert bool(verdict.limits) == (answer == WITHIN_LIMITS)
    assert bool(verdict.counter_example) == (answer == REFUTED)


@pytest.mark.parametrize(("id", "name"), [(id, name) for id in CLAIMS for name in as_expected(id)])
def test_a_figure_that_is_not_as_expected_turns_the_verdict(id: str, name: str) -> None:
    base, expected = as_expected(id) | EXAMPLES[id][HOLDS][0], CLAIMS[id].figures[name]
    assert isinstance(expected, Expected)
    value = base[name]
    wrong = {**value, next(iter(value)): WRONG} if isinstance(value, dict) else WRONG
    verdict = decide(id, {**base, name: wrong})
    assert verdict.answer == ANSWER_OF[expected.step]
    assert WRONG in f"{verdict.because}{verdict.limits}{verdict.counter_example}"


@cache
def _answer_here(id: str) -> str:
    """As torch is, asked once for all worlds of a claim."""
    claim = CLAIMS[id]
    return claim.decide(claim.observe(Cpu())).answer


@pytest.mark.parametrize(
    ("id", "world"),
    [
        pytest.param(id, world, id=f"{id}: {world.what}")
        for id, worlds in WORLDS.items()
        for world in worlds
    ],
)
def test_a_verdict_turns_where_the_opposite_is_true(
    id: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = CLAIMS[id]
    missing = lacking(claim, ["cpu"])
    if missing:
        pytest.skip(missing)
    assert _answer_here(claim.id) not in (world.answer, UNDECIDED)
    with monkeypatch.context() as patch:
        world.plant(patch)
        there = claim.decide(claim.observe(Cpu()))
    assert there.answer == world.answer


def test_experiments_with_strides_on_a_gpu_also_run_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """On small tensors of the CPU, where their figures mean nothing: that they are sound Python."""
    monkeypatch.setattr(strided, "SIDE", 16)
    monkeypatch.setattr(lab, "speedup", partial(measuring.speedup, timed_max_s=0.02))
    slower = CLAIMS["strided-kernel-slow"].observe(Cpu())
    assert set(slower.factors) == set(strided.TRANSPOSED)
    assert all(factor.value > 0 for factor in slower.factors.values())
    raw = CLAIMS["empty-strided-cuda"].observe(Cpu())
    assert (raw.error, raw.refused, raw.where, raw.strides) == (None, False, "cpu", (2, 1))
