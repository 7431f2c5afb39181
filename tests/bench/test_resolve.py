"""From a command line to its case."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from modescope.bench.records.cases import Case, CompileOptions, Mode, Model, Plan
from modescope.bench.records.environment import DeviceFacts
from modescope.bench.records.errors import UsageError
from modescope.bench.resolve import OURS, Request, resolve
from modescope.bench.sweep.prepare import prepare
from tests.helpers.commands import last_of_each
from tests.helpers.made_up_records import CPU, H100
from tests.helpers.paths import CONF

Ask = Callable[..., list[Request]]


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


@pytest.fixture
def plan(ask_quickly: Ask) -> Callable[..., Plan]:
    return lambda *arguments: resolve(ask_quickly(*arguments)[0], laptop)[1]


Resolve = Callable[..., Case]


@pytest.mark.parametrize("file", sorted(CONF.glob("mode/*.yaml")), ids=lambda file: file.stem)
def test_every_preset_resolves_to_its_file(case: Resolve, file: Path) -> None:
    axes = read_yaml(file)
    mode = case(f"mode={file.stem}").variant.mode
    assert mode.name == axes["name"] == file.stem
    assert (mode.autocast, mode.compile, mode.graph) == (
        axes["autocast"],
        axes["compile"],
        axes["graph"],
    )
    assert mode.grad == (axes["grad"] if axes["grad"] != "natural" else "inference_mode")


@pytest.mark.parametrize(
    ("arguments", "dtype"),
    [
        (["mode=eager"], "fp32"),
        (["mode=compile"], "fp32"),
        (["mode=amp"], "bf16"),
        (["mode=amp-compile"], "bf16"),
        (["mode=eager", "mode.autocast=true"], "bf16"),
        (["mode=amp", "mode.autocast=false"], "fp32"),
        (["mode=amp", "dtype=fp16"], "fp16"),
        (["mode=eager", "dtype=bf16"], "bf16"),
    ],
)
def test_dtype_auto_follows_the_mode(case: Resolve, arguments: list[str], dtype: str) -> None:
    assert case(*arguments).variant.dtype == dtype


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["mode=compile"], "compile"),
        (["mode=compile", "mode.autocast=true"], "compile[autocast=true]"),
        (["mode=compile", "mode.autocast=false"], "compile"),
        (["mode=compile", "mode.grad=inference_mode"], "compile"),
        (["mode=compile", "mode.grad=no_grad"], "compile[grad=no_grad]"),
        (["mode=eager", "mode.grad=natural"], "eager[grad=inference_mode]"),
        (["mode=inference_mode", "mode.grad=natural"], "inference_mode"),
        (["mode=eager", "mode.compile=max-autotune"], "eager[compile=max-autotune]"),
        (["mode=compile", "mode.dynamic=true"], "compile[dynamic=true]"),
        (["mode=compile", "mode.dynamic=null"], "compile"),
        (
            ["mode=compile", "mode.dynamic=false", "mode.graph=true"],
            "compile[graph=true,dynamic=false]",
        ),
        (
            ["mode=eager", "mode.graph=true", "mode.autocast=true", "mode.grad=no_grad"],
            "eager[grad=no_grad,autocast=true,graph=true]",
        ),
    ],
)
def test_the_name_lists_the_changed_axes(case: Resolve, arguments: list[str], name: str) -> None:
    assert case(*arguments).variant.mode.name == name


def test_a_preset_leaves_out_options_at_their_default(case: Resolve, their_conf: Path) -> None:
    (their_conf / "mode" / "sizes.yaml").write_text(
        "{name: sizes, grad: natural, autocast: false, compile: default, graph: false, "
        "dynamic: true}",
        encoding="utf-8",
    )
    theirs = (f"--config-dir={their_conf}", "mode=sizes")
    assert case(*theirs).variant.mode == Mode(
        "sizes", "inference_mode", compile="default", options=CompileOptions(dynamic=True)
    )
    assert case(*theirs, "baseline.mode=sizes").baseline.mode.options.dynamic is True
    unset = case(*theirs, "mode.dynamic=null")
    assert unset.variant.mode.name == "sizes[dynamic=null]"
    assert unset.case_id == case("mode=compile").case_id


def test_equal_axes_under_other_names_have_equal_ids(case: Resolve) -> None:
    changed = case("mode=eager", "mode.grad=no_grad")
    assert changed.variant.mode.name == "eager[grad=no_grad]"
    assert changed.case_id == case("mode=no_grad").case_id


@pytest.mark.parametrize(
    ("arguments", "mode", "dtype"),
    [
        (["mode=compile"], "eager", "fp32"),
        (["mode=compile", "dtype=bf16"], "eager", "bf16"),
        (["mode=amp"], "eager", "fp32"),
        (["mode=amp", "dtype=fp16"], "eager", "fp32"),
        (["mode=amp", "baseline.dtype=bf16"], "eager", "bf16"),
        (["mode=amp", "baseline.mode=amp"], "amp", "bf16"),
        (["mode=amp-compile", "dtype=fp16", "baseline.mode=amp"], "amp", "fp16"),
        (["mode=eager", "dtype=fp16", "baseline.mode=no_grad"], "no_grad", "fp16"),
        (["mode=compile", "mode.autocast=true"], "eager", "fp32"),
    ],
)
def test_the_default_baseline_is_eager_fp32(
    case: Resolve, arguments: list[str], mode: str, dtype: str
) -> None:
    baseline = case(*arguments).baseline
    assert (baseline.mode.name, baseline.dtype) == (mode, dtype)


def test_the_baseline_can_be_left_out(case: Resolve) -> None:
    assert case("baseline.mode=none").baseline is None


def test_overrides_of_the_mode_do_not_change_the_baseline(case: Resolve) -> None:
    asked = case("mode=eager", "mode.grad=no_grad", "baseline.mode=eager")
    assert asked.baseline.mode.grad == "enabled"


@pytest.mark.parametrize("size", ["default", "large"])
@pytest.mark.parametrize("model", OURS)
def test_sizes_depend_on_the_device(ask_quickly: Ask, case: Resolve, model: str, size: str) -> None:
    sizes = read_yaml(CONF / "model" / f"{model}.yaml")["model"]["sizes"]
    arguments = [f"model={model}", f"shape={size}"]
    (asked,) = ask_quickly(*arguments)
    assert resolve(asked, laptop)[0].shape == sizes[size]["cpu"]
    assert resolve(asked, server)[0].shape == sizes[size]["cuda"]
    assert case(*arguments, "device=cpu", describe=server).shape == sizes[size]["cpu"]


def test_a_size_can_be_overridden(case: Resolve) -> None:
    usual = case("model=mlp")
    asked = case("model=mlp", "shape.batch=7", "shape.depth=null")
    assert asked.shape == {**usual.shape, "batch": 7}


@pytest.mark.parametrize(
    ("argument", "describe", "device"),
    [
        ("device=auto", laptop, "cpu"),
        ("device=auto", server, "cuda"),
        ("device=cpu", server, "cpu"),
        ("device=cuda:1", server, "cuda:1"),
    ],
)
def test_the_device_of_a_case(
    case: Resolve, argument: str, describe: Callable[[str], DeviceFacts], device: str
) -> None:
    assert case(argument, describe=describe).device == device


def test_a_missing_device_is_a_usage_error_of_the_command(case: Resolve) -> None:
    def nothing(name: str) -> DeviceFacts:
        raise UsageError(f"device={name}: no")

    with pytest.raises(UsageError, match="device=cuda: no"):
        case("device=cuda", describe=nothing)


def test_a_built_in_model_resolves_to_its_target(case: Resolve) -> None:
    assert case("model=mlp").model == Model("mlp", "modescope.models.mlp:build")


def test_a_custom_model_resolves_to_the_given_target(case: Resolve) -> None:
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


@pytest.mark.parametrize("library", ["transformers", "diffusers", "torchvision", "timm"])
def test_a_library_gets_the_name_of_an_architecture(case: Resolve, library: str) -> None:
    model = case(f"model={library}", "model.name=net_v2.tiny").model
    assert model == Model(
        f"{library}:net_v2.tiny",
        f"modescope.models.libraries.of_{library}:build",
        architecture="net_v2.tiny",
    )
    usual = case(f"model={library}")
    assert usual.model.name == f"{library}:{usual.model.architecture}"
    assert usual.case_id != case(f"model={library}", "model.name=other").case_id


def test_architectures_and_their_sizes_are_swept(ask: Ask) -> None:
    asked = ask("-m", "model=transformers", "model.name=gpt2,t5", "shape.seq=8,16")
    assert all(each.sweep for each in asked)
    cases = [resolve(each, laptop)[0] for each in asked]
    assert [(each.model.architecture, each.shape["seq"]) for each in cases] == [
        ("gpt2", 8), ("gpt2", 16), ("t5", 8), ("t5", 16)
    ]  # fmt: skip


CUSTOM = ("model=custom", "model.target=net:build")


def test_a_custom_model_has_no_sizes_unless_they_are_set(case: Resolve) -> None:
    assert case(*CUSTOM).shape == {}
    assert case(*CUSTOM, "shape.batch=8").shape == {"batch": 8}
    assert case(*CUSTOM, "shape.seq=2", "+shape.heads=4").shape == {"seq": 2, "heads": 4}


@pytest.mark.parametrize(
    "words",
    [
        ["model.inputs={x: [seq, 4], mask: null, deep: [{size: [2], dtype: int64, high: 9}]}"],
        ["+model.inputs.x=[seq,4]", "+model.inputs.mask=null",
         "+model.inputs.deep=[{size: [2], dtype: int64, high: 9}]"],
    ],
    ids=["set", "one by one"],
)  # fmt: skip
def test_described_inputs_belong_to_the_model(case: Resolve, words: list[str]) -> None:
    asked = case(*CUSTOM, "shape.seq=2", *words)
    assert json.loads(asked.model.inputs_json) == {
        "x": ["seq", 4], "mask": None, "deep": [{"size": [2], "dtype": "int64", "high": 9}],
    }  # fmt: skip
    assert asked.case_id != case(*CUSTOM, "shape.seq=2").case_id


def test_inputs_at_their_default_are_in_no_id(case: Resolve) -> None:
    assert case(*CUSTOM, "model.inputs=null") == case(*CUSTOM)
    assert case(*CUSTOM).model.inputs_json is None


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        (["model.inputs={x: [seq, batch]}", "shape.seq=2"], "model.inputs.x: "),
        (["model.inputs=[{size: [heads]}]"], "model.inputs[0]: "),
        (["model.inputs=5"], "model.inputs=5: "),
        (["shape.batch=2", "+model.kwargs={batch: 2}"], "shape.batch and model.kwargs.batch "),
        (["shape.batch=0"], "shape.batch=0: "),
        (["+shape.heads=[2]"], "shape.heads=[2]: "),
        (["shape=small"], "shape=small: "),
        (["+shape.scale=2"], "shape.scale=2: "),
        (["model.target=net.py:build"], "model.target=net.py:build: "),
        (["model.target=net"], "model.target=net: "),
        (["model=mlp"], "model.target=net:build: "),
        (["model.loss=huber"], "model.loss=huber: "),
        (["model.pickle=Net.0123"], "model.pickle=Net.0123: "),
    ],
)  # fmt: skip
def test_wrong_inputs_and_sizes_are_refused(
    case: Resolve, arguments: list[str], culprit: str
) -> None:
    with pytest.raises(UsageError) as refused:
        case(*last_of_each(*CUSTOM, *arguments))
    assert str(refused.value).startswith(culprit)
    assert "\n" not in str(refused.value)


def test_sizes_of_a_model_without_named_ones_in_a_users_file(
    case: Resolve, their_conf: Path
) -> None:
    (their_conf / "model" / "described.yaml").write_text(
        "name: described\ntarget: net:Net\ninputs: {x: [batch, 4]}\n"
    )
    named = ("model=described", f"--config-dir={their_conf}", "+shape.batch=2")
    assert case(*named).shape == {"batch": 2}
    assert case(*named).model.inputs_json == '{"x":["batch",4]}'


@pytest.fixture
def their_conf(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.yaml").write_text("name: mine\ntarget: math:sqrt\n")
    (tmp_path / "mode").mkdir()
    (tmp_path / "mode" / "slow.yaml").write_text(
        "name: slow\ngrad: enabled\nautocast: true\ncompile: none\ngraph: false\n"
    )
    return tmp_path


def test_a_model_of_a_users_configuration_is_custom(case: Resolve, their_conf: Path) -> None:
    """So its source is compared before an earlier row is reused."""
    asked = case("model=mine", "--config-dir", str(their_conf))
    assert asked.model.name == "custom:math:sqrt"


def test_modes_of_a_users_configuration_resolve(case: Resolve, their_conf: Path) -> None:
    asked = case(f"--config-dir={their_conf}", "mode=slow", "baseline.mode=slow", "dtype=bf16")
    assert asked.variant == asked.baseline
    assert asked.variant.mode.name == "slow"


def test_a_mode_may_inherit_another(case: Resolve, their_conf: Path) -> None:
    (their_conf / "mode" / "mine.yaml").write_text("defaults: [amp]\nname: mine\ndynamic: null\n")
    theirs = (f"--config-dir={their_conf}", "mode=mine")
    assert case(*theirs).variant.mode.name == "mine"
    assert case(*theirs).case_id == case("mode=amp").case_id
    with pytest.raises(UsageError, match=r"autocast|grad"):
        case(*theirs, "baseline.mode=mine")


def test_the_plan_has_the_settings_of_the_command(plan: Callable[..., Plan]) -> None:
    made = plan("budget=quick", "budget.max_rounds=30", "seed=3", "timeout_s=5", "study=mine")
    quick = read_yaml(CONF / "budget" / "quick.yaml")
    changed = {"name": "quick[max_rounds=30]", "max_rounds": 30, "slow_half_width": None}
    assert vars(made.budget) == {**quick, **changed}
    assert (made.seed, made.timeout_s, made.study, made.compile_cache) == (3, 5.0, "mine", "cold")
    assert made.study_folder == Path(made.results_dir) / "mine"
    assert (made.profile, made.memory) == (True, True)
    assert (made.trace_max_bytes, made.traces_max_bytes) == (5_000_000, 200_000_000)


def test_passes_change_the_plan_but_not_the_case(case: Resolve, plan: Callable[..., Plan]) -> None:
    arguments = ("profile=false", "memory=false", "trace_max_mb=0.5", "traces_max_mb=0")
    made = plan(*arguments)
    assert (made.profile, made.memory) == (False, False)
    assert (made.trace_max_bytes, made.traces_max_bytes) == (500_000, 0)
    assert case(*arguments).case_id == case().case_id


def test_an_accepted_error_changes_the_plan_but_not_the_case(
    case: Resolve, plan: Callable[..., Plan]
) -> None:
    assert plan().max_error is None
    assert plan("max_error=0.05").max_error == 0.05
    assert case("max_error=0.05").case_id == case().case_id


def test_a_relative_results_folder_refers_to_the_working_folder(
    plan: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("modescope.bench.resolve.ROOT", tmp_path)
        assert plan("results_dir=mine").results_dir == "mine"
    assert plan("results_dir=mine").results_dir == str(tmp_path / "mine")
    assert plan("results_dir=/tmp/mine").results_dir == "/tmp/mine"


@pytest.mark.parametrize("key", ["batch", "scale"])
@pytest.mark.parametrize("value", ['"8"', "'8'", "8"])
def test_a_size_in_quotes_is_a_number(case: Resolve, key: str, value: str) -> None:
    assert case("model=transformer", f"shape.{key}={value}") == case(
        "model=transformer", f"shape.{key}=8"
    )


def test_a_size_among_the_arguments_is_refused(case: Resolve) -> None:
    with pytest.raises(UsageError, match=r"^model\.kwargs\.width=8: .* allowed: shape\.width"):
        case("model=mlp", "+model.kwargs={width: 8}")


def test_budgets_are_ranked_by_their_time() -> None:
    budgets = [read_yaml(file) for file in CONF.glob("budget/*.yaml")]
    by_rank = sorted(budgets, key=lambda budget: int(budget["rank"]))
    times = [budget["timed_max_s"] for budget in by_rank]
    assert [budget["name"] for budget in by_rank] == ["smoke", "quick", "standard", "thorough"]
    assert times == sorted(times)


@pytest.mark.parametrize(
    ("arguments", "resume"),
    [
        ([], False),
        (["resume=true"], True),
        (["-m", "resume=false"], False),
    ],
)
def test_a_sweep_resumes_and_a_single_case_does_not(
    ask: Ask, arguments: list[str], resume: bool
) -> None:
    assert ask(*arguments)[0].resume is resume


def test_a_users_file_makes_a_sweep(ask: Ask, their_conf: Path) -> None:
    (their_conf / "experiment").mkdir()
    (their_conf / "experiment" / "swept.yaml").write_text(
        "# @package _global_\nhydra: {mode: MULTIRUN, sweeper: {params: {mode: 'eager,amp'}}}\n"
    )
    requests = ask(f"--config-dir={their_conf}", "experiment=swept")
    assert [request.settings.mode.name for request in requests] == ["eager", "amp"]
    assert all(request.sweep for request in requests)


COMMANDS = [
    ["mode=eager", "dtype=bf16"],
    ["dtype=bf16", "mode=compile", "mode.autocast=true", "shape.batch=3", "threads=1"],
    ["model=transformer", "shape=small", "baseline.mode=none"],
    [r"study='it\'s mine'"],
    ["study='two words & more; $HOME'"],
    ['study="quoted"'],
    ["study='naïve →'"],
    ["++resume=true", "mode=eager"],
    ["-m", "mode=eager,no_grad", "shape.batch=1,2"],
    ["experiment=modes", "model=pointwise", "mode=bf16/eager,amp"],
    ["-m", "experiment=modes", "model=pointwise", "mode=eager", "baseline.mode=none"],
    ["-m", "experiment=threads", "model=pointwise", "mode=eager,compile"],
    ["-m", "experiment=caches", "model=pointwise", "mode=compile"],
    ["-m", "experiment=training", "model=mlp", "mode=eager,amp", "train.checkpoint=none,model"],
    ["-m", "experiment=activations", "model=mlp", "mode=eager,amp"],
    ["-m", "study='a b'", "mode=choice(eager,amp)", "shape.batch=range(1,3)"],
    ["mode=eager", "results_dir='a folder'"],
]


@pytest.mark.full
@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_copied_command_measures_the_same(
    ask: Ask,
    typed: Callable[..., None],
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)  # one of them names its results by a relative path
    for job in prepare(ask(*arguments)):
        assert_command_measures(job, ask)


def assert_command_measures(job: Any, ask: Ask) -> None:
    python, script, *rest = shlex.split(job.command)
    assert (python, script) == ("python", "run.py")
    assert not any(word.lstrip("+").startswith(("experiment", "resume", "-m")) for word in rest)
    (again,) = prepare(ask(*rest))
    assert again.case == job.case
    alone = replace(job.plan.budget, slow_half_width=None)  # what a sweep measures less of
    assert again.plan == replace(job.plan, budget=alone)


MODULE = """
import torch

