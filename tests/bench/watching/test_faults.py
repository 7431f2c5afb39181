"""Twelve programs with one fault each, and their healthy twins, watched in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
import torch

import modescope
from modescope.bench.watching import watch as watching
from tests.helpers.watched_programs import PROGRAMS

NAMES = [
    pytest.param(
        name, marks=pytest.mark.full if name == "missed_cache" else ()
    )  # it needs a compiler
    for name in PROGRAMS
]


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch.compiler.set_stance("default")
    torch._dynamo.reset()


def run(name: str, healthy: bool) -> modescope.bench.api.watching.WatchResult:
    program, _ = PROGRAMS[name]
    results = []
    with suppress(SystemExit), modescope.watch(None, quiet=True) as result:
        results.append(result)
        program(healthy)
    return results[0]


@pytest.mark.parametrize("name", NAMES)
def test_fault_is_told(name: str) -> None:
    result = run(name, healthy=False)
    assert [fault.code for fault in result.faults] == [PROGRAMS[name][1]], str(result)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_said_of_the_healthy_twin(name: str) -> None:
    result = run(name, healthy=True)
    assert result.faults == [], str(result)


def test_place_where_the_module_runs_itself() -> None:
    (fault,) = run("forward_is_called", healthy=False).faults
    assert "watched_programs.py" in fault.texts["itself"]


def test_place_of_the_break_that_leaves_a_loop_to_python() -> None:
    (fault,) = run("break_in_a_loop", healthy=False).faults
    assert "graph_break" in fault.texts["why"]
    assert "watched_programs.py" in fault.texts["why"]


def test_seconds_add_up() -> None:
    seen = run("compiled_under_a_lock", healthy=False).record
    parts = seen.compiling_s + seen.compiled_s + (seen.eager_s or 0) + seen.rest_s
    assert parts == pytest.approx(seen.wall_s)
    assert 1.5 < seen.compiling_s < 2.5
    assert seen.rest_s > 0.2  # the sleeps


def test_all_is_put_back() -> None:
    from torch._dynamo import callback, convert_frame, utils
    from torch._dynamo.eval_frame import OptimizeContext
    from torch._dynamo.output_graph import OutputGraph

    def state() -> list[object]:
        return [
            convert_frame._compile,
            OptimizeContext.__call__,
            OutputGraph.install_global_unsafe,
            list(callback.callback_handler.start_callbacks),
            list(callback.callback_handler.end_callbacks),
            utils._compilation_metrics.maxlen,
        ]

    before = state()
    compiled = torch.compile(lambda x: x * 2 + 1, backend="eager")
    outer, inner = modescope.watch(None, quiet=True), modescope.watch(None, quiet=True)
    with suppress(ZeroDivisionError), outer, inner:
        compiled(torch.ones(2))
        raise ZeroDivisionError
    assert state() == before
    assert not [name for name in globals() if _is_wrapped(globals()[name])]
    assert not watching._SHARED.watches
    assert watching._SHARED.hooks is None


def _is_wrapped(value: object) -> bool:
    return hasattr(value, "piece")


def test_inner_watch_has_its_own_counts() -> None:
    compiled = torch.compile(lambda x: x * 2 + 1, backend="eager")
    with modescope.watch(None, quiet=True) as outer:
        compiled(torch.ones(2))
        with modescope.watch(None, quiet=True) as inner:
            compiled(torch.ones(2))
            compiled(torch.ones(2))
        compiled(torch.ones(2))
    assert (inner.frame["calls"].sum(), outer.frame["calls"].sum()) == (2, 4)
    assert (inner.frame["compilations"].sum(), outer.frame["compilations"].sum()) == (0, 1)


def test_calls_of_what_was_compiled_before() -> None:
    compiled = torch.compile(lambda x: x * 2 + 1, backend="eager")
    compiled(torch.ones(2))
    with modescope.watch(None, quiet=True) as result:
        compiled(torch.ones(2))
    assert result.frame["calls"].tolist() == [1]


def test_stop_on_recompile() -> None:
    compiled = torch.compile(lambda x: x * 2 + 1, backend="eager", dynamic=False)
    with modescope.watch(None, quiet=True, stop_on="recompile"):
        compiled(torch.ones(2))
        with pytest.raises(torch._dynamo.exc.RecompileError):
            compiled(torch.ones(3))
    compiled(torch.ones(4))


def test_unknown_stop_is_refused() -> None:
    with pytest.raises(modescope.UsageError, match="recompile"):
        modescope.watch(stop_on="break")


def test_outputs_have_the_same_bits() -> None:
    net = torch.nn.Linear(8, 8)
    compiled = torch.compile(net, backend="aot_eager")
    x = torch.randn(4, 8)
    expected = compiled(x)
    torch._dynamo.reset()
    with modescope.watch(None, quiet=True):
        assert torch.equal(torch.compile(net, backend="aot_eager")(x), expected)
