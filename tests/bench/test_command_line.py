"""What the arguments of run.py collect, and the one line that refuses them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from modescope.bench.records.errors import UsageError
from tests.helpers import composing
from tests.helpers.commands import Ask
from tests.helpers.paths import CONF

Refusal = Callable[..., str]


@pytest.fixture
def refusal(ask: Ask) -> Refusal:
    """The message of the refusal, which is one line."""

    def message(*arguments: str) -> str:
        with pytest.raises(UsageError) as refused:
            ask(*arguments)
        assert "\n" not in str(refused.value)
        assert len(sys.argv) == 1  # as before
        return str(refused.value)

    return message


@pytest.mark.parametrize(
    ("arguments", "modes"),
    [
        (["mode=amp"], ["amp"]),
        (["-m", "mode=choice(eager,amp)"], ["eager", "amp"]),
        (["-m", "mode=glob(*graph)"], ["compile-cuda-graph", "cuda-graph"]),
    ],
)
def test_cases_are_collected(ask: Ask, arguments: list[str], modes: list[str]) -> None:
    asked = ask(*arguments)
    assert [each.settings.mode.name for each in asked] == modes
    assert {each.sweep for each in asked} == {"-m" in arguments}


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        (["-m", "mode=eager,complie"], "mode=complie: "),
        (["experiment=mods"], "experiment=mods: no such option; allowed: activations, "),
        (["~study"], "hydra.run.dir: "),
        (["mode=eager,amp"], "mode=eager,amp: "),
        (["-m", "mode=eager", "++mode=amp"], "++mode=amp: "),
        (["-m", "experiment=modes,fusion"], "experiment=modes,fusion: "),
        (["-m", "hydra/launcher=joblib"], "hydra/launcher=joblib: "),
        (["-m", "order=random,given"], "order: "),
        (["~train"], "train: "),
        (["seed=99999999999"], "seed=99999999999: "),
        (["mode.name=foo"], "mode.name=foo: "),
        (["budget.rank=7"], "budget.rank=7: "),
        (["cluster=slurm", "cluster.workers=0"], "cluster.workers=0: "),
        (["cluster=slurm", "cluster.timeout_min=soon"], "cluster.timeout_min=soon: "),
        (["shape.batch=${x}"], "Interpolation key 'x'"),
        (["shape.heads=1"], "shape.heads=1: no such key; allowed: "),
        (
            ["model=custom", "shape.heads=1"],
            "shape.heads=1: no such key yet, and +shape.heads adds it; ",
        ),
    ],
    ids=str,
)
def test_a_mistake_is_one_line_that_names_the_setting(
    refusal: Refusal, arguments: list[str], culprit: str
) -> None:
    assert refusal(*arguments).startswith(culprit)


@pytest.mark.parametrize("study", ["../x", "'../x'", "..", "a,../x"])
def test_a_refused_study_leaves_no_folder(refusal: Refusal, study: str, tmp_path: Path) -> None:
    assert refusal("-m", f"results_dir={tmp_path}/results", f"study={study}").startswith("study=")
    assert list(tmp_path.iterdir()) == []


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


@pytest.mark.parametrize(
    "group",
    ["phase", *(pytest.param(each, marks=pytest.mark.full) for each in ("model", "mode/bf16"))],
)
def test_tests_compose_what_hydra_composes(ask: Ask, group: str) -> None:
    key, _, folder = group.partition("/")
    options = sorted(file.stem for file in (CONF / group).glob("*.yaml"))
    swept = f"{key}={','.join(f'{folder}/{option}' if folder else option for option in options)}"
    words = ["mode=inference_mode", "shape.batch=2", "train.lr=0.1", "phase=train"]
    own = ["model.target=net:build"] if group == "model" else []  # of `custom`
    words = [*own, *(word for word in words if not word.startswith(f"{key}=")), swept]
    words = [word for word in words if group != "phase" or not word.startswith("train.")]
    asked, composed = ask("-m", *words), composing.requests(["results_dir=r", *words])
    assert len(asked) == len(options)
    for theirs, ours in zip(asked, composed, strict=True):
        assert replace(theirs.settings, results_dir="r") == ours.settings
        assert (theirs.baseline, theirs.sweep) == (ours.baseline, ours.sweep)
