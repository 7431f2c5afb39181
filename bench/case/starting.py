"""The program of a process that is timed from its start (`bench.case.start`): a user's program.

It makes the model, loads what another process saved, compiles if the mode does, and makes a first
call. A process that fills a cache makes a first call and saves; what is made ahead of time is built
as for a case that counts no starts.
"""

from __future__ import annotations

import errno
import os
import pkgutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any, Protocol

import torch

from modescope.bench.case.torch_setup import set_up_torch
from modescope.bench.devices.allocators import is_out_of_memory
from modescope.bench.devices.cuda import find
from modescope.bench.devices.devices import Hardware, bare_call
from modescope.bench.model import compiler
from modescope.bench.model.building import build
from modescope.bench.model.outputs import comparable, largest_error
from modescope.bench.model.subject import Subject
from modescope.bench.modes import axes, backends, modes
from modescope.bench.modes.phases import phase_of
from modescope.bench.records.caches import CACHES
from modescope.bench.records.cases import Case
from modescope.bench.records.errors import UsageError, one_line
from modescope.bench.records.outcomes import Status
from modescope.bench.records.results import Result
from modescope.bench.records.starts import Asked, Start


class Watch(Protocol):
    """The stopwatch of `bench.case.start`, and what it is told of a first call."""

    def during(self, phase: str) -> Any:
        """Times a block as a phase."""

    def first_call(self) -> Any:
        """Times a block as the model's first call."""

    def read(self) -> dict[str, float]:
        """Returns the seconds of each phase until now."""


def run(asked: Asked, watch: Watch, tell: Callable[[], object]) -> dict[str, Any]:
    """Does what is asked; calls `tell` once the first result is there, and not if it fails.

    Returns the fields of a `records.starts.Start`.
    """
    try:
        return asdict(_fill_ahead(asked, watch) if _is_ahead(asked) else _start(asked, watch, tell))
    except UsageError as error:
        return asdict(Start(failure=str(error)))
    except Exception as error:
        traceback.print_exc()
        status = Status.OOM if is_out_of_memory(error) else Status.FAILED
        full = os.strerror(errno.ENOSPC)  # it may be far down in what a compiler says
        message = f"{full} in {tempfile.gettempdir()}" if full in str(error) else one_line(error)
        return asdict(Start(failure=message, status=status))


def _is_ahead(asked: Asked) -> bool:
    return asked.fills and backends.is_prebuilt(asked.case.variant.mode)


def _fill_ahead(asked: Asked, watch: Watch) -> Start:
    """Makes ahead of time what the mode's backend needs."""
    for function in backends.find(asked.case.variant.mode).before:
        result: Result = pkgutil.resolve_name(function)(
            lambda *phase: None, asked.case, asked.plan, None
        )
        if result.status != Status.CACHE_FILLED:
            return Start(failure=result.reason, status=result.status)
    return Start(own_s=watch.read()["own"])


def _start(asked: Asked, watch: Watch, tell: Callable[[], object]) -> Start:
    case, plan = asked.case, asked.plan
    variant, cache = case.variant, CACHES[plan.compile_cache]
    with watch.during("own"):
        device, phase = find(case.device), phase_of(case.options)
        set_up_torch(case, plan)
        axes.switch(axes.switches(case), variant)
    with watch.during("load"):
        subject = build(case.model, case.largest_shape).to(device.torch_device)
        subject = phase.prepare(subject, plan.seed)
    casts = modes.weight_dtype(variant) is not torch.float32  # else it only copies, as users do not
    with watch.during("load" if casts else "own"):
        own = modes.prepare(subject, variant, phase)
    with watch.during("load"):
        if not asked.fills:
            cache.load()
        built = modes.build(own, variant, case.model.fullgraph, device, phase)
        step = bare_call(built.step)
    with watch.first_call():
        output = step()
        device.synchronize()
    phases_s = watch.read()
    tell()
    began_s = time.monotonic()
    for _ in range(asked.calls):
        step()
    device.synchronize()
    calls_s = time.monotonic() - began_s
    if asked.fills:
        cache.save()
    if asked.output:
        torch.save(comparable(output), asked.output)
    own_s = phases_s.pop("own")
    start = Start(
        whole_s=sum(phases_s.values()),
        own_s=own_s,
        phases_s=phases_s,
        calls_s=calls_s,
    )
    start = _counted(start)  # before the check, which runs the model, too
    return start if asked.fills else replace(start, error=_error(output, subject, case, device))


def _counted(start: Start) -> Start:
    """Returns `start` with what the compiler, if it is imported, counted in this process."""
    if not compiler.is_imported():
        return start
    counters = sys.modules["torch._dynamo.utils"].counters
    made, functions = counters["inductor"], counters["dynamo_cache"]
    return replace(
        start,
        graphs=counters["stats"]["unique_graphs"],
        hits=made["fxgraph_cache_hit"] + functions["dynamo_cache_hit"],
        misses=made["fxgraph_cache_miss"] + made["fxgraph_cache_bypass"],
    )


def _error(output: Any, subject: Subject, case: Case, device: Hardware) -> float | None:
    """Returns the error of `output` against plain eager; None if eager differs from itself."""
    plain = replace(case.variant, mode=case.variant.mode.eager_mode())
    phase = phase_of(case.options)

    def again() -> dict[str, torch.Tensor]:
        own = modes.prepare(subject, plain, phase)
        built = modes.build(own, plain, False, device, phase)
        return comparable(bare_call(built.step)())

    wanted, found = again(), comparable(output)
    if largest_error(wanted, again()):
        return None
    return largest_error(found, wanted)
