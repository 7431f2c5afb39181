"""What the arguments of run.py collect, and the one line that refuses them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from modescope.bench import command_line
from modescope.bench.records.cases import Case
from modescope.bench.records.errors import UsageError
from modescope.bench.refusals import refusal as why_refused
from modescope.bench.resolve import Request, resolve
from tests.helpers import composing
from tests.helpers.commands import Ask
from tests.helpers.made_up_records import CPU, H100
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
        (["experiment=bits", "model=a:b"], "experiment=bits: it sets shape.width, which"),
        (
            ["experiment=bits", "model=a:b", "+shape.width=1"],
            "experiment=bits: it sets shape.width",
        ),
        (["~study"], "hydra.run.dir: "),
        (["experiment=modes", "~study"], "hydra.sweep.dir: "),
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
        (["-m", "mode=eager,", "compile"], "mode=eager,: a list has no spaces: mode=eager,compile"),
        (
            ["-m", "mode=eager", ",amp", "seed=1"],
            "mode=eager: a list has no spaces: mode=eager,amp",
        ),
        (["--mode", "compile", "model=mlp"], "--mode: settings have no dashes: mode=compile"),
        (["--shape.batch=8"], "--shape.batch=8: settings have no dashes: shape.batch=8"),
        (["--dry-run", "model=mlp"], "--dry-run: settings have no dashes: dry_run=true"),
        (["shape.batch=-1"], "shape.batch=-1: must be "),
        (
            ["study=Übung 1"],
            "study=Übung 1: cannot be read; text with spaces or signs is in quotes: "
            "'study=\"Übung 1\"'",
        ),
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
        ("mode=bf16", "no_grad", "dtype=bf16, or mode=bf16/inference_mode"),
        ("mode=fp8-dynamic", "no_grad", "mode=compile mode.quantize=fp8-dynamic"),
        ("mode=padded", "no_grad", "mode=padded/compile-static"),
        ("mode=bf16/complie", "no_grad", "mode=bf16/compile"),
        ("dtype=compile", "fp16", "mode=compile"),
        ("model=net.build", "mlp", "model=net:build"),
        ("model=near_net", "mlp", "model=near_net:FUNCTION"),
        ("model=near.net", "mlp", "model=near.net:FUNCTION"),
        ("model=near/net.py", "mlp", "model=near.net:FUNCTION"),
        ("model=gpt2", "mlp", "model=transformers model.name=gpt2"),
        ("model=resnet50", "mlp", "model=torchvision model.name=resnet50"),
        ("model=vit_tiny_patch16_224", "mlp", "model=timm model.name=vit_tiny_patch16_224"),
        ("model=unet", "mlp", "model=diffusers model.name=unet"),
        ("mode=inference", "amp", "mode=inference_mode, or phase=inference"),
        ("phase=training", "train", "phase=train, or experiment=training"),
        ("dtype=float16", "fp16", "fp16"),
        ("dtype=float32", "fp16", "fp32"),
        ("dtype=bfloat16", "fp16", "bf16"),
        ("dtype=half", "fp16", "fp16"),
        ("baseline.dtype=half", "fp16", "fp16"),
        ("heads=4", "shape.batch", ""),
        ("shape.seq=4", "shape.batch", ""),
        ("batch=8", "", "shape.batch=8"),
        ("lr=0.1", "", "train.lr=0.1"),
        ("mode.fullgraph=false", "mode.compile", "model.fullgraph"),
        ("model.dtype=bf16", "model.name", "dtype"),
        ("mode/bf16=compile", "", "mode=bf16/compile"),
    ],
)
def test_a_mistake_names_what_is_allowed_and_what_was_meant(
    refusal: Refusal, argument: str, allowed: str, meant: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "near").mkdir()
    for file in ("near/net.py", "near_net.py"):
        (tmp_path / file).touch()
    message = refusal(argument)
    assert allowed in message.partition("; allowed: ")[2].partition(";")[0].split(", ")
    assert message.partition("; did you mean ")[2] == (f"{meant}?" if meant else "")


def test_sizes_of_a_models_own_may_be_added(refusal: Refusal) -> None:
    assert "+shape.heads=4?" in refusal("model=net:build", "heads=4")


def test_a_function_in_place_of_a_model_is_that_of_a_custom_one(ask: Ask) -> None:
    for swept in ("my.net:build", "my.net:build,my.net:other"):
        short = ask("-m", f"model={swept}", "mode=eager")
        long = ask("-m", "model=custom", f"model.target={swept}", "mode=eager")
        assert [request.settings.model for request in short] == [
            request.settings.model for request in long
        ]
        assert [request.overrides[1:] for request in short] == [
            request.overrides[1:] for request in long
        ]


def test_a_function_beside_other_models_is_refused(refusal: Refusal) -> None:
    assert refusal("-m", "model=mlp,my.net:build").endswith(
        "model=custom model.target=my.net:build?"
    )


def test_without_settings_the_default_case_is_named(
    in_run_py: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (request,) = command_line.collect([])
    (line,) = capsys.readouterr().out.splitlines()
    asked = request.settings
    assert f"model={asked.model.name} mode={asked.mode.name} against {asked.baseline.mode};" in line


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


# The prepared sweeps of conf/experiment


def cases(requests: list[Request]) -> list[Case]:
    """The cases of a command, each once."""
    found = [resolve(each, lambda name: CPU)[0] for each in requests]
    return list({case.case_id: case for case in reversed(found)}.values())[::-1]


def weights_in_bf16(cases: list[Case]) -> list[str]:
    """The modes of these cases whose weights, not only operators, are in bf16."""
    chosen = (case.variant for case in cases if case.variant.dtype == "bf16")
    return [each.mode.name for each in chosen if not each.mode.autocast]


def test_modes_also_measures_bf16_against_eager_in_fp32_and_tf32_linked_to_it(
    ask_quickly: Ask,
) -> None:
    modes = OmegaConf.load(CONF / "experiment" / "modes.yaml").hydra.sweeper.params.mode
    found = cases(ask_quickly("model=pointwise", f"mode={modes}"))
    bf16 = ["eager", "inference_mode", "compile"]
    bf16 += ["reduce-overhead", "cuda-graph", "compile-cuda-graph"]
    assert weights_in_bf16(found) == bf16
    tf32 = [case for case in found if case.variant.dtype == "tf32"]
    assert [case.variant.mode.name for case in tf32] == bf16  # the same modes
    baselines = {(case.baseline.mode.name, case.baseline.dtype) for case in found}
    assert baselines == {("eager", "fp32"), ("eager", "tf32")}
    linked = [case.variant.mode.name for case in tf32 if case.baseline.dtype == "fp32"]
    assert linked == ["eager"]
    assert all(why_refused(case, H100) is None for case in tf32)
    assert len(found) == 11 + len(bf16) + len(tf32)
    assert all(OmegaConf.load(each).hydra.mode == "MULTIRUN" for each in CONF.glob("experiment/*"))


@pytest.mark.parametrize(
    ("arguments", "count", "bf16"),
    [
        (["mode=bf16/eager,eager"], 2, ["eager"]),
        (["dtype=fp32", "mode=eager,bf16/eager,compile,bf16/compile"], 2, []),
        (["phase=train", "mode=bf16/compile"], 1, ["compile"]),
        (["dtype=fp32", "mode=eager,tf32/eager,compile,tf32/compile"], 2, []),
    ],
)
def test_typed_settings_count_for_all_modes(
    ask_quickly: Ask, arguments: list[str], count: int, bf16: list[str]
) -> None:
    found = cases(ask_quickly("model=pointwise", *arguments))
    assert len(found) == count
    assert weights_in_bf16(found) == bf16


def test_an_experiment_that_is_no_sweep_by_itself_needs_m(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "own.yaml").write_text(
        "# @package _global_\nhydra: {sweeper: {params: {mode: 'eager,amp'}}}\n"
    )
    own = [f"--config-dir={tmp_path}", "experiment=own"]
    assert [each.settings.mode.name for each in ask("-m", *own)] == ["eager", "amp"]
    with pytest.raises(UsageError, match=r"^experiment=own: .*add -m"):
        ask(*own)


@pytest.mark.parametrize(
    ("cores", "quota", "expected"),
    [
        (6, None, [1, 2, 4, 6]),
        (64, 2.5, [1, 2]),
        (64, 0.5, [1]),
    ],
)
def test_thread_counts_are_powers_of_two_and_the_cores_of_this_machine(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, cores: int, quota: float | None, expected: list[int]
) -> None:
    monkeypatch.setattr(command_line, "usable_cores", lambda: cores)
    monkeypatch.setattr(command_line, "quota_cores", lambda: quota)
    asked = ask("experiment=threads", "model=mlp", "mode=eager")
    assert [each.settings.threads for each in asked] == expected
