"""Facts about the instrument: the gate, device time, the clocks, empty batches, child processes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch

from modescope.bench.case import runner
from modescope.bench.records.cases import Case, Mode, Model, Variant
from modescope.bench.records.results import Findings, Result
from modescope.bench.sweep.process import isolation
from modescope.bench.timing import timers
from modescope.bench.tools.selfcheck.outcomes import CheckRow
from tests.helpers.probe_models import EAGER, preset, silent, smoke
from tests.helpers.processes import alive, marker, soon
from tests.proof.facts.fact import Fact, Place, row

HOLDS_S = (1e-3, 1e-2, 1e-1)
HELD_WITHIN = 0.2
AGREES, AGREES_S = 0.05, 5e-6  # after waiting, the caches of the host are colder
MLP = Model("mlp", "modescope.models.mlp:build")
DEVICE_BOUND = "device-bound"
SHAPES = {
    DEVICE_BOUND: '{"batch":4096,"depth":4,"width":4096}',
    "host-bound": '{"batch":1,"depth":4,"width":64}',
}
SMALL_SHAPE = '{"batch":64,"depth":4,"width":256}'

READS_WELL = replace(
    smoke().budget, warmup_min_s=0.5, warmup_max_s=3.0, block_s=2e-3, pilot_rounds=12,
    min_rounds=12, max_rounds=12, timed_max_s=3.0, clock_rounds=24,
)  # fmt: skip

MODES = {
    "eager": replace(EAGER, grad="inference_mode"),
    "cuda-graph": replace(EAGER, name="cuda-graph", grad="inference_mode", graph=True),
}


def held_for_the_asked_time(place: Place) -> Iterator[CheckRow]:
    """A spin lasts as long as was asked."""
    device = place.device
    for seconds in HOLDS_S:
        begin = device.mark()
        device.hold(seconds)
        end = device.mark()
        device.synchronize()
        ratio = end.seconds_since(begin) / seconds
        yield row(
            f"a hold of {seconds * 1e3:g} ms", "idle device", f"{ratio:.3f} of it",
            f"within {HELD_WITHIN:.0%}", abs(ratio - 1) <= HELD_WITHIN, ratio,
        )  # fmt: skip


def the_proof_of_the_gate(place: Place) -> Iterator[CheckRow]:
    """The first mark is not reached while the device is held, and it is afterwards."""
    device = place.device
    device.hold(0.2)
    mark = device.mark()
    early = mark.reached()
    device.synchronize()
    late = mark.reached()
    found = f"reached while held: {early}, afterwards: {late}"
    yield row("a mark behind a hold", "idle device", found, "False, True", (early, late) == (0, 1))


def a_step_that_waits(place: Place) -> Iterator[CheckRow]:
    """A step that reads a value from the device waits for the gate, so it has no device time."""
    x = torch.ones(8, device=place.device.torch_device)
    timing = timers.device_time(lambda: x.sum().item(), place.device, 3)
    yield row(
        "device time of a step that waits", "gated", timing.reason or f"{timing.median_s} s",
        "none", not timing.samples_s,
    )  # fmt: skip


@cache
def findings(mode: Mode, shape_json: str, device: str) -> Findings:
    """The findings of a run in this process; raises AssertionError where it does not end well."""
    asked = Case(MLP, shape_json, Variant(mode, "bf16"), None, device, threads=1)
    result = runner.run(silent, asked, replace(smoke(), budget=READS_WELL))
    assert result.status == "ok", result.reason
    return result.findings


def medians_s(found: Findings) -> dict[str, float | None]:
    """The median of each clock, all of the same rounds; None where it was not read."""
    rounds = {
        "latency": found.clocks_latency_rounds_s,
        "host": found.host_rounds_s,
        "device": found.device_rounds_s,
        "pipelined": found.pipelined_rounds_s,
        "dispatch": found.dispatch_rounds_s,
    }
    return {clock: median(each) if each else None for clock, each in rounds.items()}


def of_works(place: Place) -> Iterator[tuple[str, str]]:
    """The names and the shapes of works."""
    for work, shape_json in SHAPES.items():
        yield work, SMALL_SHAPE if place.small else shape_json


def agrees(one: float, other: float) -> bool:
    """Whether two times are equal within 5 % or 5 µs."""
    return abs(one - other) <= max(AGREES * other, AGREES_S)


def eager_and_its_graph(place: Place) -> Iterator[CheckRow]:
    """Gated, eager takes the device as long as its own graph does, if its kernels are long.

    Between short ones the device pauses longer than within a graph, which is reported only.
    """
    for work, shape_json in of_works(place):
        eager_s, graph_s = (
            medians_s(findings(MODES[mode], shape_json, place.name))["device"] for mode in MODES
        )
        name = "device_s: eager ÷ the same captured"
        if not eager_s or not graph_s:
            yield row(name, work, "not measured", f"within {AGREES:.0%} of 1", False)
            continue
        long = work == DEVICE_BOUND
        yield row(
            name, work, f"{eager_s / graph_s:.3f} ({eager_s * 1e6:.1f} and {graph_s * 1e6:.1f} µs)",
            f"within {AGREES:.0%} of 1 or {AGREES_S * 1e6:g} µs" if long else "",
            agrees(eager_s, graph_s) if long else None, eager_s / graph_s,
        )  # fmt: skip


def invariants(place: Place) -> Iterator[CheckRow]:
    """pipelined is max(host, device); latency lies between that and host + device + waiting."""
    for work, shape_json in of_works(place):
        for name, mode in MODES.items():
            found = findings(mode, shape_json, place.name)
            clocks = medians_s(found)
            texts = (f"{k} {v * 1e6:.1f}" for k, v in clocks.items() if v and k != "dispatch")
            condition = f"{name}, {work}: {', '.join(texts)} µs"
            latency_s, host_s, device_s, pipelined_s = list(clocks.values())[:4]
            if not (latency_s and host_s and device_s and pipelined_s):
                yield row("clocks agree", condition, found.device_note or "none", "all", False)
                continue
            larger_s = max(host_s, device_s)
            most_s = host_s + device_s + (found.synchronize_s or 0.0)
            yield row(
                "pipelined ÷ max(host, device)", condition, f"{pipelined_s / larger_s:.3f}",
                f"within {AGREES:.0%} of 1", agrees(pipelined_s, larger_s), pipelined_s / larger_s,
            )  # fmt: skip
            yield row(
                "latency", condition, f"{latency_s * 1e6:.1f} µs",
                f"{larger_s * 1e6:.1f} to {most_s * 1e6:.1f} µs, within {AGREES:.0%}",
                (1 - AGREES) * larger_s <= latency_s <= (1 + AGREES) * most_s + AGREES_S, latency_s,
            )  # fmt: skip


def an_empty_batch(place: Place) -> Iterator[CheckRow]:
    """What a call on an empty batch takes: no more than the host needs for a call with work."""
    for work, shape_json in of_works(place):
        for name, mode in MODES.items():
            found = findings(mode, shape_json, place.name)
            clocks = medians_s(found)
            dispatch_s, host_s = clocks["dispatch"], clocks["host"]
            if not dispatch_s or not host_s:
                note = found.dispatch_note or "not measured"
                yield row("empty batch", f"{name}, {work}", note, "", None)
                continue
            yield row(
                "empty batch", f"{name}, {work}",
                f"{dispatch_s * 1e6:.1f} µs; with work the host needs {host_s * 1e6:.1f} µs",
                f"at most that, within {AGREES:.0%}",
                dispatch_s <= (1 + AGREES) * host_s + AGREES_S, dispatch_s,
            )  # fmt: skip


def child_processes(place: Place) -> Iterator[CheckRow]:
    """Children of one forkserver use CUDA, Triton and compile workers, and leave no process."""
    for name in ("eager", "compile", "compile", "reduce-overhead"):
        sign = marker()
        case = Case(MLP, SMALL_SHAPE, Variant(preset(name), "fp32"), None, place.name, threads=1)
        with TemporaryDirectory() as caches:
            variables = {
                "MODESCOPE_TEST": sign,
                "TORCHINDUCTOR_CACHE_DIR": caches,
                "TRITON_CACHE_DIR": str(Path(caches) / "triton"),
            }
            begin = time.monotonic()
            outcome = isolation.call(
                "modescope.bench.case.runner:run", case, smoke(), timeout_s=120, variables=variables
            )
            seconds = time.monotonic() - begin
        result = outcome.value
        ended = result.status if isinstance(result, Result) else outcome.kind
        gone = soon(lambda sign=sign: not alive(sign), 5.0)  # type: ignore[misc]
        why = outcome.reason or (result.reason if isinstance(result, Result) else None)
        text = f"{ended} after {seconds:.1f} s, {'no' if gone else 'A'} process is left"
        yield row(
            "a child process", name, f"{text}{f' ({why})' if why else ''}", "ok, no process",
            ended == "ok" and gone, seconds,
        )  # fmt: skip


GROUPS: dict[str, Sequence[Fact]] = {
    "gate": (held_for_the_asked_time, the_proof_of_the_gate, a_step_that_waits),
    "clocks": (eager_and_its_graph, invariants),
    "empty-batch": (an_empty_batch,),
    "processes": (child_processes,),
}
