"""Invalid command lines are refused before Hydra reads them, with a suggestion."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from modescope.bench.records.errors import UsageError
from modescope.bench.sweep.settings.request_to_case import resolve
from tests.helpers.commands import Ask
from tests.helpers.made_up_records import CPU
from tests.helpers.paths import ROOT

Refusal = Callable[..., str]

LIBRARIES = "model=diffusers or model=timm or model=torchvision or model=transformers"

OURS = "results_dir=there"  # so that the suggested commands are known in full


MODELS = ", ".join(sorted(file.stem for file in (ROOT / "conf" / "model").glob("*.yaml")))


@pytest.fixture
def refusal(ask: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Refusal:
    """The message of the refusal."""
    monkeypatch.chdir(tmp_path)

    def message(*arguments: str) -> str:
        with pytest.raises(UsageError) as refused:
            ask(*arguments, OURS)
        return str(refused.value)

    return message


# Lists

LISTS = [
    "mode=[eager,compile]",
    "dtype=[fp32,bf16]",
    "model=[mlp,pointwise]",
    "shape=[small,large]",
    "budget=[quick,smoke]",
    "phase=[inference,train]",
    "baseline.mode=[eager,no_grad]",
    "device=[cpu,cuda]",
    "threads=[1,2]",
    "seed=[0,1]",
    "shape.batch=[8,16]",
    "train.optimizer=[sgd,adamw]",
    "mode.compile=[none,default]",
]


@pytest.mark.parametrize("multirun", [[], ["-m"]], ids=["alone", "sweep"])
@pytest.mark.parametrize("argument", LISTS)
def test_a_list_is_refused_with_the_sweep_to_type(
    refusal: Refusal, argument: str, multirun: list[str]
) -> None:
    key, _, values = argument.partition("=")
    assert refusal(*multirun, argument) == (
        f"{argument}: {key} takes one value at a time, not a list; did you mean: "
        f"python run.py -m {key}={values.strip('[]')} {OURS}"
    )


@pytest.mark.parametrize(
    "argument",
    [
        "mode='eager,compile'",
        'mode="eager,compile"',
        "mode='[eager,compile]'",
        "mode=['eager','compile']",
        "mode=[ eager , compile ]",
        "mode=choice([eager,compile])",
        "mode=[eager],compile",
        "+mode=[eager,compile]",
    ],
)
@pytest.mark.parametrize("multirun", [[], ["-m"]], ids=["alone", "sweep"])
def test_lists_in_other_notations_are_refused(
    refusal: Refusal, argument: str, multirun: list[str]
) -> None:
    assert refusal(*multirun, argument).endswith(f"python run.py -m mode=eager,compile {OURS}")


def test_several_lists_share_one_suggested_command(refusal: Refusal) -> None:
    assert refusal("mode=[eager,compile]", "seed=3", "dtype=[fp32,bf16]") == (
        "mode=[eager,compile] and dtype=[fp32,bf16]: mode and dtype take one value at a time, not "
        "a list; did you mean: python run.py -m mode=eager,compile seed=3 dtype=fp32,bf16 " + OURS
    )


def test_a_list_of_one_value_suggests_a_single_case(refusal: Refusal) -> None:
    assert refusal("mode=[eager]").endswith(f"did you mean: python run.py mode=eager {OURS}")


def test_an_empty_list_is_refused(refusal: Refusal) -> None:
    assert refusal("mode=[]") == "mode=[]: the list is empty; give a value"


def test_options_stay_in_the_suggested_command(refusal: Refusal, tmp_path: Path) -> None:
    message = refusal("mode=[eager,amp]", "--config-dir", str(tmp_path))
    assert f"python run.py -m --config-dir {tmp_path} mode=eager,amp" in message


def test_the_suggested_command_is_accepted(ask: Ask, refusal: Refusal) -> None:
    message = refusal("mode=[eager,compile]", "dtype=[fp32,bf16]")
    words = message.partition("python run.py ")[2].split()
    asked = [(r.config["mode"]["name"], r.config["dtype"]) for r in ask(*words)]
    assert asked == [(mode, dtype) for mode in ("eager", "compile") for dtype in ("fp32", "bf16")]


@pytest.mark.parametrize(
    "arguments",
    [
        ["model=custom", "model.target=net:build", "+model.kwargs={sizes: [1, 2], name: 'a,b'}"],
        ["model=custom", "model.target=net:build", "+model.kwargs.sizes=[1,2]"],
        ["model=custom", "model.target=net:build", "+model.kwargs.n-heads=4"],
        ["model=custom", "model.target=net:Net", "model.inputs=[[8, 64], {size: [batch]}]"],
        ["model=custom", "model.target=net:Net", "+model.inputs=[[8,64]]"],
        ["model=custom", "model.target=net:Net", "model.inputs={x: [8, seq], k: 3}"],
        ["model=custom", "model.target=net:Net", "+model.inputs={x: [8, 64]}"],
        ["model=custom", "model.target=net:Net", "+model.inputs.x=[8,64]", "+model.inputs.k=3"],
        ["study='a, b'"],
        ["hydra.searchpath=[]"],
        ["shape={batch: 3}"],
    ],
    ids=" ".join,
)
def test_settings_that_may_hold_a_list_or_a_comma(ask: Ask, arguments: list[str]) -> None:
    assert len(ask(*arguments)) == 1


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["mode=eager,compile"], "mode=eager,compile"),
        (["mode=choice(eager,compile)"], "'mode=choice(eager,compile)'"),
        (["seed=range(3)"], "'seed=range(3)'"),
        (["mode=glob(*)"], "'mode=glob(*)'"),
    ],
)
def test_several_values_without_m_are_refused(
    refusal: Refusal, arguments: list[str], meant: str
) -> None:
    assert refusal(*arguments) == (
        f"{arguments[0]}: several values make a sweep; add -m: python run.py -m {meant} {OURS}"
    )


@pytest.mark.parametrize("multirun", [[], ["-m"]], ids=["alone", "sweep"])
@pytest.mark.parametrize(
    "argument", ["experiment=[modes,fusion]", "experiment=modes,fusion", "order=random,given",
                 "resume=true,false", "study=[a,b]", "study=a,b", "results_dir=[a,b]"],
)  # fmt: skip
def test_settings_of_the_whole_command_take_one_value(
    ask: Ask, argument: str, multirun: list[str]
) -> None:
    key, _, values = argument.partition("=")
    first = values.strip("[]").partition(",")[0]
    with pytest.raises(UsageError) as refused:
        ask(*multirun, argument)
    assert str(refused.value) == (
        f"{argument}: {key} takes one value per command, as in {key}={first}"
    )


# Twice


@pytest.mark.parametrize("multirun", [[], ["-m"]], ids=["alone", "sweep"])
@pytest.mark.parametrize("last", ["mode=no_grad", "++mode=no_grad", "mode='no_grad'"])
def test_a_key_set_twice_is_refused(refusal: Refusal, last: str, multirun: list[str]) -> None:
    message = refusal(*multirun, "mode=eager", "seed=1", last)
    assert f"mode=eager and {last}: mode is set 2 times; set it once, or sweep: " in message
    assert message.endswith(f"python run.py -m seed=1 {OURS} mode=eager,no_grad")


@pytest.mark.parametrize("again", ["mode=eager", "mode='eager'", "++seed=0"])
def test_a_key_set_twice_to_the_same_value_is_refused(ask: Ask, again: str) -> None:
    assert len(ask("mode=eager", "seed=0", again)) == 1


def test_a_key_of_a_sweep_set_twice_is_refused(refusal: Refusal) -> None:
    message = refusal("-m", "mode=eager,compile", "mode=compile,amp")
    assert message.endswith(f"python run.py -m {OURS} mode=eager,compile,amp")


@pytest.mark.parametrize("argument", ["+mode=eager", "++mode=eager", "mode@x=eager"])
def test_a_group_in_another_notation_is_refused(refusal: Refusal, argument: str) -> None:
    assert refusal(argument) == f"{argument}: a group takes one option; write mode=eager"


# Configuration files

FILES = {
    "experiment/theirs.yaml": "# @package _global_\n{}",
    "hydra/launcher/other.yaml": "_target_: hydra_plugins.other.Launcher\n",
}


@pytest.fixture
def theirs(tmp_path: Path) -> Callable[[str], list[str]]:
    """Arguments for an experiment of the user's own."""

    def arguments(content: str) -> list[str]:
        for name, text in FILES.items():
            file = tmp_path / "theirs" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text.format(content) if "{}" in text else text)
        return ["-m", f"--config-dir={tmp_path / 'theirs'}", "experiment=theirs"]

    return arguments


