"""Operators of one's own (torch.library) under torch.compile: no fake kernel, fusion, training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import torch
from torch import Tensor

from bench import graph_breaks
from bench.claims.claim import Verdict, claim, holds, inconclusive, refuted, within_limits
from bench.claims.measuring import Compilation, compiling
from bench.devices import Hardware
from bench.isolation import one_line

Function = Callable[..., Any]

NAMESPACE = "modescope_claims"


Register = Callable[[torch.library.Library, str], Function]


def _custom_op(library: torch.library.Library, backend: str) -> Function:
    """The document's skeleton without its second step."""

    @torch.library.custom_op(f"{NAMESPACE}::plain", mutates_args=())
    def plain(x: Tensor) -> Tensor:
        return x + 1

    return plain


def _in_place(library: torch.library.Library, backend: str) -> Function:
    @torch.library.custom_op(f"{NAMESPACE}::in_place", mutates_args=("x",))
    def in_place(x: Tensor) -> None:
        x.add_(1)

    def call(x: Tensor) -> Tensor:
        in_place(x)
        return x

    return call


def _for_a_backend(library: torch.library.Library, backend: str) -> Function:
    return _defined(library, "for_a_backend", backend)


def _of_other_operators(library: torch.library.Library, backend: str) -> Function:
    return _defined(library, "of_other_operators", "CompositeImplicitAutograd")


def _defined(library: torch.library.Library, name: str, key: str) -> Function:
    """Registered as before there was custom_op, with a kernel for one dispatch key."""
    library.define(f"{name}(Tensor x) -> Tensor")
    library.impl(name, lambda x: x + 1, key)
    op: Function = getattr(getattr(torch.ops, library.ns), name)
    return op


STATED = "torch.library.custom_op"

# how an operator is registered, without a fake kernel -> what does it in a library, for a backend
WITHOUT_FAKE: dict[str, Register] = {
    STATED: _custom_op,
    "torch.library.custom_op in place, which returns nothing": _in_place,
    "torch.library.define, a kernel for this backend": _for_a_backend,
    "torch.library.define, a kernel of other operators": _of_other_operators,
}


@dataclass(frozen=True)
class Faked:
    """The first compiled call of operators without a fake kernel, by how they are registered."""

    errors: Annotated[Mapping[str, str], "error,"]
    breaks: Annotated[Mapping[str, int], "graph breaks,"]  # where there is no error
    right: Annotated[Mapping[str, bool], "right result,"]


def no_fake_breaks(seen: Faked) -> Verdict:
    """Refuted if a custom_op without a fake kernel raises an error or is captured without a break.

    Holds if it breaks the graph and the result is right, and so do operators registered otherwise;
    within limits if some of these do not.
    """
    broke = [how for how, breaks in seen.breaks.items() if breaks and seen.right[how]]
    others = [how for how in (*seen.errors, *seen.breaks) if how not in (*broke, STATED)]
    if STATED not in broke:
        told = "it is an error" if STATED in seen.errors else "it did not break the graph"
        if broke:
            told += f"; what did break: {', '.join(broke)}"
        return refuted(told, _became(STATED, seen))
    limits = [_became(how, seen) for how in others]
    told = _became(STATED, seen)
    return within_limits(told, *limits) if limits else holds(told)


def _became(how: str, seen: Faked) -> str:
    if how in seen.errors:
        return f"{how}: the compiled call raised {seen.errors[how]}"
    result = "right" if seen.right[how] else "wrong"
    return f"{how}: {seen.breaks[how]} graph breaks in the compiled call, {result} result"


@claim(
    id="custom-op-no-fake",
    statement="a custom op without a fake kernel makes a graph break",
    source=("003 §10.2 What each piece is for",),
    needs=("cpu",),
    decide=no_fake_breaks,
    snippet="""
        import torch

        @torch.library.custom_op("modescope_snippet::plus", mutates_args=())
        def plus(x: torch.Tensor) -> torch.Tensor:
            return x + 1
        try:
            torch.compile(lambda x: plus(x * 2), backend="eager")(torch.ones(2))
        except Exception as error:
            print(type(error).__name__, "no fake impl" in str(error))
    """,
)
def custom_op_no_fake(device: Hardware) -> Faked:
    """What becomes of a first compiled call of an operator without a fake kernel.

    Of one registered as the document does, and of three others; with a backend that generates no
    kernels.
    """
    errors, breaks, right = {}, {}, {}
    with torch.library._scoped_library(NAMESPACE, "FRAGMENT") as library:
        for how, register in WITHOUT_FAKE.items():
            op = register(library, device.type.upper())
            torch.compiler.reset()
            compiled = torch.compile(partial(_among_others, op=op), backend="eager")
            try:
                with graph_breaks.watch() as broken:
                    result = compiled(torch.ones(2))
            except Exception as error:
                errors[how] = one_line(_origin(error))
            else:
                breaks[how] = graph_breaks.count(broken)
                right[how] = torch.equal(result, torch.full((2,), 6.0))
    torch.compiler.reset()
    return Faked(errors, breaks, right)


