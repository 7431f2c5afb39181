"""What a call of a tiny operator costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Annotated, Any

import torch
from torch import Tensor

from bench import placement, stats
from bench.claims import ranges
from bench.claims.claim import Verdict, claim
from bench.devices import Hardware, Step
from bench.rounds import quiet_gc
from bench.stats import Estimate
from bench.timers import host

IN_A_ROW = 50  # calls between two readings of the clock, which costs 0.1 µs
BLOCKS = 25
STEPS_PER_BLOCK = 10

COST_S = (1e-6, 5e-6)

# Each is one dispatch from Python, on tensors of one element.
OPS: dict[str, Callable[[Tensor, Tensor], object]] = {
    "x.detach()": lambda x, w: x.detach(),
    "x.view(-1)": lambda x, w: x.view(-1),
    "x.relu()": lambda x, w: x.relu(),
    "torch.add(x, w)": lambda x, w: torch.add(x, w),
    "torch.mm(x, w)": lambda x, w: torch.mm(x, w),
    "torch.addmm(x, x, w)": lambda x, w: torch.addmm(x, x, w),
    "torch.cat((x, w))": lambda x, w: torch.cat((x, w)),
}

MODES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "with gradients": torch.enable_grad,
    "under no_grad": torch.no_grad,
    "in inference_mode": torch.inference_mode,
}


@dataclass(frozen=True)
class Costs:
    """How long the host is busy with one call."""

    seconds: Annotated[Mapping[str, Estimate], "host time of", "s"]
    empty_s: Annotated[float, "a call of nothing in the same loop, which is taken off", "s"]


def one_to_five(seen: Costs) -> Verdict:
    """Holds if each interval lies within 1 to 5 µs, and is refuted if each lies outside.

    Within limits if some lie within and others outside; undecided if a bound inside an interval
    leaves it open.
    """
    found = ranges.placed(seen.seconds, *COST_S)
    return ranges.verdict(found, ("1 µs", "5 µs"), lambda s: f"{1e6 * s:.2f} µs")


@claim(
    id="dispatch-cost",
    statement="a dispatch costs 1 to 5 µs",
    source=("002 The Python ↔ C++ ↔ CUDA boundary",),
    needs=("cpu", "cuda"),
    decide=one_to_five,
    timed=True,
    snippet="""
        import torch
        from torch.utils.benchmark import Timer

        x, w = torch.ones(1, 1), torch.ones(1, 1, requires_grad=True)
        for code in ("x.detach()", "torch.add(x, w)", "torch.addmm(x, x, w)"):
            timer = Timer(code, globals={"x": x, "w": w})
            seconds = min(timer.timeit(1000).mean for _ in range(20))
            print(code, "less than 1 µs:", seconds < 1e-6, "more than 5 µs:", seconds > 5e-6)
    """,
)
def dispatch_cost(device: Hardware) -> Costs:
    """Host time of seven operators on tensors of one element, which leaves next to no arithmetic.

    With gradients, under no_grad and in inference_mode; median over blocks of calls, less that of a
    Python function that does nothing.
    """
    empty = _per_call_s(lambda: None, device)
    found = {}
    for mode, context in MODES.items():
        for name, op in OPS.items():
            w = torch.nn.Parameter(torch.ones(1, 1, device=device.torch_device))
            x = torch.ones_like(w)
            with context():
                whole = _per_call_s(partial(op, x * w, w), device)
            found[f"{name} {mode}"] = ranges.converted(whole, lambda s: s - empty.value)
    return Costs(found, empty.value)


def _per_call_s(call: Step, device: Hardware) -> Estimate:
    """Host time of a call among many, the heap in another state for each block."""

    def step() -> None:
        for _ in range(IN_A_ROW):
            call()

    redraw = placement.anew((), device, seed=0)
    samples_s = []
    with quiet_gc():
        for _ in range(1 + BLOCKS):
            held = redraw()
            step()
            samples_s.append(median(host(step, device, STEPS_PER_BLOCK).samples_s))
            del held
    found = stats.median_interval(samples_s[1:])
    assert found is not None
    return ranges.converted(found, lambda s: s / IN_A_ROW)
