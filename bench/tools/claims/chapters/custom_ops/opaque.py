"""Custom operators (torch.library) under torch.compile: without a fake kernel, and fusion."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from modescope.bench.records.progress import one_line
from modescope.bench.steps.evidence import graph_break_watch
from modescope.bench.tools.claims import lab
from modescope.bench.tools.claims.measuring import CompilerWork

NAMESPACE = "modescope_claims"


def _custom_op(name: str) -> Any:
    """The document's skeleton without its second step."""

    @torch.library.custom_op(f"{NAMESPACE}::{name}", mutates_args=())
    def plain(x: Tensor) -> Tensor:
        return x + 1

    return plain


def _in_place(library: torch.library.Library, backend: str) -> Any:
    @torch.library.custom_op(f"{NAMESPACE}::in_place", mutates_args=("x",))
    def in_place(x: Tensor) -> None:
        x.add_(1)

    def call(x: Tensor) -> Tensor:
        in_place(x)
        return x

    return call


def _defined(name: str, key: str, library: torch.library.Library, backend: str) -> Any:
    """Registered as before there was custom_op, with a kernel for one dispatch key."""
    library.define(f"{name}(Tensor x) -> Tensor")
    library.impl(name, lambda x: x + 1, key or backend)
    return getattr(getattr(torch.ops, library.ns), name)


STATED = "torch.library.custom_op"

# how an operator is registered, without a fake kernel -> what does it in a library, for a backend
WITHOUT_FAKE: dict[str, Callable[[torch.library.Library, str], Any]] = {
    STATED: lambda library, backend: _custom_op("plain"),
    "torch.library.custom_op in place, which returns nothing": _in_place,
    "torch.library.define, a kernel for this backend": partial(_defined, "for_a_backend", ""),
    "torch.library.define, a kernel of other operators": partial(
        _defined, "of_other_operators", "CompositeImplicitAutograd"
    ),
}


def no_fake_breaks(o: lab.Observed) -> lab.Rule:
    """Refuted unless a custom_op without a fake kernel breaks the graph, with the right result.

    Each operator that is registered otherwise, and does not, is a limit.
    """
    cases = [*o.errors, *o.breaks]
    said = {
        how: ", ".join(each.say(how) for each in (o.errors, o.breaks, o.right) if how in each)
        for how in cases
    }
    broke = [how for how in cases if how in o.breaks and o.breaks[how] and o.right[how]]
    yield lab.require(
        "it breaks the graph, with the right result",
        STATED in broke,
        said[STATED],
        "it raises an error" if STATED in o.errors else "there is no break, or a wrong result",
    )
    yield from (lab.limit_if(how not in broke, said[how]) for how in cases)


@lab.claim(
    "a custom op without a fake kernel makes a graph break",
    "003 §10.2 What each piece is for",
    rule=no_fake_breaks,
    figures={"errors": "error,", "breaks": "graph breaks,", "right": "right result,"},
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
def custom_op_no_fake(device: lab.Hardware) -> lab.Values:
    """A first compiled call of operators without a fake kernel; no code is generated for it."""
    errors, breaks, right = {}, {}, {}
    with torch.library._scoped_library(NAMESPACE, "FRAGMENT") as library:
        for how, register in WITHOUT_FAKE.items():
            op = register(library, device.type.upper())
            torch.compiler.reset()
            compiled = torch.compile(lambda x, op=op: op(x * 2) * 2, backend="eager")
            try:
                with graph_break_watch.watch() as broken:
                    result = compiled(torch.ones(2))
            except Exception as error:
                errors[how] = one_line(_origin(error))
            else:
                breaks[how] = graph_break_watch.count(broken)
                right[how] = torch.equal(result, torch.full((2,), 6.0))
    torch.compiler.reset()
    return errors, breaks, right


def _origin(error: BaseException) -> BaseException:
    """What was raised first: the compiler wraps it in errors of its own."""
    while earlier := error.__cause__ or error.__context__:
        error = earlier
    return error


@lab.claim(
    "Inductor does not fuse around a Triton custom op, but does not break either",
    "003 §10.3 A Triton kernel as a custom op",
    needs="cpu cuda",
    compiles=True,
    limit_s=240,
    figures={
        "graphs": lab.must("graphs", 1, "all is one graph"),
        "breaks": lab.must("graph breaks", 0, "there is no graph break"),
        # if torch's own were not fused either, two kernels around the custom op would say nothing
        "inside": lab.given(
            "kernels generated where torch's own operator is in its place",
            1,
            "with torch's own operator in its place one kernel is generated",
        ),
        "inside_calls": lab.given(
            "operators that the generated code calls then", 0, "its code calls no operator"
        ),
        "kernels": lab.must(
            "kernels generated around the custom op",
            2,
            "a kernel is generated before the custom op and one behind it",
        ),
        "calls": lab.must(
            "operators that the generated code calls, the custom op among them",
            1,
            "the custom op is the one operator that the generated code calls",
        ),
        "is_triton": lab.should("the custom op launches a Triton kernel here", True),
        "triton_op": "kernels generated around a torch.library.triton_op",
    },
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
def custom_op_opaque(device: lab.Hardware) -> lab.Values:
    """Kernels generated for pointwise operators around a custom op.

    On a GPU it launches a Triton kernel, on a CPU it adds by torch.
    """
    if device.queues:
        op = _triton_op("custom_op")
    else:
        op = _custom_op("with_fake")
        op.register_fake(torch.empty_like)
    with_op, without = _around(op, device), _around(lambda x: x + 1, device)
    yield from (with_op.graphs, with_op.breaks, without.kernels, without.externs)
    yield from (with_op.kernels, with_op.externs, device.queues)
    yield _around(_triton_op("triton_op"), device).kernels if device.queues else None


def _triton_op(kind: str) -> Any:
    """Imported here, as Triton is not there on every machine."""
    from modescope.bench.tools.claims import triton_ops

    return triton_ops.OPS[kind](f"{NAMESPACE}::triton_{kind}")


def _around(op: Callable[[Tensor], Tensor], device: lab.Hardware) -> CompilerWork:
    """What is generated for the operator with others before and behind it."""
    torch.compiler.reset()
    compiled = torch.compile(lambda x: op((x * 2).sin()).cos().relu())
    x = torch.ones(64, 64, device=device.torch_device)
    return lab.compiler_work(partial(compiled, x))
