"""Measurements that several claims use: a call's allocations, time, operators and compilations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._functorch import config as aot_autograd
from torch._inductor import config as inductor
from torch.nn import functional

from modescope.bench.allocations import watch_allocations
from modescope.bench.devices.devices import Hardware, Step
from modescope.bench.evidence import watching
from modescope.bench.model import compiler
from modescope.bench.passes.profiler.capture import capture
from modescope.bench.passes.profiler.facts import StepFacts
from modescope.bench.stats.estimates import Estimate
from modescope.bench.timing import memory_layout
from modescope.bench.timing.comparison import compare
from modescope.bench.tools.selfcheck.races import adaptive_budget

STEADY_CALLS = 4
"""Calls after which a call is steady. Compiled code with CUDA graphs first warms up, then records,
then replays."""


def calls(*expressions: str, **names: object) -> dict[str, Callable[[], Any]]:
    """Maps each of `expressions`, which are Python code, to a function that evaluates it.

    An expression may use torch, functional (torch.nn.functional) and `names`.
    """
    scope = {"torch": torch, "functional": functional, **names}
    return {code: eval(f"lambda: {code}", scope) for code in expressions}


def refusal(call: Callable[[], object]) -> str | None:
    """Returns the message of the RuntimeError that `call` raises; None if it raises none."""
    try:
        call()
    except RuntimeError as error:
        return str(error)
    return None


def bytes_taken(device: Hardware, *expressions: str, **names: Tensor) -> dict[str, int]:
    """Returns the bytes that each expression allocates when it is evaluated a second time.

    `expressions` and `names` are those of `calls`. The keys are labels for a claim's numbers.
    """
    numbers = {}
    for code, call in calls(*expressions, **names).items():
        call()
        with watch_allocations(code, str(device.torch_device), report=None) as seen:
            call()
        assert seen.allocated_bytes is not None, seen.unreadable
        numbers[f"bytes taken by {code}"] = seen.allocated_bytes
    return numbers


def speedup(
    case: Step,
    baseline: Step,
    device: Hardware,
    tensors: Sequence[Tensor] = (),
    timed_max_s: float = 2.0,
) -> Estimate:
    """Returns the time of `baseline` ÷ the time of `case`, from paired rounds in random order.

    Both use `tensors`, which move to other memory before each block if the device allows it
    (`memory_layout`).
    """
    compiler.wait_for_workers()
    elsewhere = memory_layout.make_redraw(tensors, device, 0)
    ratio = compare(case, baseline, device, adaptive_budget(timed_max_s), 0, elsewhere).speedup
    assert ratio is not None
    return ratio


def convert(estimate: Estimate, function: Callable[[float], float]) -> Estimate:
    """Returns the estimate with the increasing `function` applied to its value and interval."""
    ends = (None if end is None else function(end) for end in (estimate.low, estimate.high))
    return Estimate(function(estimate.value), *ends)


def work_of(step: Step, device: Hardware) -> StepFacts:
    """Returns what torch's profiler counts in a steady call. It may slow calls that follow."""
    for _ in range(STEADY_CALLS):
        step()
    facts = capture(step, device, None, expected_s=0.0).typical
    if facts is None:
        raise RuntimeError("the profiler saw no call")
    return facts


class CompilerWork(NamedTuple):
    """What torch.compile did in a call."""

    graphs: int
    breaks: int  # lines at which a graph broke
    kernels: int  # generated kernels that the generated code calls
    externs: int  # operators and libraries that it calls


def compiler_work(call: Step) -> CompilerWork:
    """Returns what torch.compile does in a first `call`, with its graph caches off.

    Raises RuntimeError if this torch reports no graph breaks.
    """
    with (
        watching.watch(compiles=True, code=True) as watch,
        inductor.patch(fx_graph_cache=False),
        aot_autograd.patch(enable_autograd_cache=False),
    ):
        call()
    seen = watch.evidence
    if seen.breaks is None:
        raise RuntimeError(f"torch {torch.__version__} does not report graph breaks as expected")
    kernels, externs = seen.code.generated_kernels or 0, seen.code.extern_calls or 0
    return CompilerWork(seen.compiled.graphs, len(seen.breaks.sites), kernels, externs)
