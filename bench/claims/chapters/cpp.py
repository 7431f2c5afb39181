"""An operator of one's own, registered from C++ and from Python."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import torch
from torch import Tensor

from bench.claims import cpp_library, ranges
from bench.claims.chapters.dispatch_hooks import Dispatched
from bench.claims.claim import Verdict, claim, holds, inconclusive, refuted, within_limits
from bench.claims.measuring import speedup
from bench.devices import Hardware, Step
from bench.stats import Estimate

IN_A_ROW = 20
ANSWER = 7.0  # of the backward that is registered: what the kernel itself does has another

CUSTOM_OP, LIBRARY = "torch.library.custom_op", "torch.library.Library.impl"

_namespaces = (f"modescope_python_{i}" for i in itertools.count())
"""One for each time, as what stays registered would be in the way of the next."""


@dataclass(frozen=True)
class Own:
    """What the operator from C++ does, and its cost beside the same from Python."""

    by_tensor: Annotated[Mapping[str, bool], "the kernel that runs is that of the tensor,"]
    seen: Annotated[str, "__torch_dispatch__ got of it"]
    refused: Annotated[str | None, "a tensor that no kernel is for"]
    gradient: Annotated[float | None, "gradient where a backward is registered that answers 7"]
    ratio: Annotated[Mapping[str, Estimate], "time of a call ÷ that of the one from C++, by", "x"]


def dispatched_and_cheaper(seen: Own) -> Verdict:
    """Refuted if the dispatcher does not choose the kernel by the tensor, or passes over hooks.

    Hooks are `__torch_dispatch__` and a backward that is registered for the operator. Refuted, too,
    if the interval of the time from Python ÷ that from C++ lies below 1 for each way to register in
    Python; within limits if it does for some; holds if it lies above 1 for each; undecided if one
    contains 1.
    """
    other = [kind for kind, own in seen.by_tensor.items() if not own]
    if other:
        told = f"with x on {other[0]}, scale(x, 3.0) ran another kernel than that for it"
        return refuted("the kernel is not chosen by the tensor", told)
    if seen.refused is None:
        told = "scale(x, 3.0) was not refused for a tensor that no kernel is for"
        return refuted("the kernel is not chosen by the tensor", told)
    if seen.seen != f"{cpp_library.NAMESPACE}.scale.default" or seen.gradient != ANSWER:
        return refuted(
            "it is not dispatched as others are",
            f"__torch_dispatch__ got {seen.seen or 'nothing'}, the gradient is {seen.gradient}",
        )
    found = ranges.placed(seen.ratio, 0.0, 1.0)
    told = ", ".join(f"{each.value:.1f} times by {name}" for name, each in seen.ratio.items())
    if found.undecided:
        return inconclusive(f"1 lies in the interval of a ratio of times: {told}")
    if not found.within:
        return holds(f"from Python a call takes {told}")
    if found.above:
        limits = [f"{name} costs no more than from C++" for name in found.within]
        return within_limits(f"from Python a call takes {told}", *limits)
    return refuted("from Python it costs less", f"a call takes {told}")


@claim(
    id="cpp-op",
    statement="an op registered from C++ (TORCH_LIBRARY) gets dispatch, and costs less per call "
    "than the same from Python",
    source=("003 §4.5", "003 §11.3"),
    needs=("cpu", "compiler"),
    decide=dispatched_and_cheaper,
    timed=True,
    compiles=True,
    limit_s=180,
    snippet="""
        import torch
        from torch.utils.benchmark import Timer
        from bench.claims import cpp_library
        cpp_library.load()
        def scale(x: torch.Tensor, s: float) -> torch.Tensor: return x * s
        scale = torch.library.custom_op("snippet::scale", scale, mutates_args=())
        ops = torch.ops.modescope_cpp.scale, scale
        timers = [Timer("op(x, 2.0)", globals={"op": op, "x": torch.ones(8)}) for op in ops]
        cpp, python = (min(timer.timeit(100).mean for _ in range(50)) for timer in timers)
        print("less per call from C++:", cpp < python)
    """,
)
def cpp_op(device: Hardware) -> Own:
    """`scale(x, s)`, which multiplies, from C++ and twice from Python: what the dispatcher does.

    And the time of a call of each from Python ÷ that from C++ on eight elements, in paired rounds.
    """
    cpp_library.load()
    op = getattr(torch.ops, cpp_library.NAMESPACE).scale
    x = torch.ones(8)
    with Dispatched() as below:
        op(x, 3.0)
    ratio = {}
    with from_python() as others:
        for name, other in others.items():
            python, cpp = _repeated(partial(other, x, 3.0)), _repeated(partial(op, x, 3.0))
            ratio[name] = speedup(cpp, python, device, [x])
    return Own(
        by_tensor={
            "CPU": op(x, 3.0).tolist() == [3.0] * 8,
            "meta": op(x.to("meta"), 3.0).is_meta,
        },
        seen=", ".join(below.names[:1]),
        refused=_refusal(lambda: op(x.to_sparse(), 3.0)),
        gradient=_with_backward(op),
        ratio=ratio,
    )


Scale = Callable[[Tensor, float], Tensor]


@contextmanager
def from_python() -> Iterator[dict[str, Scale]]:
    """The same operator registered in Python in both ways that torch has, for the block."""
    namespace = next(_namespaces)
    library = torch.library.Library(namespace, "FRAGMENT")
    try:
        library.define("bare(Tensor x, float s) -> Tensor")
        library.impl("bare", _multiplied, "CPU")
        custom = torch.library.custom_op(f"{namespace}::scale", _multiplied, mutates_args=())
        yield {CUSTOM_OP: custom, LIBRARY: getattr(torch.ops, namespace).bare}
    finally:
        library._destroy()


def _multiplied(x: Tensor, s: float) -> Tensor:
    return x * s


def _repeated(call: Callable[[], object]) -> Step:
    def step() -> None:
        for _ in range(IN_A_ROW):
            call()

    return step


def _refusal(call: Callable[[], object]) -> str | None:
    try:
        call()
    except NotImplementedError as error:
        return str(error).partition(".")[0]
    return None


def _with_backward(op: Any) -> float | None:
    """The gradient, while a backward is registered for the operator."""
    x = torch.ones((), requires_grad=True)
    library = torch.library.Library(cpp_library.NAMESPACE, "FRAGMENT")
    try:
        torch.library.register_autograd(
            f"{cpp_library.NAMESPACE}::scale",
            lambda ctx, gradient: (gradient * ANSWER, None),
            lib=library,
        )
        op(x, 3.0).backward()
    finally:
        library._destroy()
    return None if x.grad is None else x.grad.item()
