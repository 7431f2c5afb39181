"""What the parent makes of a child's answers about models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from modescope.bench.records.errors import UsageError
from modescope.bench.sweep import isolation, prepare
from modescope.bench.sweep.isolation import Outcome
from tests.helpers.commands import Ask
from tests.helpers.worlds import World

Asked = list[tuple[Any, ...]]


@pytest.fixture
def asked() -> Asked:
    """Questions about models: model, device, and what was tried."""
    return []


@pytest.fixture(autouse=True)
def answers(monkeypatch: pytest.MonkeyPatch, asked: Asked) -> Iterator[list[Outcome]]:
    """The last of them answers questions about models; the host answers for itself."""
    found, world = [Outcome("returned", ("source", {}))], World()

    def call(function: str, *arguments: Any, **options: Any) -> Outcome:
        if not function.endswith("host:try_model"):
            return world.call(function, *arguments, **options)
        asked.append(arguments)
        return found[-1]

    monkeypatch.setattr(isolation, "call", call)
    prepare._hosts.clear()
    yield found
    prepare._hosts.clear()


def test_each_model_has_one_child_for_all_its_shapes(ask_quickly: Ask, asked: Asked) -> None:
    jobs = prepare.prepare(ask_quickly("model=mlp,pointwise", "mode=eager,amp", "shape.scale=1,2"))
    assert len(jobs) == 8
    assert [(model.name, len(tried)) for model, _, tried in asked] == [("mlp", 2), ("pointwise", 2)]
    assert {job.environment.model_source_id for job in jobs} == {"source"}


def test_a_mistake_belongs_to_its_shape(ask_quickly: Ask, answers: list[Outcome]) -> None:
    requests = ask_quickly("model=mlp", "mode=eager", "shape.batch=1,2")
    answers.append(Outcome("returned", ("source", {1: "batch=2: too many"})))
    first, second = prepare.prepare_each(requests)
    assert not isinstance(first, UsageError)
    assert str(second) == "batch=2: too many"
    with pytest.raises(UsageError, match="batch=2: too many"):
        prepare.prepare(requests)


def test_a_model_that_cannot_be_built_is_left_to_its_own_run(
    ask_quickly: Ask, answers: list[Outcome]
) -> None:
    answers.append(Outcome("crashed", None, "the process ended by SIGSEGV"))
    (job,) = prepare.prepare(ask_quickly("model=mlp", "mode=eager"))
    assert (job.refusal, job.environment.model_source_id) == (None, None)


def test_after_a_crash_each_shape_has_a_child_of_its_own(
    ask_quickly: Ask, asked: Asked, answers: list[Outcome]
) -> None:
    answers.append(Outcome("timeout"))
    prepare.prepare(ask_quickly("model=mlp", "mode=eager", "shape.batch=1,2"))
    assert [len(tried) for _, _, tried in asked] == [2, 1, 1]


def test_the_host_is_read_once(ask_quickly: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    usual = isolation.call

    def call(function: str, *arguments: Any, **options: Any) -> Outcome:
        read.extend(arguments if function.endswith("host:read") else ())
        return usual(function, *arguments, **options)

    monkeypatch.setattr(isolation, "call", call)
    prepare.prepare(ask_quickly("model=mlp", "mode=eager,no_grad", "device=auto"))
    assert read == ["auto"]
