"""The user's program is measured: with its hooks, shared weights, dtypes, state and inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from modescope.bench.case import runner
from modescope.bench.case.examine import EAGER_FAILS
from modescope.bench.records.cases import Model, Training, Variant, canonical_json
from modescope.bench.records.results import row
from tests.helpers import users_programs
from tests.helpers.probe_models import EAGER, WIDTH, case, silent, smoke, variant
from tests.helpers.users_programs import (
    HOOK_CALLS,
    Built,
    adapted,
    decodes,
    double,
    gains,
    hooked,
    locked,
    narrow,
    pruned,
    registered,
    sharing,
    single,
    slope,
    spaced,
)

pytestmark = pytest.mark.usefixtures("as_in_a_child", "restored_settings")

INFERENCE = variant(grad="inference_mode")
BF16 = Variant(EAGER, "bf16")
OK = {"status": "ok", "checked": "exact"}

Build = Callable[..., Built]


def run(build: Build, asked: Variant, memory: bool = False, **arguments: Any) -> dict[str, Any]:
    target = f"{users_programs.__name__}:{build.__name__}"
    model = Model(f"custom:{target}", target, canonical_json(arguments))
    result = runner.run(silent, case(model, asked), replace(smoke(), memory=memory))
    return {"status": result.status, "reason": result.reason, **row(result.findings)}


def train(build: Build) -> dict[str, Any]:
    target = f"{users_programs.__name__}:{build.__name__}"
    asked = replace(case(Model(target, target), variant()), options=Training())
    result = runner.run(silent, asked, smoke())
    return {"status": result.status, "reason": result.reason, **row(result.findings)}


MEASURED: dict[str, tuple[Build, Variant, dict[str, Any]]] = {
    "a lock": (locked, INFERENCE, OK),
    "a weight that a hook computes": (pruned, INFERENCE, OK | {"changed_state": "0.weight"}),
    "a closure over a layer": (adapted, INFERENCE, OK),
    "a closure over a layer, cast": (adapted, BF16, OK),
    "one module for all calls of the builder": (single, BF16, OK),
    "an input that requires a gradient": (slope, variant(), OK | {"changed_arguments": None}),
    "an attribute of an input": (spaced, INFERENCE, OK),
    "float64": (
        double, INFERENCE,
        OK | {"dtypes_kept": "float64", "seen_weight_dtype": "float64", "in_effect": True},
    ),
    "float64, where bf16 is asked for": (double, BF16, OK | {"in_effect": False}),
    "float8": (
        narrow, BF16,
        OK | {"dtypes_kept": "float8_e4m3fn", "seen_weight_dtype": "bfloat16, float8_e4m3fn"}
        | {"in_effect": True},
    ),
    "a position": (decodes, INFERENCE, OK | {"changed_state": "keys, position"}),
}  # fmt: skip


@pytest.mark.parametrize("name", MEASURED)
def test_the_users_program_is_measured(name: str) -> None:
    build, asked, expected = MEASURED[name]
    found = run(build, asked)
    assert {column: found[column] for column in expected} == expected, found["reason"]


def test_a_position_in_python_is_put_back_and_compiled_once() -> None:
    for asked in (INFERENCE, variant(grad="inference_mode", compile="default")):
        found = run(decodes, asked, by_number=True)
        assert (found["status"], found["changed_state"]) == ("ok", "keys, number"), found["reason"]
        assert found["recompiles"] == 0


def test_weights_that_share_memory_share_it_in_every_copy() -> None:
    found = run(sharing, INFERENCE, memory=True)
    assert found["weights_bytes"] == 4 * (WIDTH * WIDTH + 2 * WIDTH)


def test_gradients_are_needed_where_the_model_needs_them() -> None:
    found = run(slope, INFERENCE)
    assert found["status"] == "failed"
    assert "does not require grad" in found["reason"]


def test_a_hook_of_a_parameter_runs_in_timed_steps() -> None:
    HOOK_CALLS.clear()
    assert train(hooked)["status"] == "ok"
    assert len(HOOK_CALLS) > 20


def test_leaves_get_no_gradients_of_earlier_steps() -> None:
    found = train(slope)
    assert (found["status"], found["changed_arguments"]) == ("ok", "[0]"), found["reason"]


def test_modules_that_find_their_parts_in_a_table_are_refused() -> None:
    for asked in (INFERENCE, BF16):
        found = run(registered, asked)
        assert (found["status"], found["error"]) == ("failed", None)
        assert "layer.weight of another one" in found["reason"]


def test_a_copy_that_fails_is_not_the_models_fault() -> None:
    assert run(gains, INFERENCE)["status"] == "ok"
    found = run(gains, INFERENCE, single=True)
    assert found["status"] == "failed"
    assert "a copy of the model does something else" in found["reason"]
    assert EAGER_FAILS not in found["reason"]