def _origin(error: BaseException) -> BaseException:
    """What was raised first: the compiler wraps it in errors of its own."""
    while earlier := error.__cause__ or error.__context__:
        error = earlier
    return error


def _among_others(x: Tensor, op: Function) -> Tensor:
    result: Tensor = op(x * 2) * 2
    return result


@dataclass(frozen=True)
class Opaque:
    """Code generated for pointwise operators around one that adds 1."""

    graphs: Annotated[int, "graphs"]
    breaks: Annotated[int, "graph breaks"]
    kernels: Annotated[int, "kernels generated around the custom op"]
    calls: Annotated[int, "operators that the generated code calls, the custom op among them"]
    inside: Annotated[int, "kernels generated where torch's own operator is in its place"]
    inside_calls: Annotated[int, "operators that the generated code calls then"]
    triton_op: Annotated[int | None, "kernels generated around a torch.library.triton_op"]


def opaque_but_whole(seen: Opaque) -> Verdict:
    """Refuted if the custom op breaks the graph, or if not two kernels and one call are generated.

    Holds if they are, and with torch's own operator in its place one kernel is all; undecided if
    that one is not fused either.
    """
    if (seen.graphs, seen.breaks) != (1, 0):
        return refuted("it breaks", f"{seen.graphs} graphs, {seen.breaks} breaks around one op")
    if (seen.inside, seen.inside_calls) != (1, 0):
        return inconclusive(
            f"torch's own operator in its place is not fused either: {seen.inside} kernels"
        )
    if (seen.kernels, seen.calls) != (2, 1):
        told = f"{seen.kernels} generated kernels and {seen.calls} calls of operators"
        return refuted("not two kernels around one call of the op", f"the graph became {told}")
    return holds(
        "one graph of two generated kernels and one call of an operator; with torch's own operator "
        "in its place one kernel is all"
    )


@claim(
    id="custom-op-opaque",
    statement="Inductor does not fuse around a Triton custom op, but does not break either",
    source=("003 §10.3 A Triton kernel as a custom op",),
    needs=("cpu", "cuda"),
    decide=opaque_but_whole,
    compiles=True,
    limit_s=240,
    snippet="""
        import torch
        from torch._inductor.utils import run_and_get_code

        @torch.library.custom_op("modescope_snippet::add", mutates_args=())
        def add(x: torch.Tensor) -> torch.Tensor: return x + 1
        add.register_fake(torch.empty_like)
        for op in (add, lambda x: x + 1):
            f = torch.compile(lambda x, op=op: op(x.sin()).cos(), fullgraph=True)
            print("kernels:", run_and_get_code(f, torch.ones(64))[1][0].count("cpp_pybinding("))
    """,
)
def custom_op_opaque(device: Hardware) -> Opaque:
    """Kernels generated for two pointwise operators before an operator that adds 1 and two after.

    It is a custom op (on a GPU, one that launches a Triton kernel), then torch's own.
    """
    op = _triton_op("custom_op") if device.queues else _with_fake()
    with_op, without = _around(op, device), _around(lambda x: x + 1, device)
    triton_op = _around(_triton_op("triton_op"), device).kernels if device.queues else None
    return Opaque(
        graphs=with_op.graphs,
        breaks=with_op.breaks,
        kernels=with_op.kernels,
        calls=with_op.externs,
        inside=without.kernels,
        inside_calls=without.externs,
        triton_op=triton_op,
    )


def _with_fake() -> Function:
    @torch.library.custom_op(f"{NAMESPACE}::with_fake", mutates_args=())
    def with_fake(x: Tensor) -> Tensor:
        return x + 1

    with_fake.register_fake(torch.empty_like)
    return with_fake


def _triton_op(kind: str) -> Function:
    """Imported here, as Triton is not there on every machine."""
    from bench.claims import triton_ops

    made: Function = triton_ops.OPS[kind](f"{NAMESPACE}::triton_{kind}")
    return made


def _around(op: Function, device: Hardware) -> Compilation:
    """What is generated for the operator with others before and behind it."""
    torch.compiler.reset()
    with compiling() as seen:
        torch.compile(partial(_pointwise, op=op))(torch.ones(64, 64, device=device.torch_device))
    assert seen.found is not None
    return seen.found


def _pointwise(x: Tensor, op: Function) -> Tensor:
    result: Tensor = op((x * 2).sin()).cos().relu()
    return result
