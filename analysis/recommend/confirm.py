"""Whether a second process confirms an answer, and which answers still need one.

Intervals hold within a process. An answer that would switch to a mode that compiles or captures
therefore rests on two processes of that mode and of the next best one (`bench.sweep.confirming`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from modescope.analysis.recommend import types
from modescope.analysis.recommend.types import Choice, Recommendation, high, low

APART = 0.03
"""Two processes contradict each other if they differ by more, and their intervals do not overlap.
Paired speedups of the same code differ between processes by 0.4 % as a rule."""


def unconfirmed(answers: Iterable[Recommendation], run_ids: Collection[str]) -> list[str]:
    """Those of these runs that a second process has to measure before one is recommended."""
    return [
        each.run_id
        for answer in answers
        for each in _pair(answer)
        if each.again is None and each.processes == 1 and each.run_id in run_ids
    ]


def confirmed(answer: Recommendation) -> Recommendation:
    """The answer; undecided if the two processes of a mode contradict each other."""
    for each in _pair(answer):
        is_rival = each is answer.rival
        if _contradicts_itself(each) and not (is_rival and _stays_behind(each, answer.choice)):
            return replace(answer, outcome=types.BETWEEN, choice=None, tied=(), disputed=each)
    return answer


def _pair(answer: Recommendation) -> list[Choice]:
    """The mode that is recommended and the next best, where the first compiles or captures."""
    choice = answer.choice
    if answer.outcome != types.MODE or choice is None or not choice.compiles:
        return []
    return [choice, *([answer.rival] if answer.rival else [])]


def _contradicts_itself(mode: Choice) -> bool:
    if mode.again is None or mode.processes > 1:  # several processes say more than one other
        return False
    slower, faster = sorted((mode.speedup, mode.again), key=lambda one: one.value)
    return faster.value > slower.value * (1 + APART) and low(faster) > high(slower)


def _stays_behind(rival: Choice, choice: Choice | None) -> bool:
    """Whether even the better process of the next best mode does not reach the recommended one."""
    assert choice is not None
    assert rival.again is not None
    return high(rival.again) < low(choice.speedup)
