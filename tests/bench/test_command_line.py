"""What the arguments of run.py collect, and the one line that refuses them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from modescope.bench.command_line import collect
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
        return str(refused.value)

    return message


@pytest.fixture
def theirs(tmp_path: Path) -> Callable[[str], list[str]]:
    """Arguments for an experiment of the user's own."""

    def arguments(content: str) -> list[str]:
        file = tmp_path / "theirs" / "experiment" / "own.yaml"
        file.parent.mkdir(parents=True)
        file.write_text(f"# @package _global_\n{content}\n")
        return [f"--config-dir={tmp_path / 'theirs'}", "experiment=own"]

    return arguments


# As with every application of Hydra


@pytest.mark.parametrize(
    ("arguments", "modes"),
    [
        (["mode=amp"], ["amp"]),
        (["-m", "mode=eager,amp"], ["eager", "amp"]),
        (["-m", "mode=choice(eager,amp)"], ["eager", "amp"]),
        (["-m", "mode=glob(*graph)"], ["compile-cuda-graph", "cuda-graph"]),
    ],
)
def test_cases_are_collected(ask: Ask, arguments: list[str], modes: list[str]) -> None:
    asked = ask(*arguments)
    assert [each.settings.mode.name for each in asked] == modes
    assert {each.sweep for each in asked} == {"-m" in arguments}


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["--help"], "max-autotune"),
        (["--cfg", "job"], "threads: 1"),
    ],
)
def test_what_hydra_prints_is_no_case(
    arguments: list[str], shown: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert collect(arguments) == []
    assert shown in capfd.readouterr().out


def test_the_shell_is_offered_options(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COMP_LINE", "python run.py mode=no")
    assert collect(["-sc", "query=bash"]) == []
    assert capfd.readouterr().out.split() == ["mode=no_grad"]


def test_the_process_is_as_before(ask: Ask) -> None:
    before = dict(os.environ)
    with pytest.raises(UsageError):
        ask("mode=foo")
    assert dict(os.environ) == before
    assert len(sys.argv) == 1


# Refused, each in one line


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        (["-m", "mode=eager,complie"], "mode=complie: "),
        (["experiment=mods"], "experiment=mods: no such option; allowed: activations, "),
        (["thread=2"], "thread=2: "),
        (["~study"], "hydra.run.dir: "),
        (["mode=[eager"], "mode=[eager: "),
        (["mode=eager,amp"], "mode=eager,amp: "),
        (["-m", "dtype=[fp32,bf16]"], "dtype: "),
        (["mode=eager", "mode=amp"], "mode=amp: "),
        (["-m", "mode=eager", "++mode=amp"], "++mode=amp: "),
        (["-m", "experiment=modes,fusion"], "experiment=modes,fusion: "),
        (["-m", "order=random,given"], "order: "),
        (["-m", "seed=range(0)"], "no case"),
        (["-m", "hydra/launcher=joblib"], "hydra/launcher=joblib: "),
        (["cluster=slurm", "cluster.partitoin=x"], "cluster.partitoin=x: "),
        (["~train"], "train: "),
    ],
    ids=str,
)
def test_a_mistake_is_one_line_that_names_the_setting(
    refusal: Refusal, arguments: list[str], culprit: str
) -> None:
    assert refusal(*arguments).startswith(culprit)


@pytest.mark.parametrize(
    ("content", "culprit"),
    [
        ("defaults: [override /mode: [eager, compile]]", "mode: "),
        ("hydra: {sweeper: {params: {order: 'random,given'}}}", "order: "),
    ],
)
def test_a_mistake_in_a_file_is_refused(
    refusal: Refusal, theirs: Callable[[str], list[str]], content: str, culprit: str
) -> None:
    assert refusal("-m", *theirs(content)).startswith(culprit)


def test_a_traceback_can_be_asked_for(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    with pytest.raises(Exception, match="Could not find 'mode/foo'") as raised:
        ask("mode=foo")
    assert not isinstance(raised.value, UsageError)


@pytest.mark.parametrize("group", ["phase", *(
    pytest.param(each, marks=pytest.mark.full)
    for each in ("model", "mode", "mode/bf16", "dtype", "shape", "budget")
)])  # fmt: skip
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
