"""From a command line to its case."""

from __future__ import annotations

import json
import pickle
import shlex
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from modescope.bench.modes import axes
from modescope.bench.records.cases import Case, Kernels, Mode, Model, Training
from modescope.bench.records.environment import DeviceFacts
from modescope.bench.records.errors import UsageError
from modescope.bench.resolve import resolve
from modescope.bench.settings import TrainSettings
from modescope.bench.sweep.prepare import prepare
from tests.helpers.commands import Ask
from tests.helpers.made_up_records import CPU, H100
from tests.helpers.paths import CONF


def read_yaml(file: Path) -> Any:
    return OmegaConf.to_container(OmegaConf.load(file))


def laptop(name: str) -> DeviceFacts:
    assert name in ("auto", "cpu")
    return CPU


def server(name: str) -> DeviceFacts:
    return CPU if name == "cpu" else H100


@pytest.fixture
def case(ask_quickly: Ask) -> Callable[..., Case]:
    def resolved(*arguments: str, describe: Any = laptop) -> Case:
        return resolve(ask_quickly(*arguments)[0], describe)[0]

    return resolved


Resolve = Callable[..., Case]


def test_every_preset_resolves_to_its_file(case: Resolve) -> None:
    for file in CONF.glob("mode/*.yaml"):
        given = read_yaml(file)
        grad = given["grad"] if given["grad"] != "natural" else "inference_mode"
        further = tuple((name, given.pop(name)) for name in axes.settings() if name in given)
        expected = Mode(**{**given, "grad": grad}, axes=further)
        assert case(f"mode={file.stem}").variant.mode == expected


def test_a_request_goes_to_another_process_as_it_is(ask_quickly: Ask) -> None:
    """Further axes make the class of a mode's settings as the file is read."""
    (request,) = ask_quickly("mode=compile")
    assert pickle.loads(pickle.dumps(request)) == request


@pytest.mark.parametrize(
    ("arguments", "dtype", "baseline"),
    [
        (["mode=compile", "dtype=bf16"], "bf16", "eager bf16"),
        (["mode=amp"], "bf16", "eager fp32"),
        (["mode=amp", "mode.autocast=false"], "fp32", "eager fp32"),
        (["mode=amp", "baseline.dtype=bf16"], "bf16", "eager bf16"),
        (["mode=amp-compile", "dtype=fp16", "baseline.mode=amp"], "fp16", "amp fp16"),
        (["mode=eager", "baseline.mode=none"], "fp32", None),
    ],
)
def test_dtypes_follow_the_mode_and_the_default_baseline_is_eager(
    case: Resolve, arguments: list[str], dtype: str, baseline: str | None
) -> None:
    found = case(*arguments)
    assert found.variant.dtype == dtype
    against = found.baseline
    assert (against and f"{against.mode.name} {against.dtype}") == baseline


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["mode=compile", "mode.grad=inference_mode", "mode.dynamic=null"], "compile"),
        (["mode=eager", "mode.grad=natural"], "eager[grad=inference_mode]"),
        (
            ["mode=compile", "mode.dynamic=false", "mode.graph=true"],
            "compile[graph=true,dynamic=false]",
        ),
    ],
)
def test_the_name_lists_the_changed_axes(case: Resolve, arguments: list[str], name: str) -> None:
    assert case(*arguments).variant.mode.name == name


def test_equal_axes_under_other_names_have_equal_ids(case: Resolve) -> None:
    changed = case("mode=eager", "mode.grad=no_grad")
    assert changed.baseline.mode.grad == "enabled"  # overrides are of the case alone
    assert changed.case_id == case("mode=no_grad").case_id


@pytest.mark.parametrize(
    ("device", "describe", "found"),
    [
        ("auto", laptop, "cpu"),
        ("auto", server, "cuda"),
        ("cpu", server, "cpu"),
        ("cuda:1", server, "cuda:1"),
    ],
)
def test_sizes_depend_on_the_device_and_can_be_overridden(
    case: Resolve, device: str, describe: Any, found: str
) -> None:
    sizes = read_yaml(CONF / "model" / "mlp.yaml")["model"]["sizes"]["large"]
    words = ("model=mlp", "shape=large", f"device={device}")
    asked = case(*words, 'shape.batch="7"', "shape.depth=null", describe=describe)
    assert asked.device == found
    assert asked.shape == {**sizes[found.partition(":")[0]], "batch": 7}
    assert asked == case(*words, "shape.scale=7", describe=describe)


