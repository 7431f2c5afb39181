"""What a call of a tiny operator costs."""

from __future__ import annotations

from functools import partial
from statistics import median

import torch

from modescope.bench.stats import estimates
from modescope.bench.timing import memory_layout
from modescope.bench.timing.rounds import quiet_gc
from modescope.bench.timing.timers import host
from modescope.bench.tools.claims import lab

IN_A_ROW = 50  # calls between two readings of the clock, which costs 0.1 µs
BLOCKS = 25
STEPS_PER_BLOCK = 10

# Each is one dispatch from Python, on tensors of one element.
OPS = lab.functions(
    "x, w",
    (
        *("x.detach()", "x.view(-1)", "x.relu()", "torch.add(x, w)", "torch.mm(x, w)"),
        *("torch.addmm(x, x, w)", "torch.cat((x, w))"),
    ),
)
MODES = {
    "with gradients": torch.enable_grad,
    "under no_grad": torch.no_grad,
    "in inference_mode": torch.inference_mode,
}


@lab.claim(
    "a dispatch costs 1 to 5 µs",
    "002 The Python ↔ C++ ↔ CUDA boundary",
    needs="cpu cuda",
    timed=True,
    figures={
        "seconds": lab.must_lie("host time of [s]", 1e-6, 5e-6, "host times"),
        "empty_s": "a call of nothing in the same loop, which is taken off [s]",
    },
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
def dispatch_cost(device: lab.Hardware) -> lab.Values:
    """Host time of calls on tensors of one element, by mode, less that of an empty function."""
    empty = _per_call_s(lambda: None, device)
    seconds = {}
    for mode, context in MODES.items():
        for name, op in OPS.items():
            w = torch.nn.Parameter(torch.ones(1, 1, device=device.torch_device))
            x = torch.ones_like(w)
            with context():
                whole = _per_call_s(partial(op, x * w, w), device)
            seconds[f"{name} {mode}"] = lab.converted(whole, lambda s: s - empty.value)
    return seconds, empty.value


def _per_call_s(call: lab.Step, device: lab.Hardware) -> lab.Estimate:
    """Host time of a call among many, the heap in another state for each block."""

    def step() -> None:
        for _ in range(IN_A_ROW):
            call()

    redraw = memory_layout.anew((), device, seed=0)
    samples_s = []
    with quiet_gc():
        for _ in range(1 + BLOCKS):
            held = redraw()
            step()
            samples_s.append(median(host(step, device, STEPS_PER_BLOCK).samples_s))
            del held
    estimate = estimates.median_interval(samples_s[1:])
    assert estimate is not None
    return lab.converted(estimate, lambda s: s / IN_A_ROW)
