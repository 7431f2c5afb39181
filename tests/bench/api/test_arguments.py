"""Arguments of `modescope.compare` as settings of a command line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from modescope.bench.api import arguments
from modescope.bench.api.composing import requests as composed
from modescope.bench.records.errors import UsageError
from modescope.bench.resolve import Request, resolve
from tests.helpers.commands import Ask
from tests.helpers.made_up_records import CPU
from tests.helpers.paths import CONF

RESULTS = "r"

PICKLE = "Net.0123456789abcdef"


def requests(folder: Path, device_type: str = "cpu", **changed: Any) -> list[Request]:
    (folder / "model").mkdir(parents=True, exist_ok=True)
    (folder / "model" / f"{PICKLE}.pt").touch()
    usual: dict[str, Any] = {
        "modes": None, "dtype": "auto", "phase": "inference", "budget": "quick", "device": "cpu",
        "threads": 1, "overrides": (),
    }  # fmt: skip
    return composed(arguments.settings(PICKLE, folder, device_type, **{**usual, **changed}))


def variants(found: list[Request]) -> set[tuple[str, str, str]]:
    cases = [resolve(each, lambda name: CPU)[0] for each in found]
    return {(c.variant.mode.name, c.variant.dtype, c.baseline.dtype) for c in cases}


def test_by_default_all_modes_that_need_no_gpu_are_compared(tmp_path: Path) -> None:
    found = requests(tmp_path / "study")
    assert variants(found) == {
        *((mode, "fp32", "fp32") for mode in ("eager", "no_grad", "inference_mode", "compile")),
        *((mode, "bf16", "fp32") for mode in ("eager", "inference_mode", "compile")),
        *((mode, "bf16", "fp32") for mode in ("amp", "amp-compile")),
    }
    assert {each.settings.budget.name for each in found} == {"quick"}


@pytest.mark.parametrize("group", ["phase", *(
    pytest.param(each, marks=pytest.mark.full)
    for each in ("model", "mode", "mode/bf16", "dtype", "shape", "budget")
)])  # fmt: skip
def test_presets_give_the_cases_of_the_command_line(ask: Ask, group: str) -> None:
    """Of which those of `custom` need a target."""
    key, _, folder = group.partition("/")
    options = sorted(file.stem for file in (CONF / group).glob("*.yaml"))
    swept = f"{key}={','.join(f'{folder}/{option}' if folder else option for option in options)}"
    words = ["mode=inference_mode", "shape.batch=2", "train.lr=0.1", "phase=train"]
    own = ["model.target=net:build"] if group == "model" else []
    words = [*own, *(word for word in words if not word.startswith(f"{key}=")), swept]
    words = [word for word in words if group != "phase" or not word.startswith("train.")]
    asked, composed_here = ask("-m", *words), composed([f"results_dir={RESULTS}", *words])
    assert len(asked) == len(options)
    for theirs, ours in zip(asked, composed_here, strict=True):
        assert replace(theirs.settings, results_dir=RESULTS) == ours.settings
        assert (theirs.baseline, theirs.sweep) == (ours.baseline, ours.sweep)


@pytest.mark.parametrize(
    ("word", "culprit"),
    [
        ("mode=eagr", "mode=eagr: .* did you mean eager"),
        ("threads=many", "threads=many: "),
        ("thread=1", "thread=1: .*did you mean threads"),
        ("threads=0", "threads=0: "),
        ("mode=[eager", ""),
        ("seed=interval(0,1)", ""),
        ("mode=glob(*)", ""),
        ("~seed", "~seed: "),
        ("experiment=modes", "experiment=modes: "),
        ("hydra.mode=RUN", "hydra.mode=RUN: "),
    ],
)
def test_a_mistake_is_one_line(word: str, culprit: str) -> None:
    with pytest.raises(UsageError, match=f"^{culprit}") as refused:
        composed(["results_dir=r", word])
    assert "\n" not in str(refused.value)


def test_in_training_those_of_the_training_experiment() -> None:
    modes = arguments.default_modes("training", "cpu")
    assert modes == ["eager", "amp", "compile", "amp-compile"]
    assert "cuda-graph" in arguments.default_modes("training", "cuda")


def test_several_precisions_have_one_baseline_unless_another_is_asked_for(tmp_path: Path) -> None:
    both: dict[str, Any] = {"modes": ["eager"], "dtype": ["fp32", "bf16"]}
    assert variants(requests(tmp_path / "study", **both)) == {
        ("eager", "fp32", "fp32"),
        ("eager", "bf16", "fp32"),
    }
    other = requests(tmp_path / "study", **both, overrides=["baseline.mode=no_grad"])
    assert {each[2] for each in variants(other)} == {"fp32", "bf16"}
    assert variants(requests(tmp_path / "study", modes="no_grad", dtype="bf16")) == {
        ("no_grad", "bf16", "bf16")
    }


@pytest.mark.parametrize("name", ["it's", "a, [b] {c}", 'a=1 "b" $c', "né\\", "100%"])
def test_a_folder_may_have_any_name(name: str, tmp_path: Path) -> None:
    (found,) = requests(tmp_path / name / "study", modes="eager")
    assert found.settings.results_dir == str(tmp_path / name)
    case, plan = resolve(found, lambda device: CPU)
    assert plan.study_folder == tmp_path / name / "study"
    assert case.model.name == "Net"
    assert case.model.pickled.file == str(plan.study_folder / "model" / f"{PICKLE}.pt")


def test_the_place_of_the_file_is_no_part_of_the_case_but_its_content_is(tmp_path: Path) -> None:
    def case_id(folder: Path) -> str:
        return resolve(requests(folder, modes="eager")[0], lambda device: CPU)[0].case_id

    first = case_id(tmp_path / "one")
    assert first == case_id(tmp_path / "two")
    (tmp_path / "two" / "model" / "Net.fedcba9876543210.pt").touch()
    words = arguments.settings(
        "Net.fedcba9876543210", tmp_path / "two", "cpu", modes="eager", dtype="auto",
        phase="inference", budget="quick", device="cpu", threads=1, overrides=(),
    )  # fmt: skip
    assert first != resolve(composed(words)[0], lambda device: CPU)[0].case_id


def test_a_pickled_model_needs_its_file_and_no_target(tmp_path: Path) -> None:
    (found,) = requests(tmp_path / "study", modes="eager")
    (tmp_path / "study" / "model" / f"{PICKLE}.pt").unlink()
    with pytest.raises(UsageError, match=rf"^model.pickle={PICKLE}: no such model"):
        resolve(found, lambda device: CPU)
    for other in ("model.target=a.b:c", "model=mlp"):
        (tmp_path / "study" / "model").mkdir(exist_ok=True)
        with pytest.raises(UsageError, match=r"^model.pickle=|^model=mlp: model is set twice"):
            resolve(requests(tmp_path / "study", modes="eager", overrides=[other])[0],
                    lambda device: CPU)  # fmt: skip


def test_a_study_is_a_name_below_results_or_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert arguments.study_folder("mine", "Net") == tmp_path / "results" / "mine"
    assert arguments.study_folder("a/mine", "Net") == tmp_path / "a" / "mine"
    assert arguments.study_folder(tmp_path / "x", "Net") == tmp_path / "x"
    first = arguments.study_folder(None, "Net")
    first.mkdir(parents=True)
    second = arguments.study_folder(None, "Net")
    assert first.parent == second.parent == tmp_path / "results"
    assert first != second
