"""What autograd's tape adds up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor

from bench.claims.claim import Verdict, claim, holds, refuted
from bench.devices import Hardware

A, B = 2.0, 3.0


def _doubled(a: Tensor, b: Tensor) -> Tensor:
    for _ in range(10):
        a = a + a
    return a


# at a = 2, b = 3: the expression and what its derivatives by a and b are, summed over all paths
EXPRESSIONS: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], float, float]] = {
    "a * b + a": (lambda a, b: a * b + a, B + 1, A),
    "a * a + b": (lambda a, b: a * a + b, 2 * A, 1.0),
    "a + a + a - b": (lambda a, b: a + a + a - b, 3.0, -1.0),
    "(a * b) * (a * b)": (lambda a, b: (a * b) * (a * b), 2 * A * B * B, 2 * A * A * B),
    "a doubled ten times by a + a, + b": (lambda a, b: _doubled(a, b) + b, 2.0**10, 1.0),
}
EXAMPLE = "a * b + a"


@dataclass(frozen=True)
class Sums:
    """Gradients at a = 2, b = 3, and how the example's came about."""

    gradients: Annotated[Mapping[str, tuple[float, float]], "gradients of a and b in"]
    expected: Annotated[Mapping[str, tuple[float, float]], "sums over all paths in"]
    again: Annotated[float, "a's gradient after a second backward of the example"]
    history: Annotated[str, "history of the example"]
    hooked: Annotated[tuple[float, ...], "what a hook on a got"]


def paths_add_up(seen: Sums) -> Verdict:
    """Holds if all gradients are the sums over the paths, worked out by hand; else refuted."""
    wrong = [name for name, found in seen.gradients.items() if found != seen.expected[name]]
    if wrong:
        return refuted(
            "gradients are not the sums over all paths",
            f"{wrong[0]} gave {seen.gradients[wrong[0]]} instead of {seen.expected[wrong[0]]}",
        )
    parts = " and ".join(f"{each:g}" for each in seen.hooked)
    return holds(
        f"as worked out by hand for {len(seen.gradients)} expressions; a hook on the example's a "
        f"got {parts}" + (" at once, added up before" if len(seen.hooked) == 1 else "")
    )


@claim(
    id="tape-accumulates",
    statement="gradients of a tensor reached by two paths add up (the a·b + a example)",
    source=("003 §6.3",),
    needs=("cpu",),
    decide=paths_add_up,
    snippet="""
        import torch

        a = torch.tensor(2.0, requires_grad=True)
        b = torch.tensor(3.0, requires_grad=True)
        d = a * b + a
        a.register_hook(lambda gradient: print("a gets", gradient))
        d.backward()
        print(a.grad, b.grad)
    """,
)
def tape_accumulates(device: Hardware) -> Sums:
    """Gradients of two numbers in five expressions that reach them by up to 1024 paths.

    Of the document's example, the history, and what a hook on a gets.
    """
    gradients = {}
    for name, (expression, _, _) in EXPRESSIONS.items():
        a, b = _leaves()
        expression(a, b).backward()
        gradients[name] = (_gradient(a), _gradient(b))
    a, b = _leaves()
    hooked: list[float] = []
    a.register_hook(lambda gradient: hooked.append(gradient.item()))
    d = EXPRESSIONS[EXAMPLE][0](a, b)
    history = _told(d.grad_fn, {id(a): "a", id(b): "b"})
    d.backward(retain_graph=True)
    once = tuple(hooked)
    d.backward()
    expected = {name: (by_a, by_b) for name, (_, by_a, by_b) in EXPRESSIONS.items()}
    return Sums(gradients, expected, _gradient(a), history, once)


def _leaves() -> tuple[Tensor, Tensor]:
    return torch.tensor(A, requires_grad=True), torch.tensor(B, requires_grad=True)


def _gradient(leaf: Tensor) -> float:
    return 0.0 if leaf.grad is None else leaf.grad.item()


def _told(node: Any, leaves: Mapping[int, str]) -> str:
    """A history as nested calls; a leaf by its name."""
    if node is None:
        return "–"
    if hasattr(node, "variable"):
        return leaves.get(id(node.variable), "a leaf")
    parts = (_told(each, leaves) for each, _ in node.next_functions)
    return f"{node.name()}({', '.join(parts)})"