@pytest.mark.parametrize(
    "content",
    [
        "defaults:\n  - override /mode: [eager, compile]\n",
        "hydra: {sweeper: {params: {mode: [eager, compile]}}}\n",
    ],
)
def test_a_list_of_options_in_a_file_is_refused(
    refusal: Refusal, theirs: Callable[[str], list[str]], content: str
) -> None:
    assert refusal(*theirs(content)) == (
        "mode: a configuration file chooses a list of options, but a case has one; write a "
        "sweep as mode: a,b under hydra.sweeper.params"
    )


def test_a_sweep_in_a_file_is_refused(ask: Ask, theirs: Callable[[str], list[str]]) -> None:
    content = 'hydra: {sweeper: {params: {mode: "eager,compile"}}}\n'
    assert len(ask(*theirs(content))) == 2


def test_two_orders_of_a_sweep_in_a_file_are_refused(
    refusal: Refusal, theirs: Callable[[str], list[str]]
) -> None:
    content = 'hydra: {sweeper: {params: {order: "random,given"}}}\n'
    assert refusal(*theirs(content)) == ("order=random,given: order takes one value per command")


# Launchers and sweepers

INSTEAD = {
    "launcher": (
        "no such launcher; hydra/launcher is one of basic, ray, submitit_local, submitit_slurm"
    ),
    "sweeper": "cases run in an order of their own; leave hydra/sweeper as it is",
}


