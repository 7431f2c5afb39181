"""Eager in tf32 beside eager in fp32 on a GPU: each call is computed as its side is set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from modescope.bench.case import runner
from modescope.bench.devices.devices import Hardware
from modescope.bench.modes import fp32_products
from modescope.bench.records.cases import Model, Training, Variant
from modescope.bench.records.environment import TF32_CAPABILITY
from tests.helpers.findings import rounds_of
from tests.helpers.probe_models import EAGER, case, silent, smoke

pytestmark = [pytest.mark.cuda, pytest.mark.usefixtures("restored_settings")]

SMALL_MLP = Model("mlp", "modescope.models.mlp:build")
FP32, TF32 = Variant(EAGER, "fp32"), Variant(EAGER, "tf32")


@pytest.fixture(autouse=True)
def _has_tf32(device: Hardware) -> None:
    if (device.facts().capability or (0, 0)) < TF32_CAPABILITY:
        pytest.skip("TF32 needs compute capability 8.0")


@pytest.mark.parametrize("trains", [False, True], ids=["inference", "training"])
def test_the_link_measures_tf32_against_fp32(trains: bool) -> None:
    shape = '{"batch":1024,"depth":2,"width":1024}'
    asked = replace(case(SMALL_MLP, TF32, FP32, device="cuda"), shape_json=shape)
    asked = replace(asked, options=Training()) if trains else asked
    result = runner.run(silent, asked, smoke())
    assert result.status == "ok", result.reason
    found = result.findings
    assert (found.checks.in_effect, found.checks.in_effect_note) == (True, None)
    assert "baseline_not_in_effect" not in found.flags
    assert rounds_of(found).baseline_latency_rounds_s
    assert found.checks.error > 10 * found.checks.baseline_error
    assert (found.models_own.settings_in_calls, found.checks.matmul_precision) == (None, "high")


def _layers() -> dict[str, tuple[nn.Module, Tensor]]:
    torch.manual_seed(0)
    return {
        "linear": (nn.Linear(512, 512).cuda(), torch.randn(512, 512, device="cuda")),
        "conv": (nn.Conv2d(64, 64, 3).cuda(), torch.randn(8, 64, 32, 32, device="cuda")),
    }


def _alone(call: Callable[[], Tensor], dtype: str) -> Tensor:
    fp32_products.use(dtype)
    return [call() for _ in range(3)][-1]


@pytest.mark.parametrize("layer", ["linear", "conv"])
def test_calls_in_turns_have_the_results_of_calls_alone(layer: str) -> None:
    """The switches are read in every call, and no choice of a library outlasts a change."""
    module, x = _layers()[layer]
    with torch.inference_mode():
        expected = {dtype: _alone(lambda: module(x), dtype) for dtype in ("fp32", "tf32")}
        exact = module.double()(x.double())
        module.float()
        errors = {d: float((each - exact).norm() / exact.norm()) for d, each in expected.items()}
        assert errors["tf32"] > 10 * errors["fp32"]
        steps = {d: fp32_products.switched(lambda: module(x), d) for d in expected}
        for dtype in ("tf32", "fp32", "fp32", "tf32", "fp32", "tf32"):
            error = float((steps[dtype]() - exact).norm() / exact.norm())
            assert error == pytest.approx(errors[dtype], rel=0.5)


def test_a_captured_graph_keeps_what_was_set_at_its_capture(device: Hardware) -> None:
    """This is why captures are refused beside another precision: nothing shows it later."""
    module, x = _layers()["linear"]
    with torch.inference_mode():
        alone = _alone(lambda: module(x), "tf32").clone()
        replay = device.capture(lambda: module(x))
        fp32_products.use("fp32")
        assert torch.equal(torch.as_tensor(replay()), alone)
        assert not torch.equal(module(x), alone)