def test_a_model_resolves_to_its_target(case: Resolve) -> None:
    assert case("model=mlp").model == Model("mlp", "modescope.models.mlp:build")
    assert case(
        "model=custom",
        "model.target=net.tiny:build",
        "+model.kwargs={width: 4, act: gelu, deep: {a: 1}}",
        "model.fullgraph=false",
        "model.batch_dim=1",
    ).model == Model(
        "custom:net.tiny:build",
        "net.tiny:build",
        args_json='{"act":"gelu","deep":{"a":1},"width":4}',
        fullgraph=False,
        batch_dim=1,
    )
    assert case("model=timm", "model.name=net_v2.tiny").model == Model(
        "timm:net_v2.tiny",
        "modescope.models.libraries.of_timm:build",
        architecture="net_v2.tiny",
    )
    assert case("model=fused", "model.op=rope").model == Model(
        "fused:rope",
        "modescope.models.fused:build",
        architecture="rope",
        kernels=tuple(
            Kernels(name, f"modescope.models.fused:build_{name}") for name in ("cpp", "triton")
        ),
    )


CUSTOM = ("model=custom", "model.target=net:build")


def test_a_custom_model_has_no_sizes_unless_they_are_set(case: Resolve) -> None:
    assert case(*CUSTOM).shape == {}
    assert case(*CUSTOM, "shape.seq=2", "+shape.heads=4").shape == {"seq": 2, "heads": 4}


def test_described_inputs_belong_to_the_model(case: Resolve) -> None:
    sized = (*CUSTOM, "shape.seq=2")
    asked = case(*sized, "+model.inputs.x=[seq,4]", "+model.inputs.mask=null")
    assert json.loads(asked.model.inputs_json) == {"x": ["seq", 4], "mask": None}
    assert asked == case(*sized, "model.inputs={x: [seq, 4], mask: null}")
    assert asked.case_id != case(*sized).case_id


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        ([*CUSTOM, "model.inputs={x: [seq, batch]}", "shape.seq=2"], "model.inputs: "),
        ([*CUSTOM, "model.inputs=5"], "model.inputs=5: "),
        ([*CUSTOM, "+shape.heads=[2]"], "shape.heads=[2]: "),
        ([*CUSTOM, "shape=small"], "shape=small: "),
        ([*CUSTOM, "+shape.scale=2"], "shape.scale=2: "),
        ([*CUSTOM, "model.loss=huber"], "model.loss=huber: "),
        ([*CUSTOM, "model.pickle=Net.0123"], "model.pickle=Net.0123: "),
        ([*CUSTOM, "model.op=rope"], "model.op=rope: "),
        (["model=fused", "model.op=ropes"], "model.op=ropes: "),
        (["model=custom", "model.target=net.py:build"], "model.target=net.py:build: "),
        (
            ["model=custom", "model.target=./pkg/net.py:build"],
            "model.target=./pkg/net.py:build: no name of a function; did you mean pkg.net:build?",
        ),
        (
            ["model=custom", "model.target=pkg.net.build"],
            "model.target=pkg.net.build: no name of a function; did you mean pkg.net:build?",
        ),
        (
            ["model=custom", "model.target=net.py"],
            "model.target=net.py: no name of a function; name a function as ",
        ),
        (["model=custom"], "model=custom has no target"),
        (["model=mlp", "model.target=net:build"], "model.target=net:build: "),
        (["model=mlp", "shape.scale=2", "shape.batch=2"], "shape.scale and shape.batch "),
        (["model=mlp", "shape.scale=0"], "shape.scale=0: "),
        (["model=mlp", "+model.kwargs={width: 8}"], "model.kwargs.width: shape.width sets it"),
        (["model=mlp", "+shape.heads=4"], "shape.heads=4: no size of model=mlp; allowed: batch, "),
    ],
)
def test_wrong_models_inputs_and_sizes_are_refused_in_one_line(
    case: Resolve, arguments: list[str], culprit: str
) -> None:
    with pytest.raises(UsageError) as refused:
        case(*arguments)
    assert str(refused.value).startswith(culprit)
    assert "\n" not in str(refused.value)


MODE = "{name: %s, grad: %s, autocast: %s, compile: %s, graph: false, dynamic: %s}\n"


