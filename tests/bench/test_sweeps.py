"""The prepared sweeps of conf/experiment."""

from __future__ import annotations

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from modescope.bench import command_line
from modescope.bench.records.cases import Case
from modescope.bench.records.errors import UsageError
from modescope.bench.resolve import Request, resolve
from tests.helpers.commands import Ask
from tests.helpers.made_up_records import CPU
from tests.helpers.paths import CONF

BF16 = [
    *("eager", "inference_mode", "compile"),
    *("reduce-overhead", "cuda-graph", "compile-cuda-graph"),
]
"""Modes of experiment=modes with weights in bf16."""


def cases(requests: list[Request]) -> list[Case]:
    """The cases of a command, each once."""
    found = [resolve(each, lambda name: CPU)[0] for each in requests]
    return list({case.case_id: case for case in reversed(found)}.values())[::-1]


def weights_in_bf16(cases: list[Case]) -> list[str]:
    """The modes of these cases whose weights, not only operators, are in bf16."""
    chosen = (case.variant for case in cases if case.variant.dtype == "bf16")
    return [each.mode.name for each in chosen if not each.mode.autocast]


def test_modes_also_measures_weights_in_bf16_against_eager_in_fp32(ask_quickly: Ask) -> None:
    modes = OmegaConf.load(CONF / "experiment" / "modes.yaml").hydra.sweeper.params.mode
    found = cases(ask_quickly("model=pointwise", f"mode={modes}"))
    assert weights_in_bf16(found) == BF16
    assert {(case.baseline.mode.name, case.baseline.dtype) for case in found} == {("eager", "fp32")}
    assert len(found) == 11 + len(BF16)
    assert all(OmegaConf.load(each).hydra.mode == "MULTIRUN" for each in CONF.glob("experiment/*"))


@pytest.mark.parametrize(
    ("arguments", "count", "bf16"),
    [
        (["mode=bf16/eager,eager"], 2, ["eager"]),
        (["dtype=fp32", "mode=eager,bf16/eager,compile,bf16/compile"], 2, []),
        (["phase=train", "mode=bf16/compile"], 1, ["compile"]),
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
