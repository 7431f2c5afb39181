"""What the parent makes of a child's answers about the host and about models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from modescope.bench.records.errors import UsageError
from modescope.bench.sweep import isolation, prepare
from modescope.bench.sweep.isolation import ChildOutcome, Ending, Task
from tests.helpers.commands import Ask
from tests.helpers.worlds import World

Asked = list[tuple[Any, ...]]
"""Questions: a device; or a model, its device, and what was tried."""


@pytest.fixture
def asked() -> Asked:
    return []


@pytest.fixture(autouse=True)
def answers(monkeypatch: pytest.MonkeyPatch, asked: Asked) -> Iterator[list[ChildOutcome[Any]]]:
    """The last of them answers questions about models; the host answers for itself."""
    world = World()
    found: list[ChildOutcome[Any]] = [ChildOutcome(Ending.RETURNED, ("source", {}))]

    def call(task: Task[Any], *arguments: Any, **options: Any) -> ChildOutcome[Any]:
        asked.append(arguments)
        if task.function.endswith("host:try_model"):
            return found[-1]
        return world.call(task, *arguments, **options)

    monkeypatch.setattr(isolation, "call", call)
    prepare._hosts.clear()
    yield found
    prepare._hosts.clear()


def test_the_host_has_one_child_and_each_model_one_for_all_its_shapes(
    ask_quickly: Ask, asked: Asked
) -> None:
    words = ("model=mlp,pointwise", "mode=eager,amp", "shape.scale=1,2", "device=auto")
    jobs = prepare.prepare(ask_quickly(*words))
    assert len(jobs) == 8
    assert {job.environment.model_source_id for job in jobs} == {"source"}
    host, *models = asked
    assert host == ("auto",)
    assert [(each.name, len(tried)) for each, _, tried, _ in models] == [
        ("mlp", 2),
        ("pointwise", 2),
    ]


def test_an_axis_that_changes_nothing_in_a_model_skips_its_cases(
    ask_quickly: Ask, answers: list[ChildOutcome[Any]]
) -> None:
    answers.append(ChildOutcome(Ending.RETURNED, ("source", {"layout": "no convolution"})))
    words = ("model=mlp", "mode.layout=contiguous,channels_last")
    jobs = prepare.prepare(ask_quickly("mode=eager", *words))
    assert [job.refusal for job in jobs] == [None, "no convolution"]


def test_a_mistake_counts_unless_another_machine_measures_its_case(
    ask_quickly: Ask, asked: Asked, answers: list[ChildOutcome[Any]]
) -> None:
    requests = ask_quickly("model=mlp", "mode=eager", "threads=1,99")
    with pytest.raises(UsageError, match="threads=99: this process may use 2 cores"):
        prepare.prepare(requests)
    of_one, of_other = prepare.prepare_each(requests, {0})
    assert (len(of_one), of_other) == (1, [])
    answers.append(ChildOutcome(Ending.USAGE, "source", "batch=2: too many"))
    with pytest.raises(UsageError, match="batch=2: too many"):
        prepare.prepare_each(requests, {0})


def test_a_model_that_crashes_while_it_is_built_is_left_to_its_cases_own_runs(
    ask_quickly: Ask, answers: list[ChildOutcome[Any]]
) -> None:
    answers.append(ChildOutcome(Ending.CRASHED))
    jobs = prepare.prepare(ask_quickly("model=mlp", "mode=eager", "shape.batch=1,2"))
    assert [(job.refusal, job.environment.model_source_id) for job in jobs] == [(None, None)] * 2
