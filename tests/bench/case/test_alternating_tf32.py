"""Eager in tf32 against eager in fp32 in one process: each call sets how fp32 is multiplied."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from modescope.bench.case import runner
from modescope.bench.devices.devices import Prepared, bare_call
from modescope.bench.evidence import compiler_counts
from modescope.bench.modes import fp32_products
from modescope.bench.records.cases import Case, Model, Training, Variant
from modescope.bench.records.results import Findings
from tests.helpers import unusual_models
from tests.helpers.findings import rounds_of
from tests.helpers.probe_models import (
    BASELINE,
    EAGER,
    case,
    linear,
    model,
    silent,
    smoke,
)
from tests.helpers.watched_runs import Watch

pytestmark = pytest.mark.usefixtures("as_in_a_child", "restored_settings")

TF32 = Variant(EAGER, "tf32")
LINK = case(model(linear), TF32, BASELINE)
SWAPPED = case(model(linear), BASELINE, TF32)
TRAINED = replace(LINK, options=Training())


def run(asked: Case) -> Findings:
    result = runner.run(silent, asked, smoke())
    assert result.status == "ok", result.reason
    return result.findings


@pytest.mark.parametrize("asked", [LINK, SWAPPED, TRAINED], ids=["link", "swapped", "trained"])
def test_every_call_of_either_side_is_made_with_its_own_setting(
    asked: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch, seen = Watch(monkeypatch), dict[str, set[Any]]()
    call = torch.nn.Linear.forward

    def watched(self: torch.nn.Linear, x: torch.Tensor) -> torch.Tensor:
        if watch.timed is not None and x.dtype is torch.float32:
            weights = [each.subject.module.parameters() for each in watch.built[1:3]]
            of = [any(w is self.weight for w in mine) for mine in weights]
            if any(of):
                seen.setdefault(asked_dtypes[of.index(True)], set()).add(fp32_products.used())
        return call(self, x)

    asked_dtypes = [asked.variant.dtype, asked.baseline.dtype if asked.baseline else ""]
    monkeypatch.setattr(torch.nn.Linear, "forward", watched)
    found = run(asked)
    assert seen == {"tf32": {"tf32"}, "fp32": {"fp32"}}
    assert rounds_of(found).baseline_latency_rounds_s
    assert (found.checks.in_effect, found.checks.in_effect_note) == (True, None)
    assert found.checks.matmul_precision == ("high" if asked.variant.dtype == "tf32" else "highest")
    assert (found.models_own.settings_put_back, found.models_own.settings_in_calls) == (None, None)


def test_the_setting_is_made_outside_of_what_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch(monkeypatch)
    run(LINK)
    for built in (watch.candidate, watch.baseline):
        assert isinstance(built.step, Prepared)
        assert built.step.in_a_row
        fp32_products.use("tf32")
        before = fp32_products.used()
        bare_call(built.step)()
        assert fp32_products.used() == before
    usual = Watch(monkeypatch)
    run(case(model(linear), TF32, TF32))
    assert not any(isinstance(built.step, Prepared) for built in usual.built)


def test_a_setting_that_is_never_made_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The link without the switch: the baseline ran in tf32, so nothing was compared."""
    monkeypatch.setattr(fp32_products, "switched", lambda step, dtype: step)
    found = run(LINK)
    assert (found.checks.in_effect, rounds_of(found).baseline_latency_rounds_s) == (True, None)
    assert "baseline_not_in_effect" in found.flags


def test_tf32_that_is_never_set_is_not_in_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fp32_products, "use", lambda dtype: None)
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    for asked in (LINK, case(model(linear), TF32, TF32)):
        found = run(asked)
        assert found.checks.in_effect is False
        assert found.checks.in_effect_note == "fp32 was multiplied in fp32 instead of tf32"


def test_a_model_that_multiplies_in_fp32_by_itself_is_not_in_effect_in_tf32() -> None:
    target = f"{unusual_models.__name__}:multiplies_in_fp32"
    found = run(case(Model(f"custom:{target}", target), TF32, BASELINE))
    assert found.checks.in_effect is False
    assert "instead of tf32" in str(found.checks.in_effect_note)


def test_a_change_makes_compiled_code_compile_again() -> None:
    """This is why what compiles is refused beside another precision; also on a CPU."""
    compiled = torch.compile(lambda x: x @ x, backend="eager", fullgraph=True)
    counted = compiler_counts.count_compilations()
    for dtype in ("fp32", "fp32", "tf32", "fp32", "tf32"):
        fp32_products.use(dtype)
        compiled(torch.ones(2, 2))
    assert counted() == 2
    torch.compiler.reset()


def test_what_the_switches_say() -> None:
    for dtype, said in (("tf32", "tf32"), ("fp32", "fp32"), ("bf16", "fp32")):
        fp32_products.use(dtype)
        assert fp32_products.used() == said == fp32_products.of(dtype)
    torch.backends.cudnn.allow_tf32 = True
    assert fp32_products.used() == "fp32 (convolutions in tf32)"


def test_a_step_with_a_preparation_keeps_it() -> None:
    calls = list[str]()
    step = Prepared(lambda: calls.append("prepared"), lambda: calls.append(str(used())))
    used = fp32_products.used
    for dtype in ("tf32", "fp32"):
        fp32_products.switched(step, dtype)()
    assert calls == ["prepared", "tf32", "prepared", "fp32"]
    assert not fp32_products.switched(step, "tf32").in_a_row