@pytest.mark.parametrize(
    ("argument", "kind"),
    [
        ("hydra/launcher=joblib", "launcher"),
        ("hydra.launcher._target_=hydra_plugins.joblib.Launcher", "launcher"),
        ("hydra/sweeper=optuna", "sweeper"),
        ("hydra.sweeper._target_=hydra_plugins.optuna.Sweeper", "sweeper"),
    ],
)
def test_another_launcher_or_sweeper_is_refused(refusal: Refusal, argument: str, kind: str) -> None:
    assert refusal("-m", argument, "mode=eager,amp") == f"{argument}: {INSTEAD[kind]}"


@pytest.mark.parametrize(
    "content",
    [
        "hydra: {launcher: {_target_: hydra_plugins.other.Launcher}}\n",
        "defaults:\n  - override /hydra/launcher: other\n",
    ],
)
def test_another_launcher_in_a_file_is_refused(
    refusal: Refusal, theirs: Callable[[str], list[str]], content: str
) -> None:
    assert refusal(*theirs(content)).startswith(
        "hydra.launcher._target_=hydra_plugins.other.Launcher: no such launcher"
    )


def test_the_basic_launcher_may_be_named(ask: Ask) -> None:
    assert len(ask("-m", "hydra/launcher=basic", "mode=eager,amp")) == 2


def test_a_sweep_without_cases_is_refused(refusal: Refusal) -> None:
    assert refusal("-m", "seed=range(0)") == (
        "these settings give no case; each setting needs at least one value"
    )


