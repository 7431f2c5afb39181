"""Cases whose calls change their size, on tiny models with one fault each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from modescope.bench.case import runner
from modescope.bench.records.cases import Case, Inference, Model, Variant, canonical_json
from modescope.bench.records.errors import UsageError
from modescope.bench.records.results import Result
from tests.helpers.findings import rounds_of
from tests.helpers.probe_models import WIDTH, case, silent, smoke, variant

pytestmark = pytest.mark.usefixtures("as_in_a_child", "restored_settings")

INFERENCE_MODE = variant(grad="inference_mode")
STATIC = variant(grad="inference_mode", compile="default")
FAULTY = 7  # the length at which a model has its fault


class Net(nn.Module):
    """A linear layer over a sequence, and a function of its result."""

    def __init__(self, function: Callable[[Net, Tensor], Any]) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(self, self.linear(x))


def _wrong(net: Net, y: Tensor) -> Tensor:
    return y * 2 if torch.is_inference_mode_enabled() and y.shape[1] == FAULTY else y


def _too_large(net: Net, y: Tensor) -> Tensor:
    if torch.is_inference_mode_enabled() and y.shape[1] == FAULTY:
        raise torch.OutOfMemoryError("no more memory")
    return y


FUNCTIONS: dict[str, Callable[[Net, Tensor], Tensor]] = {
    "plain": lambda net, y: y.relu(),
    "wrong at one size": _wrong,
    "too large at one size": _too_large,
    "keeps some": lambda net, y: y if y.shape[1] == FAULTY else y[y > 0],
    "changes its argument": lambda net, y: y,
}


def built(name: str, seq: int) -> tuple[nn.Module, tuple[Tensor]]:
    net = Net(FUNCTIONS[name])
    if name == "changes its argument":
        net.linear.register_forward_pre_hook(lambda linear, given: (given[0].mul_(2),))
    return net, (torch.randn(2, seq, WIDTH),)


def asked(
    name: str, sizes: list[int], of: Variant = INFERENCE_MODE, pad: list[int] | None = None,
    fullgraph: bool = False, dynamic: bool | None = None,
) -> Case:  # fmt: skip
    options = Inference(
        canonical_json({"seq": sizes}), canonical_json({"seq": pad}) if pad else None
    )
    target = f"{__name__}:{built.__name__}"
    of = replace(of, mode=replace(of.mode, dynamic=dynamic))
    model = Model(f"custom:{target}", target, canonical_json({"name": name}), fullgraph)
    shape = canonical_json({"seq": max(sizes)})
    return replace(case(model, of), shape_json=shape, options=options)


def run(measured: Case) -> Result:
    return runner.run(silent, measured, smoke())


def test_one_pass_is_timed_and_each_size_is_told_apart() -> None:
    sizes = [5, 3, 5, FAULTY, 3]
    result = run(asked("plain", sizes))
    assert (result.status, result.reason) == ("ok", None)
    found = result.findings
    first = json.loads(found.first_pass.first_pass_s or "")
    assert len(first) == len(sizes)
    assert (found.checks.first_call_s or 0) > sum(first)
    latencies = json.loads(found.size_latencies.size_latencies_s or "")
    assert latencies.keys() == {"seq=5", "seq=3", f"seq={FAULTY}"}
    assert all(len(each) == 2 and min(each) > 0 for each in latencies.values())
    assert (
        found.first_pass.compiled_calls,
        found.first_pass.gave_up_at_call,
        found.first_pass.eager_calls,
    ) == ("[]", None, None)
    assert rounds_of(found).latency_rounds_s
    assert rounds_of(found).baseline_latency_rounds_s
    assert min(rounds_of(found).latency_rounds_s) > max(min(each) for each in latencies.values())
    assert found.checks.checked == "exact"


def test_a_padded_case_computes_more_than_its_baseline() -> None:
    result = run(asked("plain", [1, 2], pad=[4096]))
    assert (result.status, result.findings.checks.steady_operators) == ("ok", None)
    latencies = json.loads(result.findings.size_latencies.size_latencies_s or "")
    assert latencies.keys() == {"seq=1", "seq=2"}
    assert all(case_s > 2 * baseline_s for case_s, baseline_s in latencies.values())
    assert result.findings.checks.error_place == "output at seq=4096"


def test_what_fails_at_one_size_names_it() -> None:
    wrong = run(asked("wrong at one size", [5, FAULTY, 3]))
    assert wrong.status == "wrong_result"
    assert wrong.findings.checks.error_place == f"output at seq={FAULTY}"
    assert run(asked("wrong at one size", [5, 3])).status == "ok"
    too_large = run(asked("too large at one size", [5, FAULTY, 3]))
    assert too_large.status == "oom"
    assert (too_large.reason or "").startswith(f"call 2, seq={FAULTY}: ")
    with pytest.raises(UsageError, match="calls=repeat"):
        run(asked("changes its argument", [2, 3]))


def test_what_rounding_does_at_one_size_is_explained_there() -> None:
    amp = variant("bf16", autocast=True, grad="inference_mode")
    found = run(asked("keeps some", [2000, FAULTY], amp)).findings
    assert (found.checks.checked, found.checks.error_place) == ("exact", f"output at seq={FAULTY}")
    assert found.checks.unchecked_outputs == "output at seq=2000"
    assert "explained by rounding" in (found.checks.checked_note or "")
    found = run(asked("keeps some", [2000], amp)).findings
    assert (found.checks.checked, found.checks.error, found.checks.error_place) == (
        "not",
        None,
        None,
    )


@pytest.fixture
def few_compilations() -> Iterator[int]:
    import torch._dynamo

    with torch._dynamo.config.patch(recompile_limit=3):
        yield 3
    torch.compiler.reset()


def compiled(result: Result) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(result.findings.first_pass.compiled_calls or "")
    return found


@pytest.mark.full
def test_static_code_compiles_until_the_limit_and_then_runs_in_eager(few_compilations: int) -> None:
    sizes = [5, 5, 3, 4, 6, 5, 8, 6]
    result = run(asked("plain", sizes, STATIC, dynamic=False))
    assert result.status == "ok"
    assert [one["call"] for one in compiled(result)] == [1, 3, 4]
    assert "size mismatch" in compiled(result)[1]["reason"]
    found = result.findings
    assert found.first_pass.gave_up_at_call == 5
    assert json.loads(found.first_pass.eager_calls or "") == [5, 7, 8]  # lengths 6, 8 and 6
    assert (found.checks.graphs, found.checks.graph_breaks, found.checks.eager_functions) == (
        3,
        0,
        "[]",
    )


@pytest.mark.full
def test_a_call_beyond_the_limit_fails_where_breaks_are_errors(few_compilations: int) -> None:
    result = run(asked("plain", [5, 3, 4, 6], STATIC, dynamic=False, fullgraph=True))
    assert result.status == "failed"
    assert (result.reason or "").startswith("call 4, seq=6: ")
    assert "size mismatch" in (result.reason or "")


@pytest.mark.full
@pytest.mark.parametrize(
    ("dynamic", "sizes", "calls"),
    [
        (None, [5, 3, 4, 6, 8], [1, 2]),  # torch generalises at the second size
        (True, [5, 3, 4, 6, 8], [1]),
        (True, [5, 3, 1, 6, 1], [1, 3]),  # a size of 1 is always compiled for itself
    ],
)
def test_dynamic_code_compiles_once_or_twice(
    few_compilations: int, dynamic: bool | None, sizes: list[int], calls: list[int]
) -> None:
    result = run(asked("plain", sizes, STATIC, dynamic=dynamic, fullgraph=True))
    assert result.status == "ok"
    assert [one["call"] for one in compiled(result)] == calls
    assert (result.findings.first_pass.gave_up_at_call, result.findings.first_pass.eager_calls) == (
        None,
        None,
    )
    assert result.findings.checks.in_effect
