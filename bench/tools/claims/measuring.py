"""What experiments share: what a call allocates, takes and makes the compiler do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch._functorch import config as aot_autograd
from torch._inductor import config as inductor

from modescope.bench.allocations import watch_allocations
from modescope.bench.case.profiler.capture import capture
from modescope.bench.case.profiler.facts import StepFacts
from modescope.bench.devices.allocators import Allocations
from modescope.bench.devices.devices import Hardware, Step
from modescope.bench.stats.estimates import Estimate
from modescope.bench.steps import compiler
from modescope.bench.steps.evidence import generated_code, graph_break_watch, mode_effect
from modescope.bench.timing import memory_layout
from modescope.bench.timing.comparison import compare
from modescope.bench.timing.timers import latency
from modescope.bench.tools.selfcheck.trials import adaptive

Returned = TypeVar("Returned")

TIMED_MAX_S = 2.0

STEADY_CALLS = 4
"""Calls before a call is steady: compiled CUDA graphs warm up, record, and replay from then on."""


def allocated_by(step: Callable[[], object], device: Hardware) -> Allocations:
    """What a call allocates once it has been called before; its result is held to the end.

    So `left_bytes` is the memory of the result that is its own, and `allocated_bytes` has what the
    call needs meanwhile, too. Raises RuntimeError where the allocator tells nothing.
    """
    step()
    return watched(step, device)[1]


def watched(step: Callable[[], Returned], device: Hardware) -> tuple[Returned, Allocations]:
    """The result of a call, and what the call allocates, though it was not called before."""
    with watch_allocations("a call", str(device.torch_device), report=None) as counted:
        result = step()
    if counted.result is None:
        raise RuntimeError(counted.unreadable)
    return result, counted.result


def speedup(
    case: Step,
    baseline: Step,
    device: Hardware,
    tensors: Sequence[torch.Tensor] = (),
    timed_max_s: float = TIMED_MAX_S,
    seed: int = 0,
) -> Estimate:
    """How many times as fast as `baseline` `case` is, in paired rounds of random order.

    Waits for the device in each call. `tensors`: what both work on, these very objects, placed
    anew for each block where the device allows it (`memory_layout`).
    """
    compiler.wait_for_workers()
    elsewhere = memory_layout.anew(tensors, device, seed)
    ratio = compare(case, baseline, device, adaptive(timed_max_s), seed, elsewhere).speedup
    assert ratio is not None
    return ratio


def refusal(call: Callable[[], object]) -> str | None:
    """What torch says where it refuses the call; None where it does not."""
    try:
        call()
    except RuntimeError as error:
        return str(error)
    return None


def columns(rows: Mapping[str, Sequence[object]]) -> list[dict[str, object]]:
    """The values of several figures, by case, of a row for each case."""
    return [dict(zip(rows, column, strict=True)) for column in zip(*rows.values(), strict=True)]


def load_compiler(device: Hardware) -> None:
    """Compiles next to nothing, with a backward: later first calls need not load what all share."""
    compiled = torch.compile(lambda x: (x + 1).sum())
    compiled(torch.ones(8, device=device.torch_device, requires_grad=True)).backward()
    compiler.wait_for_workers()


def first_call_s(step: Step, device: Hardware) -> float:
    """Seconds of one call, such as the first one of compiled code."""
    (seconds,) = latency(step, device, 1).samples_s
    return seconds


def work_of(step: Step, device: Hardware) -> StepFacts:
    """The work of a steady call on the device, from the profiler.

    Profiling may slow what comes later, so it comes after all timing. On a CPU, kernels are
    operators that do work of their own, without generated ones. Raises RuntimeError where the
    profiler sees nothing.
    """
    for _ in range(STEADY_CALLS):
        step()
    facts = capture(step, device, None, expected_s=0.0).typical
    if facts is None:
        raise RuntimeError("the profiler saw no call")
    return facts


@dataclass(frozen=True)
class CompilerWork:
    """What the compiler did in a call."""

    compilations: int  # how often it was called: the first time, for pieces, and again
    graphs: int
    breaks: int  # lines at which a graph broke
    kernels: int  # generated kernels that one call of all wrappers calls
    externs: int  # operators and libraries that they call


def compiler_work(call: Step) -> CompilerWork:
    """What a call makes the compiler do, where graphs are not taken from caches of earlier ones.

    What came from such a cache would have no kernels. Libraries that were built before are used.
    """
    before = mode_effect.compiled_so_far()
    with (
        generated_code.watch() as code,
        graph_break_watch.watch() as broken,
        inductor.patch(fx_graph_cache=False),
        aot_autograd.patch(enable_autograd_cache=False),
    ):
        call()
    generated = code.generated
    assert generated is not None
    done = mode_effect.compiled_so_far().since(before)
    return CompilerWork(
        compilations=done.compilations,
        graphs=done.graphs,
        breaks=graph_break_watch.count(broken),
        kernels=generated.columns.generated_kernels or 0,
        externs=generated.columns.extern_calls or 0,
    )
