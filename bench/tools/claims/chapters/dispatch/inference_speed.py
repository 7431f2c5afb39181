"""What inference_mode saves against no_grad.

The document speaks of a reduction, of overhead and of latency. So a gain is the share of no_grad's
time that is saved: 1 - 1 ÷ speedup.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn import Parameter, functional

from modescope.bench.steps.modes import GRAD
from modescope.bench.tools.claims import lab

TIMED_S = 8.0  # for a comparison, at most: some save little more than the bound of 5 %
DOMINATES = 0.5  # share of the time that tensors of two elements take, too: from here on
LARGE = 0.1  # and up to here operators are large
VANISHED = 0.02  # what is saved of large operators, at most

StepAndTensors = tuple[lab.Step, list[Tensor]]


def request(width: int, rows: int) -> StepAndTensors:
    """Eight layers: layer norm, GELU, two small matrix products, twice an addition."""
    weights = [Parameter(torch.randn(width, width) / width**0.5) for _ in range(16)]
    gain, bias = (Parameter(torch.ones(width)) for _ in range(2))
    x = torch.rand(rows, width)

    def step() -> Tensor:
        y = x
        for i in range(0, len(weights), 2):
            h = functional.layer_norm(y, (width,), gain, bias)
            h = functional.gelu(torch.mm(h, weights[i]) + bias)
            y = y + torch.mm(h, weights[i + 1])
        return y

    return step, [x, gain, bias, *weights]


def chain(size: int) -> StepAndTensors:
    """Fifty pointwise operators with a parameter."""
    w, x = Parameter(torch.rand(size)), torch.rand(size)

    def step() -> Tensor:
        y = x
        for _ in range(25):
            y = (y + w) * w
        return y

    return step, [x, w]


def views(size: int) -> StepAndTensors:
    """Fifty views of a parameter."""
    w = Parameter(torch.rand(size))

    def step() -> Tensor:
        y: Tensor = w
        for _ in range(25):
            y = y.unsqueeze(0).squeeze(0)
        return y

    return step, [w]


def product(side: int, rows: int) -> StepAndTensors:
    """One matrix product."""
    x, w = torch.rand(rows, side), Parameter(torch.rand(side, side))
    return lambda: torch.mm(x, w), [x, w]


# what -> it, and the same on next to no elements: two, as GELU of a single one is another kernel
REQUESTS: dict[str, tuple[Callable[[], StepAndTensors], Callable[[], StepAndTensors]]] = {
    "layers 8 wide": (partial(request, 8, 1), partial(request, 2, 1)),
    "layers 64 wide": (partial(request, 64, 4), partial(request, 2, 1)),
    "50 pointwise, 64 elements": (partial(chain, 64), partial(chain, 2)),
    "50 views": (partial(views, 64), partial(views, 2)),
    "a product 256 wide": (partial(product, 256, 96), partial(product, 2, 1)),
    "a product 128 wide": (partial(product, 128, 128), partial(product, 2, 1)),
}


def faster_where_dispatch_dominates(o: lab.Observed) -> lab.Rule:
    """Dispatch dominates a request if on tensors of two elements it takes half of its time or more.

    Holds if all gains of such requests lie within 5 to 15 % with their intervals, within limits if
    some lie outside, refuted if all do. Where it is 10 % of the time or less, operators are large:
    refuted, too, if an interval lies above 2 % there. Undecided if an interval that contains a
    bound would turn that, and without either kind.
    """
    small = o.saved.only(lambda name, _: o.overhead[name].value >= DOMINATES)
    large = o.saved.only(lambda name, _: o.overhead[name].value <= LARGE)
    yield lab.undecided_if(
        not (small and large), "dispatch dominates no request, or operators are large in none"
    )
    vanished = lab.placed(large, float("-inf"), VANISHED)
    above = vanished.above
    yield lab.require("the gain vanishes for large operators", not above, above.say_all())
    yield lab.between(small, 0.05, 0.15, "gains where dispatch dominates")
    yield lab.undecided_if(bool(vanished.unclear), lab.unclear(vanished.unclear, VANISHED))


@lab.claim(
    "inference_mode is 5 to 15 % faster than no_grad where dispatch dominates; the gain "
    "vanishes for large ops",
    "003 §7.3; 003 Exercise 6",
    timed=True,
    limit_s=300,
    rule=faster_where_dispatch_dominates,
    figures={
        "saved": "time saved by inference_mode: [share]",
        "overhead": "time on two elements ÷ time, under no_grad: [share]",
    },
    snippet="""
        import torch
        from torch.utils.benchmark import Timer
        modes = torch.no_grad, torch.inference_mode
        code = "with mode():\\n    for _ in range(50): x * w"
        for size in (64, 2**16):
            given = {"w": torch.ones(size, requires_grad=True), "x": torch.ones(size)}
            timers = [Timer(code, globals={**given, "mode": mode}) for mode in modes]
            rounds = [[timer.timeit(1).mean for timer in timers] for _ in range(300)]
            slow, fast = map(min, zip(*rounds))
            print(size, "elements, saves 5 % or more:", fast <= 0.95 * slow)
    """,
)
def inference_vs_no_grad(device: lab.Hardware) -> lab.Values:
    """What inference_mode saves of the time that requests take under no_grad, in paired rounds.

    Layers are those of the exercise. Then the same under no_grad on tensors of two elements.
    """
    saved, overhead = {}, {}
    for name, (build, build_tiny) in REQUESTS.items():
        (step, tensors), (tiny, few) = build(), build_tiny()
        slow, fast = _within("no_grad", step), _within("inference_mode", step)
        gain = lab.speedup(fast, slow, device, tensors, TIMED_S)
        saved[name] = lab.converted(gain, lambda ratio: 1 - 1 / ratio)
        overhead[name] = lab.speedup(slow, _within("no_grad", tiny), device, [*tensors, *few], 0.5)
    return saved, overhead


def _within(mode: str, step: lab.Step) -> lab.Step:
    context = GRAD[mode]
    assert context is not None

    def inside() -> None:
        with context():
            step()

    return inside
