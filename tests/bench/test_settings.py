"""Types, choices and bounds of settings, and the line that refuses a wrong one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from modescope.bench.records.errors import UsageError
from tests.helpers.commands import Ask

Refusal = Callable[..., str]


@pytest.fixture
def refusal(ask_quickly: Ask) -> Refusal:
    """The message of the refusal, which is one line."""

    def message(*arguments: str) -> str:
        with pytest.raises(UsageError) as refused:
            ask_quickly(*arguments)
        assert "\n" not in str(refused.value)
        return str(refused.value)

    return message


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        (["mode.compil=none"], "mode.compil=none: "),
        (["threads=0"], "threads=0: "),
        (["seed=99999999999"], "seed=99999999999: "),
        (["mode.name=foo"], "mode.name=foo: "),
        (["budget.rank=7"], "budget.rank=7: "),
        (["cluster=slurm", "cluster.workers=many"], "cluster.workers=many: "),
        (["shape.batch=${x}"], "Interpolation key 'x'"),
        (["study=.."], "study=..: "),
        (["shape.heads=1"], "shape.heads=1: no such key yet, and +shape.heads adds it; "),
    ],
    ids=str,
)
def test_a_wrong_value_is_one_line_that_names_the_setting(
    refusal: Refusal, arguments: list[str], culprit: str
) -> None:
    assert refusal(*arguments).startswith(culprit)


@pytest.mark.parametrize(
    ("argument", "allowed", "meant"),
    [
        ("mode=complie", "no_grad", "compile"),
        ("mode.compile=max_autotune", "reduce-overhead", "max-autotune"),
        ("train.optimiser=sgd", "train.lr", "train.optimizer"),
    ],
)
def test_a_mistake_names_what_is_allowed_and_what_was_meant(
    refusal: Refusal, argument: str, allowed: str, meant: str
) -> None:
    message = refusal(argument)
    assert allowed in message.partition("; allowed: ")[2].partition(";")[0].split(", ")
    assert message.endswith(f"; did you mean {meant}?")