def build(width=2, name="x", options=None):
    return torch.nn.Linear(width, width), (torch.ones(1, width),)
"""


@pytest.mark.full
@pytest.mark.parametrize(
    "kwargs",
    [
        "{width: 4}",
        "{width: 4, name: 'a b', options: {c: [1, 2.5, null, true]}}",
        '{name: "it\'s"}',
        "{name: 'a,b'}",
        r"{name: '\'$x; \"'}",
    ],
)
@pytest.mark.parametrize("sweep", [False, True])
def test_a_copied_command_has_the_models_arguments(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kwargs: str, sweep: bool
) -> None:
    (tmp_path / "their_net.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    arguments = ["model=custom", "model.target=their_net:build", f"+model.kwargs={kwargs}"]
    arguments += ["-m", "mode=eager,amp"] if sweep else []
    for job in prepare(ask(*arguments)):
        assert job.case.model.args_json != "{}"
        assert_command_measures(job, ask)


@pytest.mark.full
@pytest.mark.parametrize(
    "inputs",
    [
        "+model.inputs={input: [seq, batch, 3]}",
        "model.inputs=[[seq,batch,3]]",
        "+model.inputs.input=[seq, batch, 3]",
        "model.inputs={input: {size: [4, batch, 3], low: -1.5, high: 2}, hx: null}",
        "model.inputs={input: [seq, 2, 3], hx: [[1, 2, 5], [1, 2, 5]]}",
    ],
)
@pytest.mark.parametrize("sweep", [False, True])
def test_a_copied_command_has_the_described_inputs(ask: Ask, inputs: str, sweep: bool) -> None:
    arguments = ["model=custom", "model.target=torch.nn:LSTM", inputs]
    arguments += ["+model.kwargs={input_size: 3, hidden_size: 5}"]
    arguments += ["shape.seq=4"] if "seq" in inputs else []
    arguments += ["shape.batch=2"] if "batch" in inputs else []
    arguments += ["-m", "mode=eager,amp"] if sweep else []
    for job in prepare(ask(*arguments)):
        assert job.case.model.inputs_json is not None
        assert_command_measures(job, ask)


@pytest.mark.full
def test_a_copied_command_names_the_users_configuration(ask: Ask, tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    (folder / "mode").mkdir(parents=True)
    (folder / "mode" / "slow.yaml").write_text(
        "name: slow\ngrad: enabled\nautocast: true\ncompile: none\ngraph: false\n"
    )
    (job,) = prepare(ask("mode=slow", f"--config-dir={folder}"))
    assert_command_measures(job, ask)