@pytest.fixture
def their_conf(tmp_path: Path) -> Path:
    """A folder of configurations of the user's."""
    own = tmp_path / "conf"
    for folder, name, content in (
        ("model", "mine", "{name: mine, target: 'net:Net', inputs: {x: [batch, 4]}}\n"),
        ("mode", "sizes", MODE % ("sizes", "natural", "false", "default", "true")),
        ("mode", "like_amp", "defaults: [amp]\nname: like_amp\ndynamic: null\n"),
    ):
        (own / folder).mkdir(exist_ok=True, parents=True)
        (own / folder / f"{name}.yaml").write_text(content)
    return own


def test_a_model_of_a_users_configuration_is_custom(case: Resolve, their_conf: Path) -> None:
    """So its source is compared before an earlier row is reused."""
    asked = case("model=mine", "--config-dir", str(their_conf), "+shape.batch=2")
    assert (asked.model.name, asked.shape) == ("custom:net:Net", {"batch": 2})
    assert asked.model.inputs_json == '{"x":["batch",4]}'


def test_modes_of_a_users_configuration_resolve_and_may_inherit_another(
    case: Resolve, their_conf: Path
) -> None:
    theirs = f"--config-dir={their_conf}"
    dynamic = case(theirs, "mode=sizes", "baseline.mode=sizes")
    assert (
        dynamic.variant.mode
        == dynamic.baseline.mode
        == Mode("sizes", "inference_mode", compile="default", dynamic=True)
    )
    unset = case(theirs, "mode=sizes", "mode.dynamic=null")
    assert unset.variant.mode.name == "sizes[dynamic=null]"
    assert unset.case_id == case("mode=compile").case_id
    inherits = case(theirs, "mode=like_amp")
    assert inherits.variant.mode.name == "like_amp"
    assert inherits.case_id == case("mode=amp").case_id
    with pytest.raises(UsageError, match=r"autocast|grad"):
        case(theirs, "baseline.mode=like_amp")


def test_the_plan_has_the_settings_of_the_command_which_no_case_has(
    case: Resolve, ask_quickly: Ask
) -> None:
    words = ("budget=quick", "budget.max_rounds=30", "seed=3", "timeout_s=5", "study=mine",
             "profile=false", "trace_max_mb=0.5", "max_error=0.05")  # fmt: skip
    made = resolve(ask_quickly(*words)[0], laptop)[1]
    quick = read_yaml(CONF / "budget" / "quick.yaml")
    changed = {"name": "quick[max_rounds=30]", "max_rounds": 30, "slow_half_width": None}
    assert vars(made.budget) == {**quick, **changed}
    assert (made.seed, made.timeout_s, made.study, made.compile_cache) == (3, 5.0, "mine", "cold")
    assert made.study_folder == Path(made.results_dir) / "mine"
    assert (made.profile, made.memory, made.max_error) == (False, True, 0.05)
    assert (made.trace_max_bytes, made.traces_max_bytes) == (500_000, 200_000_000)
    assert case(*words).case_id == case().case_id


@pytest.mark.parametrize(
    ("words", "compiled", "cache"),
    [
        (("mode=compile", "compile_cache=aot"), "aot", "aot"),
        (("mode=compile", "compile_cache=aot", "starts=1"), "aot", "aot"),
        (("mode=amp-compile", "compile_cache=aot"), "aot", "aot"),
        (("mode=compile", "compile_cache=shipped"), "default", "shipped"),
        (("mode=reduce-overhead", "compile_cache=precompiled"), "reduce-overhead", "precompiled"),
        # what does not compile in its process has no cache of the compiler
        (("mode=eager", "compile_cache=aot"), "none", "cold"),
        (("mode=eager", "compile_cache=warm", "starts=1"), "none", "cold"),
        (("mode=aoti", "compile_cache=shipped", "starts=1"), "aoti", "cold"),
        (("mode=aoti", "compile_cache=aot"), "aoti", "cold"),
        (("mode=eager", "compile_cache=warm"), "none", "warm"),
    ],
)
def test_a_cache_may_stand_for_a_backend_and_is_none_of_what_does_not_compile(
    ask_quickly: Ask, words: tuple[str, ...], compiled: str, cache: str
) -> None:
    made, plan = resolve(ask_quickly(*words)[0], laptop)
    assert (made.variant.mode.compile, plan.compile_cache) == (compiled, cache)
    assert plan.starts == int("starts=1" in words)
    assert made.baseline.mode.compile == "none"


