"""Types, choices and bounds of settings, and the line that refuses a wrong one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

import pytest

from modescope.bench.records.errors import UsageError
from modescope.bench.settings import LIMITS, SCHEMAS
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
        (["+nokey=1"], "nokey: "),
        (["mode.compil=none"], "mode.compil=none: "),
        (["shape.bach=8"], "shape.bach=8: "),
        (["threads=1.5"], "threads=1.5: "),
        (["profile=maybe"], "profile=maybe: "),
        (["memory=null"], "memory=null: "),
        (["seed=[0,1]"], "seed=[0,1]: "),
        (["threads=0"], "threads=0: "),
        (["seed=99999999999"], "seed=99999999999: "),
        (["timeout_s=nan"], "timeout_s=nan: "),
        (["max_error=0"], "max_error=0.0: "),
        (["mode.grad=maybe"], "mode.grad=maybe: "),
        (["mode.name=foo"], "mode.name=foo: "),
        (["baseline.mode=foo"], "baseline.mode=foo: "),
        (["baseline.dtype=fp8"], "baseline.dtype=fp8: "),
        (["budget.rank=7"], "budget.rank=7: "),
        (["train.optimizer=adam"], "train.optimizer=adam: "),
        (["train.activation_memory_budget=1.5"], "train.activation_memory_budget=1.5: "),
        (["study=a/b"], "study=a/b: "),
        (["cluster=slurm", "cluster.workers=many"], "cluster.workers=many: "),
        (["shape.batch=${x}"], "Interpolation key 'x'"),
        (["trace_max_mb=-1"], "trace_max_mb=-1.0: "),
        (["budget.max_rounds=0"], "budget.max_rounds=0: "),
        (["train.lr=nan"], "train.lr=nan: "),
        (["compile_cache=tepid"], "compile_cache=tepid: "),
        (["study=.."], "study=..: "),
        (["baseline=eager"], "baseline=eager: "),
        (["model.kwargs={a: 1}"], "model.kwargs.a: "),
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
        ("thread=2", "threads", "threads"),
        ("batch=8", "study", "shape.batch"),
        ("lr=0.1", "train", "train.lr"),
        ("mode.autocst=true", "mode.grad", "mode.autocast"),
        ("mode.compile=max_autotune", "reduce-overhead", "max-autotune"),
        ("train.optimizer=adam", "sgd", "adamw"),
    ],
)
def test_a_mistake_names_what_is_allowed_and_what_was_meant(
    refusal: Refusal, argument: str, allowed: str, meant: str
) -> None:
    message = refusal(argument)
    assert allowed in message.partition("; allowed: ")[2].partition(";")[0].split(", ")
    assert message.endswith(f"; did you mean {meant}?")


def test_every_limit_is_of_a_setting() -> None:
    for key in LIMITS:
        section, _, name = key.rpartition(".")
        assert name in {each.name for each in fields(SCHEMAS[section])}
