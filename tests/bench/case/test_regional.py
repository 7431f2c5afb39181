"""Cases of mode.regions=blocks from start to end: in effect, right, skipped, or not in effect."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
import torch._dynamo.config

from modescope.bench.case import runner
from modescope.bench.devices.devices import Cpu
from modescope.bench.evidence import observing
from modescope.bench.model.building import build
from modescope.bench.modes import modes, regions
from modescope.bench.modes.phases import ONE_CALL
from modescope.bench.records.cases import Inference, PhaseOptions, Training, Variant
from modescope.bench.records.results import Result
from tests.helpers.probe_models import BASELINE, case, model, silent, smoke, tells, variant
from tests.helpers.stacks import DEPTH, confused, sequentials, stack

pytestmark = pytest.mark.usefixtures("as_in_a_child", "restored_settings")

BLOCKS = (("regions", "blocks"),)
REGIONAL = variant(grad="inference_mode", compile="default", axes=BLOCKS)
TRAINED = variant(compile="default", axes=BLOCKS)
BF16 = Variant(REGIONAL.mode, "bf16")
AMP = Variant(replace(REGIONAL.mode, autocast=True), "bf16")
DYNAMIC = Variant(replace(REGIONAL.mode, dynamic=True), "fp32")
NO_GRAD = Variant(replace(REGIONAL.mode, grad="no_grad"), "fp32")


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch.compiler.reset()
    with torch._dynamo.config.patch(recompile_limit=8):
        yield
    torch.compiler.reset()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiles by a backend that generates no code."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))


def run(
    of: Any, asked: Variant = REGIONAL, options: PhaseOptions | None = None, **arguments: Any
) -> Result:
    given = case(model(of, **arguments), asked, BASELINE)
    plan = replace(smoke(), profile=True, memory=True, trace_max_bytes=0)
    return runner.run(silent, replace(given, options=options or Inference()), plan)


@pytest.mark.full
@pytest.mark.parametrize(
    ("asked", "graphs"), [(REGIONAL, 2), (NO_GRAD, 1), (BF16, 2), (AMP, 2), (DYNAMIC, 2)]
)
def test_equal_blocks_are_compiled_once_and_measured(asked: Variant, graphs: int) -> None:
    result = run(stack, asked)
    found = result.findings
    assert (result.status, result.reason) == ("ok", None)
    assert (found.checks.in_effect, found.checks.in_effect_note, found.checks.checked) == (
        True,
        None,
        "exact",
    )
    assert (found.checks.graphs, found.regions.regions, found.regions.regions_called) == (
        graphs,
        DEPTH,
        DEPTH,
    )
    assert json.loads(str(found.regions.region_names)) == [f"blocks.{n}" for n in range(DEPTH)]
    assert json.loads(str(found.checks.seen_axes))["regions"] == "blocks"
    assert (found.checks.recompiles, found.code.generated_kernels, found.code.bytes_accessed) == (
        0,
        None,
        None,
    )
    assert found.work.flops == 2 * DEPTH * 2 * 16 * 16, "all blocks are counted"
    assert found.clocks.dispatch_rounds_s is not None or asked is AMP
    assert found.memory.memory_note is None or asked is AMP
    assert found.profile.guards_s is not None


@pytest.mark.full
def test_a_step_of_training_makes_two_graphs() -> None:
    result = run(stack, TRAINED, Training())
    found = result.findings
    assert (result.status, result.reason) == ("ok", None)
    assert (found.checks.in_effect, found.checks.graphs, found.regions.regions_called) == (
        True,
        2,
        DEPTH,
    )


def test_a_model_without_blocks_is_skipped_before_anything_is_called() -> None:
    result = run(tells)
    assert result.status == "skipped"
    assert result.findings.checks.first_call_s is None


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("whole", "in_effect"), [(0, False), (3, True)])
def test_blocks_that_are_never_called_are_no_compiled_blocks(whole: int, in_effect: bool) -> None:
    result = run(stack, whole=whole)
    found = result.findings
    assert (result.status, found.checks.in_effect, found.regions.regions_called) == (
        "ok",
        in_effect,
        whole,
    )
    assert (found.checks.graphs == 0) == (whole == 0)
    assert found.checks.in_effect_note is not None


@pytest.mark.usefixtures("quick")
def test_a_model_that_counts_its_calls_is_put_back_before_each() -> None:
    result = run(stack, counts=True)
    assert (result.status, result.reason) == ("ok", None)
    assert result.findings.checks.changed_state == "calls"


@pytest.mark.usefixtures("quick")
def test_code_of_a_first_block_with_its_weights_for_all_is_a_wrong_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert run(stack).status == "ok"
    torch.compiler.reset()
    monkeypatch.setattr(regions, "compile_blocks", confused)
    assert run(stack).status == "wrong_result"


def test_the_whole_model_compiled_instead_is_not_in_effect(
    quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regions, "compile_blocks", lambda module, compile_one: compile_one(module))
    assert run(stack).findings.checks.in_effect is False


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("make", [stack, sequentials])
def test_blocks_that_torch_leaves_to_eager_are_noticed(make: Any) -> None:
    subject = modes.prepare(build(model(make), {}), REGIONAL, ONE_CALL)
    built = modes.build(subject, REGIONAL, True, Cpu(), ONE_CALL)
    built.live()
    assert not observing.runs_own_code(built)
    with torch.compiler.set_stance("force_eager"):
        assert observing.runs_own_code(built)
