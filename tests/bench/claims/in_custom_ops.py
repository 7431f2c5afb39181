"""Custom operators: made-up observations, and a torch.library that does the opposite."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
import torch

from bench.claims.chapters.custom_ops import STATED, Faked, Opaque
from bench.claims.chapters.custom_ops_trained import Trained
from bench.claims.claim import HOLDS, REFUTED, UNDECIDED, WITHIN_LIMITS
from tests.bench.claims.examples import Examples, World

BROKE = Faked({}, {STATED: 1, "other": 2}, {STATED: True, "other": True})
OPAQUE = Opaque(graphs=1, breaks=0, kernels=2, calls=1, inside=1, inside_calls=0, triton_op=None)
TRAINED = Trained({}, {"op": 0.0}, {"op": 1e-7}, {"op": True}, {"op": True}, "no formula")

EXAMPLES: Examples = {
    "custom-op-no-fake": {
        HOLDS: [BROKE],
        WITHIN_LIMITS: [
            replace(BROKE, breaks={STATED: 1, "other": 0}),
            replace(BROKE, breaks={STATED: 1}, errors={"other": "no fake"}),
        ],
        REFUTED: [
            Faked({STATED: "no fake"}, {}, {}),
            replace(BROKE, breaks={STATED: 0, "other": 2}),
            replace(BROKE, right={STATED: False, "other": True}),
        ],
    },
    "custom-op-opaque": {
        HOLDS: [OPAQUE, replace(OPAQUE, triton_op=2)],
        REFUTED: [
            replace(OPAQUE, graphs=2, breaks=1),
            replace(OPAQUE, kernels=1, calls=0),
            replace(OPAQUE, kernels=1),
        ],
        UNDECIDED: [replace(OPAQUE, inside=2, inside_calls=1)],
    },
    "custom-op-autograd": {
        HOLDS: [TRAINED, replace(TRAINED, without=None)],
        WITHIN_LIMITS: [replace(TRAINED, exact={"op": False})],
        REFUTED: [
            replace(TRAINED, errors={"op": "no formula"}),
            replace(TRAINED, falls={"op": False}),
            replace(TRAINED, off_in_eager={"op": 1e-3}),
            replace(TRAINED, off_compiled={"op": 1e-3}),
        ],
    },
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


def _as_custom_op(world: Any) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(torch.library, "custom_op", world)


WORLDS = [
    World(
        "custom-op-no-fake",
        "custom_op registers for one backend, as torch.library.define does",
        WITHIN_LIMITS,
        _as_custom_op(_for_the_cpu_alone),
    ),
    World("custom-op-opaque", "custom_op is a plain function", REFUTED, _as_custom_op(_plain)),
]
