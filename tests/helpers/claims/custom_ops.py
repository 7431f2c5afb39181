"""Custom operators: made-up observations, and a torch.library that does the opposite."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from modescope.bench.tools.claims.chapters.custom_ops.opaque import STATED
from modescope.bench.tools.claims.verdict import REFUTED, WITHIN_LIMITS
from tests.helpers.claims.examples import Examples, World, Worlds, replaced, variants

BROKE = {
    "errors": {},
    "breaks": {STATED: 1, "other": 2},
    "right": {STATED: True, "other": True},
}
TRAINED = {"off_in_eager": {"op": 0.0}, "off_compiled": {"op": 1e-7}}

EXAMPLES: Examples = {
    "custom-op-no-fake": variants(
        BROKE,
        holds_within_limits=[
            {"breaks": {STATED: 1, "other": 0}},
            {"breaks": {STATED: 1}, "errors": {"other": "no fake"}},
        ],
        refuted=[
            {"errors": {STATED: "no fake"}, "breaks": {}, "right": {}},
            {"breaks": {STATED: 0, "other": 2}},
            {"right": {STATED: False, "other": True}},
        ],
    ),
    "custom-op-opaque": variants(
        {},
        holds_within_limits=[{"is_triton": False}],
        undecided=[{"inside": 2, "inside_calls": 1, "kernels": 3}],
    ),
    "custom-op-autograd": variants(
        TRAINED,
        refuted=[
            {"trained": {"op": "no formula"}, "off_in_eager": {}, "falls": {}},
            {"off_in_eager": {"op": 1e-3}},
            {"off_compiled": {"op": 1e-3}},
        ],
    ),
}


def _for_the_cpu_alone(
    name: str, *, mutates_args: Iterable[str]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """What torch.library had before custom_op, under its name."""
    namespace, _, own = name.partition("::")

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        library = torch.library.Library(namespace, "FRAGMENT")
        schema = torch.library.infer_schema(function, mutates_args=mutates_args)
        library.define(f"{own}_alone{schema}")
        library.impl(f"{own}_alone", function, "CPU")
        op = getattr(getattr(torch.ops, namespace), f"{own}_alone")

        def call(*arguments: Any, held: Any = library) -> Any:
            return op(*arguments)

        return call

    return register


class _Function:
    """A function that takes registrations and leaves them."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)

    def register_fake(self, fake: Callable[..., Any]) -> None:
        """It needs none."""


def _plain(name: str, *, mutates_args: Iterable[str]) -> Callable[[Callable[..., Any]], _Function]:
    return _Function


WORLDS: Worlds = {
    "custom-op-no-fake": [
        World(
            "custom_op registers for one backend, as torch.library.define does",
            WITHIN_LIMITS,
            replaced(torch.library, "custom_op", _for_the_cpu_alone),
        )
    ],
    "custom-op-opaque": [
        World("custom_op is a function", REFUTED, replaced(torch.library, "custom_op", _plain))
    ],
}
