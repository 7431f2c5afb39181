"""What inference_mode saves against no_grad."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import torch
from torch import Tensor
from torch.nn import functional

from bench.claims import ranges
from bench.claims.claim import REFUTED, UNDECIDED, Verdict, claim, inconclusive, refuted
from bench.claims.measuring import speedup
from bench.devices import Hardware, Step
from bench.instructions import callgrind
from bench.instructions.cells import NOTHING, Cell
from bench.instructions.rows import row, typical
from bench.modes import GRAD
from bench.records import UsageError
from bench.stats import Estimate

TIMED_S = 8.0  # for a comparison, at most: some save little more than the bound of 5 %

GAIN = (0.05, 0.15)
DOMINATES = 0.5  # share of the time that tensors of two elements take, too: from here on
LARGE = 0.1  # and up to here operators are large
VANISHED = 0.02
WIDEST = 0.05  # interval of a large one: few calls fit into the time, and a busy machine cuts in

Built = tuple[Step, list[Tensor]]


def request(width: int, rows: int, layers: int) -> Built:
    """Six operators a layer: layer norm, GELU, two small matrix products, twice an addition."""
    weights = [
        torch.nn.Parameter(torch.randn(width, width) / width**0.5) for _ in range(2 * layers)
    ]
    gain, bias = (torch.nn.Parameter(torch.ones(width)) for _ in range(2))
    x = torch.rand(rows, width)

    def step() -> Tensor:
        y = x
        for i in range(layers):
            h = functional.layer_norm(y, (width,), gain, bias)
            h = functional.gelu(torch.mm(h, weights[2 * i]) + bias)
            y = y + torch.mm(h, weights[2 * i + 1])
        return y

    return step, [x, gain, bias, *weights]


def chain(size: int) -> Built:
    """Fifty pointwise operators with a parameter."""
    w, x = torch.nn.Parameter(torch.rand(size)), torch.rand(size)

    def step() -> Tensor:
        y = x
        for _ in range(25):
            y = (y + w) * w
        return y

    return step, [x, w]


def views(size: int) -> Built:
    """Fifty views of a parameter."""
    w = torch.nn.Parameter(torch.rand(size))

    def step() -> Tensor:
        y: Tensor = w
        for _ in range(25):
            y = y.unsqueeze(0).squeeze(0)
        return y

    return step, [w]


def product(side: int, rows: int) -> Built:
    """One matrix product."""
    x, w = torch.rand(rows, side), torch.nn.Parameter(torch.rand(side, side))
    return lambda: torch.mm(x, w), [x, w]


# what -> it, and the same on next to no elements: two, as GELU of a single one is another kernel
REQUESTS: dict[str, tuple[Callable[[], Built], Callable[[], Built]]] = {
    "layers 8 wide": (partial(request, 8, 1, 8), partial(request, 2, 1, 8)),
    "layers 64 wide": (partial(request, 64, 4, 8), partial(request, 2, 1, 8)),
    "50 pointwise, 64 elements": (partial(chain, 64), partial(chain, 2)),
    "50 views": (partial(views, 64), partial(views, 2)),
    "a product 256 wide": (partial(product, 256, 96), partial(product, 2, 1)),
    "a product 128 wide": (partial(product, 128, 128), partial(product, 2, 1)),
}

COUNTED = {"under no_grad": "no_grad", "in inference_mode": "inference_mode"}
BLOCKS_COUNTED, CALLS_COUNTED = 5, 50


@dataclass(frozen=True)
class Gains:
    """What inference_mode saves against no_grad."""

    saved: Annotated[Mapping[str, Estimate], "time saved by inference_mode:", "share"]
    overhead: Annotated[
        Mapping[str, Estimate], "time on two elements ÷ time, under no_grad:", "share"
    ]
    instructions: Annotated[
        Mapping[str, float | None], "instructions of torch.add(x, w), 8 × 8 elements,"
    ]


def faster_where_dispatch_dominates(seen: Gains) -> Verdict:
    """Dispatch dominates a request if on tensors of two elements it takes half of its time or more.

    Holds if the saving's interval then lies within 5 to 15 % for all such requests, within limits
    if for some and outside for others, refuted if outside for all. Where it is 10 % of the time
    or less, operators are large: refuted, too, if one's interval lies above 2 %. Undecided if a
    bound inside an interval leaves it open, or if that of a large one is wider than 5 %.
    """
    share = {name: each.value for name, each in seen.overhead.items()}
    small = {name: each for name, each in seen.saved.items() if share[name] >= DOMINATES}
    large = {name: each for name, each in seen.saved.items() if share[name] <= LARGE}
    if not small or not large:
        return inconclusive("dispatch dominates none of the requests here, or none is large")
    vanished = ranges.placed(large, float("-inf"), VANISHED, widest=WIDEST)
    if vanished.above:
        name, each = next(iter(vanished.above.items()))
        return refuted(
            "the gain does not vanish for large operators",
            f"{name}: {100 * each.value:.1f} % saved, though two elements take {share[name]:.1%}",
        )
    found = ranges.verdict(
        ranges.placed(small, *GAIN), ("5 %", "15 %"), lambda s: f"{100 * s:.1f} %"
    )
    if found.answer not in (REFUTED, UNDECIDED) and vanished.undecided:
        names = ", ".join(vanished.undecided)
        return inconclusive(f"the interval is too wide to tell whether the gain vanishes: {names}")
    return found


@claim(
    id="inference-vs-no-grad",
    statement="inference_mode is 5 to 15 % faster than no_grad where dispatch dominates; the gain "
    "vanishes for large ops",
    source=("003 §7.3", "003 Exercise 6"),
    needs=("cpu",),
    decide=faster_where_dispatch_dominates,
    timed=True,
    limit_s=600,  # most of it for importing torch under valgrind
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
def inference_vs_no_grad(device: Hardware) -> Gains:
    """What inference_mode saves of the time that requests take under no_grad, in paired rounds.

    Layers are those of the exercise: layer norm, GELU, small matrix products. Then the same under
    no_grad against tensors of two elements, and where valgrind is there the instructions of one
    addition.
    """
    saved, overhead = {}, {}
    for name, (build, build_tiny) in REQUESTS.items():
        (step, tensors), (tiny, few) = build(), build_tiny()
        slow, fast = _within("no_grad", step), _within("inference_mode", step)
        gain = speedup(fast, slow, device, tensors, timed_max_s=TIMED_S)
        saved[name] = ranges.converted(gain, lambda ratio: 1 - 1 / ratio)
        overhead[name] = speedup(
            slow, _within("no_grad", tiny), device, [*tensors, *few], timed_max_s=0.5
        )
    return Gains(saved, overhead, _instructions())


def _within(mode: str, step: Step) -> Step:
    context = GRAD[mode]
    assert context is not None

    def inside() -> None:
        with context():
            step()

    return inside


def _instructions() -> dict[str, float | None]:
    """Of one call, by callgrind; None where there is no valgrind that works."""
    cells = [Cell("add", mode, "activation") for mode in COUNTED.values()]
    try:
        program = callgrind.available()
        counts = callgrind.count(
            program, [NOTHING, *cells], BLOCKS_COUNTED, CALLS_COUNTED, lambda: None
        )
    except (UsageError, callgrind.Failed):
        return dict.fromkeys(COUNTED)
    empty, *blocks = counts.blocks
    rows = [row(c, b, empty, CALLS_COUNTED) for c, b in zip(cells, blocks, strict=True)]
    return {name: typical(each.instructions) for name, each in zip(COUNTED, rows, strict=True)}
