"""Claims about what a call costs in addition to its kernel."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter, functional

from modescope.bench.devices.devices import Hardware, Step
from modescope.bench.stats import estimates
from modescope.bench.stats.estimates import Estimate
from modescope.bench.timing import memory_layout
from modescope.bench.timing.rounds import quiet_gc
from modescope.bench.timing.timers import host
from modescope.bench.tools.claims import cpp_operator
from modescope.bench.tools.claims.claim import Answer, claim, in_range, refuted, side, undecided
from modescope.bench.tools.claims.dispatch import Dispatched
from modescope.bench.tools.claims.measuring import calls, convert, refusal, speedup


@claim("a dispatch costs 1 to 5 µs", "002 The Python ↔ C++ ↔ CUDA boundary", "cpu cuda clock")
def dispatch_cost(device: Hardware) -> Answer:
    """Host time of calls on one element in each grad mode, minus that of an empty function.

    import torch
    from torch.utils.benchmark import Timer
    x, w = torch.ones(1, 1), torch.ones(1, 1, requires_grad=True)
    for code in ("x.detach()", "torch.add(x, w)", "torch.addmm(x, x, w)"):
        timer = Timer(code, globals={"x": x, "w": w})
        seconds = min(timer.timeit(1000).mean for _ in range(20))
        print(code, "less than 1 µs:", seconds < 1e-6, "more than 5 µs:", seconds > 5e-6)
    """
    empty_us = _host_us(lambda: None, device).value
    codes = ["x.detach()", "x.view(-1)", "x.relu()", "torch.add(x, w)", "torch.mm(x, w)"]
    codes += ["torch.addmm(x, x, w)", "torch.cat((x, w))"]
    times_us = {}
    for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode):
        w = Parameter(torch.ones(1, 1, device=device.torch_device))
        with mode():
            for code, call in calls(*codes, x=torch.ones_like(w) * w, w=w).items():
                whole = _host_us(call, device)
                label = f"µs on the host, {code}, {mode.__name__}"
                times_us[label] = convert(whole, lambda us: us - empty_us)
    return in_range(times_us, 1, 5)


def _host_us(call: Step, device: Hardware) -> Estimate:
    def step() -> None:
        for _ in range(50):  # reading the clock costs 0.1 µs
            call()

    redraw = memory_layout.make_redraw((), device, seed=0)
    samples_us = []
    with quiet_gc():
        for _ in range(26):
            held = redraw()  # the heap in another state for each block
            step()
            samples_us.append(1e6 * median(host(step, device, 10).samples_s) / 50)
            del held
    estimate = estimates.median_interval(samples_us[1:])
    assert estimate is not None
    return estimate


@claim(
    "an op registered from C++ (TORCH_LIBRARY) gets dispatch, and costs less per call than the "
    "same from Python",
    "003 §4.5; 003 §11.3",
    "cpu compiler clock",
)
def cpp_op(device: Hardware) -> Answer:
    """How `scale(x, s)` from C++ is dispatched, and the time of a custom_op ÷ its time.

    It gets dispatch if each device's kernel is called, `__torch_dispatch__` gets it, and a tensor
    for which there is no kernel is refused.

    import torch
    from torch.utils.benchmark import Timer
    from modescope.bench.tools.claims import cpp_operator
    cpp_operator.load()
    def scale(x: torch.Tensor, s: float) -> torch.Tensor: return x * s
    scale = torch.library.custom_op("snippet::scale", scale, mutates_args=())
    ops = torch.ops.modescope_cpp.scale, scale
    timers = [Timer("op(x, 2.0)", globals={"op": op, "x": torch.ones(8)}) for op in ops]
    cpp, python = (min(timer.timeit(100).mean for _ in range(50)) for timer in timers)
    print("less per call from C++:", cpp < python)
    """
    cpp_operator.load()
    op, x = torch.ops.modescope_cpp.scale, torch.ones(8)
    with Dispatched() as below:
        op(x, 3.0)
    dispatched = {
        "a tensor of the CPU is multiplied": op(x, 3.0).tolist() == [3.0] * 8,
        "one of the meta device stays there": op(x.to("meta"), 3.0).is_meta,
        "__torch_dispatch__ gets it": below.names[0] == "modescope_cpp.scale.default",
        "a sparse one is refused": refusal(lambda: op(x.to_sparse(), 3.0)) is not None,
    }
    if not all(dispatched.values()):
        return refuted("it does not get dispatch", dispatched)

    @torch.library.custom_op("modescope_python::scale", mutates_args=())
    def custom(x: Tensor, s: float) -> Tensor:
        return x * s

    def in_a_row(op: Any) -> None:
        for _ in range(20):
            op(x, 3.0)

    ratio = speedup(partial(in_a_row, op), partial(in_a_row, custom), device, [x])
    return in_range({"time by custom_op ÷ that from C++": ratio}, 1, math.inf, dispatched)


@claim(
    "inference_mode is 5 to 15 % faster than no_grad where dispatch dominates; the gain "
    "vanishes for large ops",
    "003 §7.3; 003 Exercise 6",
    "cpu clock",
)
def inference_vs_no_grad(device: Hardware) -> Answer:
    r"""The share of the time under no_grad that inference_mode saves, in paired rounds.

    The saving counts as vanished if it is at most 2 % for a matrix product 256 wide.

    import torch
    from torch.utils.benchmark import Timer
    modes = torch.no_grad, torch.inference_mode
    code = "with mode():\n    for _ in range(50): x * w"
    for size in (64, 2**16):
        given = {"w": torch.ones(size, requires_grad=True), "x": torch.ones(size)}
        timers = [Timer(code, globals={**given, "mode": mode}) for mode in modes]
        rounds = [[timer.timeit(1).mean for timer in timers] for _ in range(300)]
        slow, fast = map(min, zip(*rounds))
        print(size, "elements, saves 5 % or more:", fast <= 0.95 * slow)
    """

    def layers(w: Tensor) -> Tensor:
        y = torch.ones(1, 8)
        for _ in range(8):
            h = functional.layer_norm(y, (8,))
            y = y + torch.mm(functional.gelu(torch.mm(h, w) + h), w)
        return y

    def pointwise(w: Tensor) -> Tensor:
        y = w
        for _ in range(25):
            y = (y + w) * w
        return y

    def views(w: Tensor) -> Tensor:
        for _ in range(25):
            w = w.unsqueeze(0).squeeze(0)
        return w

    product = partial(torch.mm, torch.rand(96, 256))
    gain = _saving(product, Parameter(torch.rand(256, 256)), device)
    large = {"% saved of a large product": gain}
    if side(gain, -100, 2) == "above":
        return refuted("the gain does not vanish for a large product", large)
    if side(gain, -100, 2) == "unclear":
        return undecided("the gain may not vanish for a large product", large)
    # These take 99 % of their time or more on two elements, too; the product takes 5 %.
    small = {
        "% saved of eight small layers": _saving(layers, Parameter(torch.rand(8, 8)), device),
        "% saved of 50 pointwise operators": _saving(pointwise, Parameter(torch.rand(64)), device),
        "% saved of 50 views": _saving(views, Parameter(torch.rand(64)), device),
    }
    return in_range(small, 5, 15, large)


def _saving(step: Callable[[Tensor], Tensor], w: Tensor, device: Hardware) -> Estimate:
    def within(mode: Callable[[], AbstractContextManager[object]]) -> None:
        with mode():
            step(w)

    fast, slow = partial(within, torch.inference_mode), partial(within, torch.no_grad)
    ratio = speedup(fast, slow, device, [w], 8.0)  # some save little more than 5 %
    return convert(ratio, lambda ratio: 100 * (1 - 1 / ratio))