@pytest.mark.parametrize(
    "mode",
    [
        "mode=reduce-overhead",
        "mode=max-autotune",
        "mode=freezing",
        "mode=regional",
        "mode=compile mode.backend=openvino",
    ],
)
def test_only_what_torch_compile_makes_of_a_whole_model_is_saved(
    ask_quickly: Ask, mode: str
) -> None:
    asked = ask_quickly(*mode.split(), "compile_cache=aot")[0]
    with pytest.raises(UsageError) as refused:
        resolve(asked, laptop)
    text = str(refused.value)
    assert text.startswith("compile_cache=aot: ")
    assert text.endswith("use mode=compile")
    assert "\n" not in text


def test_starts_are_asked_for_once(ask_quickly: Ask) -> None:
    (asked,) = ask_quickly("mode=compile", "starts=3", "replicates=2")
    with pytest.raises(UsageError, match=r"^replicates=2 with starts=3: ") as refused:
        resolve(asked, laptop)
    assert "\n" not in str(refused.value)


def test_options_of_training_count_for_the_id_unless_they_are_at_their_default(
    case: Resolve,
) -> None:
    """Natural gradients are then enabled."""
    usual = case("phase=train", "mode=compile")
    assert (usual.options, usual.variant.mode.grad) == (Training(), "enabled")
    asked = case("phase=train", "train.scaler=false", "model.loss=my_pkg.losses:hinge")
    assert asked.options == Training(scaler=False, loss="my_pkg.losses:hinge")
    same = case("phase=train", "train.lr=0.001", "train.optimizer=sgd")
    assert len({usual.case_id, same.case_id, asked.case_id, case("mode.grad=enabled").case_id}) == 3
    ours = {each.name: each.default for each in fields(Training) if each.name != "loss"}
    assert {each.name: each.default for each in fields(TrainSettings)} == ours
    with pytest.raises(UsageError, match=r"^train\.optimizer=adamw: .*phase=train"):
        case("train.optimizer=adamw")


@pytest.mark.parametrize(
    ("arguments", "resume"), [([], False), (["resume=true"], True), (["-m", "resume=false"], False)]
)
def test_a_sweep_resumes_and_a_single_case_does_not(
    ask: Ask, arguments: list[str], resume: bool
) -> None:
    assert ask(*arguments)[0].resume is resume


MODULE = """
import torch

def build(width=2, name="x", options=None):
    return torch.nn.Linear(width, width), (torch.ones(1, width),)
"""
THEIR_NET = ("model=custom", "model.target=their_net:build")
LSTM = ("model=custom", "model.target=torch.nn:LSTM", "shape.batch=2",
        "+model.kwargs={input_size: 3, hidden_size: 5}")  # fmt: skip

COMMANDS = [
    ["mode=sizes", "--config-dir=own conf", "mode.autocast=true", "shape.batch=3"],
    ["study='naïve → & \"two\" words; $HOME'", "++resume=true"],
    [r"study='it\'s mine'", "mode=eager", "results_dir='a folder'"],
    ["-m", "study='a b'", "mode=choice(eager,amp)", "shape.batch=range(1,3)"],
    ["experiment=modes", "model=pointwise", "mode=bf16/eager,amp"],
    ["-m", "experiment=training", "model=mlp", "mode=eager,amp", "train.checkpoint=none,model"],
    [*THEIR_NET, "+model.kwargs={width: 4, name: 'a, b', options: {c: [1, 2.5, null, true]}}"],
    [*THEIR_NET, r"+model.kwargs={name: '\'$x; \"'}", "-m", "mode=eager,amp"],
    [*LSTM, "model.inputs={input: {size: [4, batch, 3], low: -1.5, high: 2}, hx: null}"],
]


@pytest.mark.full
@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_copied_command_measures_the_same(
    ask: Ask, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    their_conf: Path,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)  # one of them names its results by a relative path
    their_conf.rename("own conf")
    (tmp_path / "their_net.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    for job in prepare(ask(*arguments)):
        program, name, *rest = shlex.split(job.command)
        assert (program, name) == ("modescope", "run")
        assert not any(word.lstrip("+").startswith(("experiment", "resume", "-m")) for word in rest)
        (again,) = prepare(ask(*rest))
        assert again.case == job.case
        alone = replace(job.plan.budget, slow_half_width=None)  # what a sweep measures less of
        assert again.plan == replace(job.plan, budget=alone)
