"""Compiled modes after their first call, as `bench.passes.gap_steps` reads them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from modescope.bench.case.examine import examine
from modescope.bench.case.torch_setup import set_up_torch
from modescope.bench.devices.cuda import find
from modescope.bench.devices.devices import Hardware
from modescope.bench.evidence import first_call
from modescope.bench.model.subject import Built
from modescope.bench.records.cases import Case, Variant
from tests.helpers import probe_models


@dataclass(frozen=True)
class Entered:
    """A mode that was called, with all that its steps are read from."""

    built: Built
    case: Case
    device: Hardware


def enter(
    build: Callable[..., Any], mode: str = "compile", fullgraph: bool = False, **arguments: Any
) -> Entered:
    """Builds and calls the mode of this name for the model that `build` makes."""
    model = probe_models.model(build, fullgraph, **arguments)
    asked = probe_models.preset(mode)
    dtype = "bf16" if asked.autocast else "fp32"
    case = probe_models.case(model, Variant(asked, dtype))
    plan, device = probe_models.smoke(), find("cpu")
    set_up_torch(case, plan)
    subject = examine(probe_models.silent, case, device, plan).subject
    return Entered(first_call.enter(subject, case.variant, case, device, plan).built, case, device)
