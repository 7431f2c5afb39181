"""Compilations are counted, and recompilations."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from modescope.bench.devices.devices import Cpu
from modescope.bench.evidence import compiler_counts
from modescope.bench.model.building import build
from modescope.bench.modes import modes
from modescope.bench.modes.phases import ONE_CALL
from tests.helpers.probe_models import (
    Remembers,
    model,
    remembers,
    variant,
)


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    yield
    torch.compiler.reset()


@pytest.mark.full
@pytest.mark.parametrize("fullgraph", [True, False])
def test_a_compilation_and_a_recompilation_are_counted(fullgraph: bool) -> None:
    """Torch counts frames only without fullgraph; with it, only graphs tell."""
    start = compiler_counts.read_compiled()
    asked = variant(compile="default")
    made = modes.build(build(model(remembers), {}), asked, fullgraph, Cpu(), ONE_CALL)
    assert compiler_counts.read_compiled().since(start).compilations == 0
    made.step()
    first = compiler_counts.read_compiled()
    assert (first.since(start).compilations, first.since(start).graphs) == (1, 1)
    made.step()
    assert compiler_counts.read_compiled().since(first).compilations == 0
    assert isinstance(made.subject.module, Remembers)
    made.subject.module.number = 1
    made.step()
    assert compiler_counts.read_compiled().since(first).compilations == 1