# Words and options


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["eager"], "mode=eager"),
        (["bf16"], "dtype=bf16"),
        (["transformer"], "model=transformer"),
        (["train"], "phase=train"),
        (["quick"], "budget=quick"),
        (["float16"], "dtype=fp16"),
        (["complie"], "mode=compile"),
        (["mode:eager"], "mode=eager"),
        (["my_model.py"], "python run.py model=custom model.target=my_model:build"),
        (["profile"], "profile=true"),
        (["--mode", "eager"], "mode=eager"),
        (["--mode=eager"], "mode=eager"),
        (["-mode=eager"], "mode=eager"),
        (["--dtype", "bf16", "seed=1"], "dtype=bf16"),
        (["--shape.batch", "8", "-m"], "shape.batch=8"),
        (["--batch-size=8"], "shape.batch=8"),
        (["--threads=2", "mode=eager"], "threads=2"),
        (["--mutlirun", "mode=eager"], "--multirun"),
        (["--baseline", "none"], "baseline.mode=none"),
        (["--compile"], "mode=compile"),
        (["--compile=max-autotune"], "mode.compile=max-autotune"),
        (["--no-compile"], "mode.compile=none"),
        (["--no-grad"], "mode=no_grad"),
        (["--profile"], "profile=true"),
        (["--profile", "false"], "profile=false"),
        (["--no-profile"], "profile=false"),
        (["--no_memory", "mode=eager"], "memory=false"),
        (["--autocast"], "mode.autocast=true"),
        (
            ["--threads"],
            "threads=...",
        ),
    ],
)
def test_a_word_or_option_gets_the_setting_as_suggestion(
    refusal: Refusal, arguments: list[str], meant: str
) -> None:
    assert refusal(*arguments).startswith(f"{arguments[0]}: ")
    assert refusal(*arguments).endswith(f"did you mean {meant}?")


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("mode eager", ["mode=eager"]),
        ("shape.batch 8", ["shape.batch=8"]),
        ("mode = eager", ["mode=eager"]),
        ("mode compile", ["mode=compile"]),
        ("mode eager,compile", ["mode=eager,compile"]),
        ("memory false", ["memory=false"]),
        ("precision fp16", ["dtype=fp16"]),
        ("mode eager threads 2", ["mode=eager", "threads=2"]),
        ("compile bf16", ["mode=compile", "dtype=bf16"]),
    ],
)
def test_adjacent_words_get_settings_as_suggestions(
    refusal: Refusal, words: str, meant: list[str]
) -> None:
    sentences = refusal(*words.split()).split("\n")
    assert [each.partition("did you mean ")[2] for each in sentences] == [f"{m}?" for m in meant]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("dtype", "dtype: a setting is written key=value; dtype is one of auto, bf16, fp16"),
        ("--dtype", "--dtype: a setting is written without dashes; dtype is one of auto, bf16"),
        ("--grad", "--grad: a setting is written without dashes; mode.grad is one of enabled, no"),
        ("--memory-limit 8", "--memory-limit: a setting is written without dashes; memory is one"),
        ("memory 8", "memory 8: a setting is written key=value; memory is one of true, false"),
        ("mode dtype=bf16", "mode: a setting is written key=value; mode is one of amp, "),
        ("=", "=: a setting is written key=value, without spaces"),
    ],
)
def test_a_key_without_a_value_is_refused(refusal: Refusal, words: str, expected: str) -> None:
    assert refusal(*words.split()).startswith(expected)


@pytest.mark.parametrize(
    ("argument", "command"),
    [
        ("model=my_model.py:build", "python run.py model=custom model.target=my_model:"
                                    "build"),
        ("model=./nets/net.py:make", "PYTHONPATH=nets python run.py model=custom model.target=net:"
                                     "make"),
        ("model=nets/net:make", "PYTHONPATH=nets python run.py model=custom model.target=net:make"),
        ("model=pkg.net:make", "python run.py model=custom model.target=pkg.net:make"),
        ("model='my nets/net.py'", "PYTHONPATH='my nets' python run.py model=custom "
                                   "model.target=net:build"),
    ],
)  # fmt: skip
def test_the_suggested_command_for_a_custom_model_is_accepted(
    ask: Ask, refusal: Refusal, argument: str, command: str
) -> None:
    assert refusal(argument).endswith(command)
    words = shlex.split(command)
    assert ask(*words[words.index("run.py") + 1 :])[0].config["model"]["target"] in command


