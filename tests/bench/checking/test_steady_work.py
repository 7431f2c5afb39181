"""Every call that is made of a model is the user's call, and does the work of one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from modescope.bench.case import runner
from modescope.bench.records.cases import Case, Training, Variant
from modescope.bench.records.results import Result
from modescope.bench.timing import timers
from tests.helpers.probe_models import (
    BEGUN,
    case,
    consumes,
    model,
    silent,
    smoke,
    variant,
)

pytestmark = pytest.mark.usefixtures("as_in_a_child", "one_thread", "restored_settings")

EAGER = variant()
INFERENCE = variant(grad="inference_mode")


def run(asked: Case, **plan: object) -> Result:
    return runner.run(silent, asked, replace(smoke(), **plan))  # type: ignore[arg-type]


@pytest.mark.parametrize("asked", [EAGER, INFERENCE], ids=["eager", "inference_mode"])
def test_every_call_begins_with_the_example_or_inputs_of_a_check(
    asked: Variant, tmp_path: Path
) -> None:
    BEGUN.clear()
    result = run(case(model(consumes), asked), profile=True, memory=True, results_dir=str(tmp_path))
    found = result.findings
    assert (result.status, result.reason) == ("ok", None)
    assert {length for _, length in BEGUN} == {3}
    assert len(BEGUN) == 3  # the example, and two fresh inputs
    assert found.checks.changed_arguments == "[0], [1][0], [1][1], [1][2]"
    assert (found.checks.steady_operators, found.flags.count("other_operators")) == (None, 0)
    assert found.clocks.host_rounds_s
    assert found.clocks.dispatch_rounds_s
    assert (found.clocks.pipelined_rounds_s, found.clocks.pipelined_note) == (
        None,
        timers.NOT_IN_A_ROW,
    )


def test_a_training_step_begins_with_the_example(tmp_path: Path) -> None:
    BEGUN.clear()
    asked = replace(case(model(consumes), EAGER), options=Training("sgd"))
    result = run(asked, profile=True, memory=True, results_dir=str(tmp_path))
    assert (result.status, result.reason) == ("ok", None)
    assert {length for _, length in BEGUN} == {3}
    assert len(BEGUN) == 4  # the example, and a batch for each of three steps
