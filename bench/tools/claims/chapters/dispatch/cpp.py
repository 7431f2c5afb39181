"""An operator of one's own, registered from C++ and from Python."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from modescope.bench.tools.claims import cpp_library, lab
from modescope.bench.tools.claims.chapters.dispatch.hooks import Dispatched

IN_A_ROW = 20
ANSWER = 7.0  # of the backward that is registered: what the kernel itself does has another

CUSTOM_OP, LIBRARY = "torch.library.custom_op", "torch.library.Library.impl"

_namespaces = (f"modescope_python_{i}" for i in itertools.count())
"""One for each time, as what stays registered would be in the way of the next."""


@lab.claim(
    "an op registered from C++ (TORCH_LIBRARY) gets dispatch, and costs less per call than the "
    "same from Python",
    "003 §4.5; 003 §11.3",
    needs="cpu compiler",
    timed=True,
    compiles=True,
    limit_s=180,
    figures={
        "by_tensor": lab.must("the kernel is that of the tensor's device,", True),
        "dispatched": lab.must(
            "__torch_dispatch__ gets it as", f"{cpp_library.NAMESPACE}.scale.default"
        ),
        "refused": lab.must(
            "what torch says where the op has no kernel for a tensor",
            lambda refusal: refusal is not None,
            "a tensor that it has no kernel for is refused",
        ),
        "ratio": lab.must_lie(
            "time of a call ÷ that of the one from C++, by [x]",
            *(1.0, math.inf),
            "ratios of the time from Python to that from C++",
        ),
        "gradient": lab.must(
            "gradient by a registered backward, which answers 7",
            ANSWER,
            "a backward that is registered for it is used",
        ),
    },
    snippet="""
        import torch
        from torch.utils.benchmark import Timer
        from modescope.bench.tools.claims import cpp_library
        cpp_library.load()
        def scale(x: torch.Tensor, s: float) -> torch.Tensor: return x * s
        scale = torch.library.custom_op("snippet::scale", scale, mutates_args=())
        ops = torch.ops.modescope_cpp.scale, scale
        timers = [Timer("op(x, 2.0)", globals={"op": op, "x": torch.ones(8)}) for op in ops]
        cpp, python = (min(timer.timeit(100).mean for _ in range(50)) for timer in timers)
        print("less per call from C++:", cpp < python)
    """,
)
def cpp_op(device: lab.Hardware) -> lab.Values:
    """What the dispatcher does with `scale(x, s)`, which multiplies, registered from C++.

    And the time of a call of the same, registered from Python in two ways, ÷ that of the one from
    C++, on eight elements, in paired rounds.
    """
    cpp_library.load()
    op = getattr(torch.ops, cpp_library.NAMESPACE).scale
    x = torch.ones(8)
    with Dispatched() as below:
        op(x, 3.0)
    library = torch.library.Library(next(_namespaces), "FRAGMENT")
    library.define("bare(Tensor x, float s) -> Tensor")
    library.impl("bare", _multiplied, "CPU")
    custom = torch.library.custom_op(f"{library.ns}::scale", _multiplied, mutates_args=())
    others = {CUSTOM_OP: custom, LIBRARY: getattr(torch.ops, library.ns).bare}
    yield {"CPU": op(x, 3.0).tolist() == [3.0] * 8, "meta": op(x.to("meta"), 3.0).is_meta}
    yield ", ".join(below.names[:1])
    refusal = lab.refusal(lambda: op(x.to_sparse(), 3.0))
    yield refusal and refusal.partition(".")[0]
    yield {
        name: lab.speedup(_repeated(op, x), _repeated(other, x), device, [x])
        for name, other in others.items()
    }
    yield _with_backward(op)


def _multiplied(x: Tensor, s: float) -> Tensor:
    return x * s


def _repeated(op: Callable[[Tensor, float], object], x: Tensor) -> lab.Step:
    def step() -> None:
        for _ in range(IN_A_ROW):
            op(x, 3.0)

    return step


def _with_backward(op: Any) -> float | None:
    """The gradient, while a backward is registered for the operator."""
    x = torch.ones((), requires_grad=True)
    library = torch.library.Library(cpp_library.NAMESPACE, "FRAGMENT")
    torch.library.register_autograd(
        f"{cpp_library.NAMESPACE}::scale",
        lambda ctx, gradient: (gradient * ANSWER, None),
        lib=library,
    )
    op(x, 3.0).backward()
    library._destroy()
    return None if x.grad is None else x.grad.item()