@pytest.mark.parametrize(
    "target", ["nets/net.py:make", "./nets/net.py:make", "'./nets/net:make'"], ids=str
)
def test_a_file_as_target_is_refused_with_its_module(ask: Ask, target: str) -> None:
    with pytest.raises(UsageError, match=r"PYTHONPATH=nets .* model.target=net:make[?]$"):
        resolve(ask("model=custom", f"model.target={target}")[0], lambda name: CPU)


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        ("hydra.run.dir=/tmp/a,b", "a setting of Hydra takes one value"),
        ("seed=interval(0,1)", "an interval cannot be swept; list the values"),
        (
            "hydra.sweeper.params.mode=eager,amp",
            "write swept settings directly, as in mode=eager,compile",
        ),
        ("+model.kwargs=[1,2]", "arguments need names, as in '+model.kwargs={width: 512}'"),
        ("model.kwargs='[1,2]'", "arguments need names, as in '+model.kwargs={width: 512}'"),
        ("model.kwargs=5", "arguments need names, as in '+model.kwargs={width: 512}'"),
        (
            "baseline=[eager,amp]",
            "a section takes no value; its keys are baseline.mode, baseline.dtype",
        ),
    ],
)
def test_one_mistake_gets_one_sentence(refusal: Refusal, argument: str, sentence: str) -> None:
    assert refusal(argument) == f"{argument}: {sentence}"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["--nonsense"],
            "--nonsense: no such option; python run.py --hydra-help lists the options",
        ),
        (["nonsense"], "nonsense: a setting is written key=value; python run.py --cfg job lists"),
        ([""], "'': a setting is written key=value"),
        (["-m", "--cfg", "job"], "--multirun and --cfg: give one of them"),
        (["--cfg", "foo"], "argument --cfg/-c: invalid choice: 'foo'"),
        (["--config-dir=missing"], "--config-dir missing: no such folder"),
        (["--config-name=foo"], "foo: no such configuration; leave out --config-name"),
        (["--experimental-rerun", "x"], "--experimental-rerun: not supported"),
        (["--hydra-help"], "--hydra-help: takes no settings"),
        (["--resolve"], "--resolve: needs --cfg job"),
    ],
)
def test_invalid_options_are_refused(refusal: Refusal, arguments: list[str], expected: str) -> None:
    assert refusal(*arguments).startswith(expected)


# Values


