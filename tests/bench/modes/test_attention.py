"""Each call of either side is made with its own attention, and the operators that ran prove it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from modescope.bench.case import runner
from modescope.bench.checking import steady_work
from modescope.bench.devices.devices import Prepared, bare_call
from modescope.bench.modes import attention, axes
from modescope.bench.modes.axes import AXES
from modescope.bench.records.cases import Case, Model, Training, Variant
from modescope.bench.records.environment import DeviceFacts
from modescope.bench.records.results import Findings
from modescope.bench.refusals import refusal
from modescope.models.transformer import Block
from tests.helpers.made_up_records import CPU
from tests.helpers.probe_models import EAGER, case, linear, model, preset, silent, smoke
from tests.helpers.programs import lines
from tests.helpers.watched_runs import Watch

pytestmark = pytest.mark.usefixtures("as_in_a_child", "restored_settings")

BLOCK = Model("transformer", "modescope.models.transformer:build")
SHAPE = '{"batch":2,"heads":2,"seq":16,"width":32}'
PLAIN = Variant(EAGER, "fp32")
FLASH = "aten::_scaled_dot_product_flash_attention_for_cpu"
MATH = "aten::_scaled_dot_product_attention_math"
COMPILED = pytest.param("compile", marks=pytest.mark.full)


def asked(value: str, name: str = "eager") -> Variant:
    return Variant(replace(preset(name), axes=(("attention", value),)), "fp32")


def of(variant: Variant, baseline: Variant = PLAIN, block: Model = BLOCK) -> Case:
    work = case(block, variant, baseline)
    return replace(work, shape_json=SHAPE) if block is BLOCK else work


def run(work: Case) -> Findings:
    result = runner.run(silent, work, smoke())
    assert result.status == "ok", result.reason
    return result.findings


@pytest.mark.parametrize(
    ("value", "name", "ran"),
    [
        ("math", "eager", [MATH]),
        ("flash", "eager", [FLASH]),
        pytest.param("math", "compile", [], marks=pytest.mark.full),
        pytest.param("flash", "compile", None, marks=pytest.mark.full),
    ],
)
def test_what_is_asked_for_runs(value: str, name: str, ran: list[str] | None) -> None:
    torch.compiler.reset()
    found = run(of(asked(value, name)))
    assert (found.checks.in_effect, found.checks.in_effect_note) == (True, None)
    assert json.loads(found.checks.seen_axes or "") == {"attention": value}
    seen = json.loads(found.checks.seen_attention or "")
    assert seen == ran if ran is not None else all("flash" in each for each in seen) and seen
    assert not {"baseline_not_in_effect", "other_operators", "work_grows"} & {*found.flags}
    assert found.checks.error < found.checks.error_limit
    assert (found.models_own.settings_put_back, found.models_own.settings_in_calls) == (None, None)


@pytest.mark.parametrize("trains", [False, True], ids=["inference", "training"])
def test_the_switches_are_set_for_each_call_outside_of_what_is_timed(
    trains: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch, seen = Watch(monkeypatch), dict[str, set[bool]]()
    attend = Block.attend

    def watched(self: Block, x: torch.Tensor) -> torch.Tensor:
        for side in ("candidate", "baseline") if watch.timed is not None else ():
            if getattr(watch, side).subject.module is self:
                seen.setdefault(side, set()).add(torch.backends.cuda.flash_sdp_enabled())
        return attend(self, x)

    monkeypatch.setattr(Block, "attend", watched)
    monkeypatch.setattr(steady_work, "compare", lambda work, timed, findings: findings)
    work = of(asked("math"))
    run(replace(work, options=Training()) if trains else work)
    watch.timed = None
    for built in (watch.candidate, watch.baseline):
        assert isinstance(built.step, Prepared)
        assert built.step.in_a_row
        attention.use("flash")
        bare_call(built.step)()
        assert not torch.backends.cuda.math_sdp_enabled()
    assert seen == {"candidate": {False}, "baseline": {True}}


def test_without_the_axis_nothing_is_prepared_or_told(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch(monkeypatch)
    found = run(of(PLAIN))
    assert not any(isinstance(built.step, Prepared) for built in watch.built)
    assert (found.checks.seen_attention, found.checks.seen_axes) == (None, None)


@pytest.mark.parametrize("name", ["eager", COMPILED])
def test_a_switch_that_is_dropped_on_the_floor_is_seen(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    torch.compiler.reset()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(attention, "use", lambda value: None)
    found = run(of(asked("math", name)))
    assert found.checks.in_effect is False
    assert found.checks.in_effect_note == "attention ran as flash instead of math"


@pytest.mark.full
def test_code_compiled_with_other_switches_is_not_taken_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch's key of the cache lacks the switches: without the tag, flash's code would run."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    for value in ("flash", "math"):
        torch.compiler.reset()
        assert run(of(asked(value, "compile"))).checks.in_effect is True
    monkeypatch.setattr(axes, "describe", lambda names, variant: "attention=flash")
    torch.compiler.reset()
    assert run(of(asked("math", "compile"))).checks.in_effect is False


@pytest.mark.parametrize("name", ["eager", COMPILED])
def test_a_model_without_attention_is_not_in_effect(name: str) -> None:
    torch.compiler.reset()
    found = run(of(asked("math", name), block=model(linear)))
    assert found.checks.in_effect is False
    assert found.checks.in_effect_note == AXES["attention"].unseen.format(asked="math")
    assert found.checks.seen_attention == "[]"


def test_several_implementations_in_one_call_are_not_the_one_asked_for() -> None:
    both = {MATH, FLASH, "aten::addmm"}
    assert attention.names(both) == [MATH, FLASH]
    assert attention.read(both, both) == "flash, math"
    generated = {"aten._scaled_dot_product_efficient_attention.default"}
    assert attention.read(generated, both) == "efficient"
    assert attention.read(set(), {"aten::scaled_dot_product_attention"}) == "math"
    assert attention.read(set(), {"aten::addmm"}) == "none"


@pytest.mark.parametrize("value", attention.SWITCHES)
def test_what_a_cpu_lacks_is_refused(value: str) -> None:
    on_gpu = DeviceFacts("cuda", "a GPU", (8, 0))
    lacking = value in ("efficient", "cudnn")
    for work in (of(asked(value)), of(PLAIN, asked(value))):
        reason = refusal(work, CPU)
        assert (reason is not None) == lacking
        assert f"attention={value}" in reason if reason else True
        assert refusal(replace(work, device="cuda"), on_gpu) is None


@pytest.mark.parametrize("value", ["math", "flash"])
def test_a_program_allows_it_alone(value: str) -> None:
    exec(lines(asked(value)).partition("output =")[0], {
        "torch": torch, "model": torch.nn.Linear(1, 1), "inputs": []
    })  # fmt: skip
    allowed = {
        "math": torch.backends.cuda.math_sdp_enabled(),
        "flash": torch.backends.cuda.flash_sdp_enabled(),
        "efficient": torch.backends.cuda.mem_efficient_sdp_enabled(),
        "cudnn": torch.backends.cuda.cudnn_sdp_enabled(),
    }
    assert [name for name, is_on in allowed.items() if is_on] == [value]
    assert "cache_key_tag" in lines(asked(value, "compile"))
    assert "sdp" not in lines(asked("default"))
