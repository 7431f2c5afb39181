"""Programs in which nothing is wrong, though names and counts look like those of faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn

import modescope
from tests.helpers.watched_programs import BACKEND, Net


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled_within_compiled() -> None:
    inner = torch.compile(lambda x: x * 2, backend=BACKEND)
    outer = torch.compile(lambda x: inner(x) + 1, backend=BACKEND)
    outer(torch.ones(2))


def blocks_within_compiled_model() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    for block in model:
        block.compile(backend=BACKEND)
    torch.compile(model, backend=BACKEND)(torch.ones(2, 3))


def two_functions_of_one_name() -> None:
    for function in (lambda x: x + 1, lambda x: x * 2):
        torch.compile(function, backend=BACKEND)(torch.ones(2))


def two_ways_to_compile_a_function() -> None:
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    for dynamic in (None, True, False):
        torch.compile(double, backend=BACKEND, dynamic=dynamic)(torch.ones(3))


def helper_without_use() -> None:
    @torch.compile(backend=BACKEND)
    def helper(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    torch.compile(Net(), backend=BACKEND)(torch.ones(2, 8))


def compiled_optimizer() -> None:
    layer = nn.Linear(3, 3)
    optimizer = torch.optim.Adam(layer.parameters())

    @torch.compile(backend=BACKEND)
    def step() -> None:
        optimizer.step()

    for _ in range(3):
        layer(torch.ones(2, 3)).sum().backward()
        step()
        optimizer.zero_grad()


HEALTHY = (
    compiled_within_compiled, blocks_within_compiled_model, two_functions_of_one_name,
    two_ways_to_compile_a_function, helper_without_use, compiled_optimizer,
)  # fmt: skip


@pytest.mark.parametrize("program", HEALTHY, ids=lambda program: program.__name__)
def test_nothing_is_said(program: Callable[[], None]) -> None:
    with modescope.watch(None, quiet=True) as result:
        program()
    assert result.faults == [], str(result)


def test_reason_to_give_up_is_that_of_the_function() -> None:
    def gives_up(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
        return x * by

    with modescope.watch(None, quiet=True) as result:
        sizes = torch.compile(gives_up, backend=BACKEND, dynamic=False)
        values = torch.compile(scaled, backend=BACKEND, dynamic=False)
        with torch.compiler.set_stance("force_eager"):
            sizes(torch.ones(2))
        for rows in range(2, 13):
            sizes(torch.ones(rows))
        for by in (1.0, 2.0):
            values(torch.ones(2), by)
    (fault,) = result.faults
    assert fault.code == "gave_up"
    assert "size" in fault.texts["why"]
    assert fault.texts["call"] == "10"


def test_stop_that_the_program_catches() -> None:
    compiled = torch.compile(lambda x: x + 1, backend=BACKEND, dynamic=False)
    with modescope.watch(None, quiet=True, stop_on="recompile") as result:
        compiled(torch.ones(2))
        with pytest.raises(torch._dynamo.exc.RecompileError):
            compiled(torch.ones(3))
    assert result.faults == []


def test_limit_of_a_function_from_before_the_watch() -> None:
    compiled = torch.compile(lambda x: x + 1, backend=BACKEND, dynamic=False)
    with modescope.watch(None, quiet=True) as result:
        for rows in range(2, 13):
            compiled(torch.ones(rows))
    assert [fault.code for fault in result.faults] == ["gave_up_partly"]


def test_module_of_a_namespace_that_no_module_has() -> None:
    scope = {"torch": torch}
    exec("class Own(torch.nn.Module):\n    def forward(self, x): return x * 2", scope)
    compiled = torch.compile(scope["Own"](), backend=BACKEND)  # type: ignore[operator]
    compiled(torch.ones(2))
    with modescope.watch(None, quiet=True) as result:
        compiled(torch.ones(2))
    assert result.faults == []
    assert result.frame["calls"].tolist() == [1]