@pytest.mark.parametrize(
    ("argument", "meant"),
    [
        ("dtype=float16", "fp16"),
        ("dtype=half", "fp16"),
        ("dtype=torch.float16", "fp16"),
        ("dtype=bfloat16", "bf16"),
        ("dtype=float32", "fp32"),
        ("dtype=float", "fp32"),
        ("dtype=FP16", "fp16"),
        ("mode=EAGER", "eager"),
        ("mode=max_autotune", "max-autotune"),
        ("mode=no-grad", "no_grad"),
        ("mode=torch.compile", "compile"),
        ("mode=cudagraphs", "cuda-graph"),
        ("mode=autocast", "amp"),
        ("phase=training", "train"),
        ("phase=eval", "inference"),
        ("budget=fast", "quick"),
    ],
)
def test_a_synonym_of_an_option_gets_a_suggestion(
    refusal: Refusal, argument: str, meant: str
) -> None:
    assert f"{argument}: no such option, did you mean {meant}? Known are " in refusal(argument)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["model=./my_model.py"],
            "model=./my_model.py: name your own model by the function that builds it: "
            "python run.py model=custom model.target=my_model:build",
        ),
        (
            ["model=nets/my_model.py"],
            "model=nets/my_model.py: name your own model by the function that builds it: "
            "PYTHONPATH=nets python run.py model=custom model.target=my_model:build",
        ),
        (
            ["model=yolov8"],
            f"model=yolov8: no such option; known are {MODELS}; for "
            "your own, use model=custom model.target=my_package.my_module:build",
        ),
        (
            ["model=custom", "model.target=net:build", "shape.width=16"],
            "shape.width: no such key yet; put a + before shape to add it",
        ),
        (
            ["model=custom", "model.target=net:build", "shape.scale=16"],
            "shape.scale=16: model=custom has no size to scale; set a size by its name",
        ),
        (
            ["model=custom", "model.target=net:build", "model.inputs.x=[8,64]"],
            "model.inputs.x: no such key yet; put a + before model.inputs to add it",
        ),
        (
            ["model.inputs=[[2]]", "model.inputs=[[3]]"],
            "model.inputs=[[2]] and model.inputs=[[3]]: model.inputs is set 2 times; set it once",
        ),
        (
            ["model=custom", "model.target=net:build", "model.inputs=[[2]],[[3]]"],
            "model.inputs=[[2]],[[3]]: several values make a sweep; add -m: python run.py -m ",
        ),
        (
            ["model=pointwise", "shape.bach=8"],
            "shape.bach: no such key, did you mean shape.batch? The sizes of model=pointwise are "
            "batch, width, ops, scale",
        ),
        (
            ["-m", "model=mlp,transformer", "shape.seq=8"],
            "shape.seq: no such key; the sizes of model=mlp are batch, width, depth, scale",
        ),
        (["batch=8"], "batch: no such key, did you mean shape.batch=8?"),
        (["batch_size=8"], "batch_size: no such key, did you mean shape.batch=8?"),
        (["batch-size=8"], "batch-size: no such key, did you mean shape.batch=8?"),
        (["lr=0.1"], "lr: no such key, did you mean train.lr=0.1?"),
        (
            ["phase.optimizer=sgd"],
            "phase.optimizer: no such key, did you mean train.optimizer=sgd?",
        ),
        (["compile=default"], "compile: no such key, did you mean mode.compile=default?"),
        (["thread=2"], "thread: no such key, did you mean threads=2?"),
        (["Mode=eager"], "Mode: no such key, did you mean mode=eager?"),
        (["mode.autocst=true"], "mode.autocst: no such key, did you mean mode.autocast=true?"),
        (["threads=1.5"], "threads=1.5: must be a whole number"),
        (["profile=maybe"], "profile=maybe: must be true or false"),
        (["timeout_s=1h"], "timeout_s=1h: must be a number"),
        (
            ["baseline=eager"],
            "baseline=eager: a section takes no value; its keys are baseline.mode",
        ),
        (["baseline.mode=null"], "baseline.mode=null: null is not allowed; give a value"),
        (["~model.target"], "model.target: a setting cannot be removed; change its value"),
        (["mode=null"], "mode=null: no such option; known are amp"),
        (["shape=8"], "shape=8: no such option; known are default, large, small"),
        (["mode=choice(eager"], "mode=choice(eager: brackets must come in pairs"),
        (["study=naïve"], "study=naïve: cannot be read; if the value is one text, quote it: "),
        (["mode.compile=max_autotune"], "mode.compile=max_autotune: did you mean max-autotune? "),
        (["shape.batch=${x}"], "shape.batch=${x}: Interpolation key 'x' not found"),
        (["-m", "mode=interval(0,1)"], "mode=interval(0,1): an interval cannot be swept"),
        (["-m", "hydra.sweeper.params.mode=eager,amp"], "hydra.sweeper.params.mode=eager,amp: wri"),
        (["max_error=0"], "max_error=0.0: must be from 1e-12"),
        (["max_error=nan"], "max_error=nan: must be from 1e-12"),
    ],
    ids=str,
)
def test_a_refusal_names_the_input_and_the_remedy(
    refusal: Refusal, arguments: list[str], expected: str
) -> None:
    message = refusal(*arguments)
    assert message.startswith(expected)
    assert "\n" not in message


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("model.loss=output", "phase=inference trains nothing; add phase=train"),
        ("model.name=foo", f"the name of a model is fixed, except with {LIBRARIES}; leave it out"),
        ("model.library=timm", f"choose a library as {LIBRARIES}"),
        ("model.target=net:build", "model=mlp has a target of its own; add model=custom"),
        ("model.inputs=[[2, 4]]", "model=mlp has inputs of its own; add model=custom"),
    ],
)
def test_settings_without_effect_are_refused(
    refusal: Refusal, argument: str, expected: str
) -> None:
    assert refusal(argument) == f"{argument}: {expected}"


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("model.target=net:build", "model=timm has a target of its own; add model=custom"),
        ("model.inputs=[[2, 4]]", "model=timm has inputs of its own; add model=custom"),
    ],
)
def test_settings_without_effect_on_a_library_are_refused(
    refusal: Refusal, argument: str, expected: str
) -> None:
    assert refusal("model=timm", "model.name=net", argument) == f"{argument}: {expected}"


def test_a_part_of_the_inputs_of_a_built_in_model_is_refused(refusal: Refusal) -> None:
    assert refusal("+model.inputs.x=[2]").endswith(
        ": model=mlp has inputs of its own; add model=custom"
    )


def test_a_dtype_without_a_baseline_is_refused(refusal: Refusal) -> None:
    assert refusal("baseline.mode=none", "baseline.dtype=bf16") == (
        "baseline.dtype=bf16: baseline.mode=none switches the baseline off; leave one of them out"
    )


@pytest.mark.parametrize("folder", ["", "~/x", "'~/x'"])
def test_an_ambiguous_results_folder_is_refused(ask: Ask, folder: str) -> None:
    with pytest.raises(UsageError) as refused:
        ask(f"results_dir={folder}")
    message = str(refused.value)
    assert message.startswith(f"results_dir={folder}: ")
    assert "results_dir=results" in message or "write results_dir=$HOME/x" in message
