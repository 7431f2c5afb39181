"""Finds out whether a call runs the kernels of an implementation of the user's own (mode.kernels).

Its own are the operators of torch's dispatcher, and the kernels of Triton, that it runs in eager
and the model's own implementation does not. They are told by their exact names: Inductor names its
kernels after what it fused, so that `triton_per_fused_mul_rmsnorm_0` is none of them.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

from modescope.bench.devices.devices import Hardware, Step
from modescope.bench.evidence import observing
from modescope.bench.evidence.mode_effect import GraphBreaks, KernelUse
from modescope.bench.model.subject import Built, Subject
from modescope.bench.modes import kernels, modes
from modescope.bench.modes.phase import Phase
from modescope.bench.records.cases import Inference, Variant
from modescope.bench.records.columns.compiling import GeneratedCode

OF_TORCH = ("aten", "prim", "prims", "profiler", "inductor", "torch", "higher_order")
"""Namespaces of operators that an implementation uses around its kernels."""


IS_OPERATOR = re.compile(r"\w+::\w+").fullmatch
"""No match: `torch::autograd::AccumulateGrad`, `MulBackward0`."""


@dataclass(frozen=True)
class Ran:
    """What a call ran: operators such as `aten::mul`, and kernels of Triton by their names."""

    operators: frozenset[str]
    launched: frozenset[str]


def observe(
    built: Built,
    variant: Variant,
    subject: Subject,
    device: Hardware,
    code: GeneratedCode,
    breaks: GraphBreaks | None,
) -> KernelUse:
    """Calls `built.live` and both implementations in eager; returns how kernels were used.

    `variant` is that of `built`, `subject` the model that it was prepared from, and `code` and
    `breaks` are those of its first call. All state is restored.
    """
    if not kernels.is_asked(variant.mode):
        return KernelUse()
    eager = replace(variant, mode=variant.mode.eager_mode())
    torchs = replace(eager, mode=eager.mode.of_torch())
    one_call = Phase(Inference())
    plain = modes.build(built.subject, eager, False, device, one_call)
    in_eager = _run(plain.live, plain)
    of_torch = modes.prepare(subject, torchs, one_call)
    twin = modes.build(of_torch, torchs, False, device, one_call)
    other = _run(twin.live, twin)
    now = _run(built.live, built) if variant.mode != eager.mode else in_eager
    return judge(in_eager, other, now, code, breaks, variant.mode.compiles)


def judge(
    in_eager: Ran,
    other: Ran,
    now: Ran,
    code: GeneratedCode,
    breaks: GraphBreaks | None,
    compiles: bool,
) -> KernelUse:
    """Returns how a call that ran `now`, with this `code`, used what an implementation has alone.

    `in_eager` is what the implementation runs in eager, and `other` what the model's own does.
    """
    own = {name for name in in_eager.operators - other.operators if _is_of_user(name)}
    launched = in_eager.launched - other.launched
    if not (own or launched):  # a function of C++ without an operator is not seen
        return KernelUse(kernels.NOT_RUN if in_eager.operators == other.operators else None)
    lost = f" ({', '.join(sorted(own | launched))})"
    inlined = launched & set(json.loads(code.own_kernel_names or "[]"))
    extern = {_dispatched(name) for name in json.loads(code.fallback_kernels or "[]")}
    ran = (own & now.operators) | (launched & now.launched)
    broken = breaks is not None and bool(breaks.sites or breaks.in_eager)
    found = (
        (kernels.INLINED, inlined),
        (kernels.CALLED, own & extern),
        (kernels.BROKE if compiles and broken else kernels.CALLED, ran),
    )
    use, names = next(((use, names) for use, names in found if names), (kernels.NOT_RUN, set()))
    return KernelUse(use, tuple(sorted(names)), lost)


def _is_of_user(name: str) -> bool:
    return IS_OPERATOR(name) is not None and name.partition("::")[0] not in OF_TORCH


def _dispatched(name: str) -> str:
    """Returns `library::operator` for `library.operator.overload`, as generated code calls it."""
    namespace, _, operator = name.partition(".")
    return f"{namespace}::{operator.partition('.')[0]}"


def _run(step: Step, built: Built) -> Ran:
    with built.keep_state(), _watch_launches() as launched:
        operators = observing.operators(step)
    return Ran(operators, frozenset(launched))


@contextmanager
def _watch_launches() -> Iterator[set[str]]:
    """Collects the names of the kernels of Triton that the program itself launches in the block.

    Inductor launches its own, and those that it found in what it compiled, by other ways.
    """
    names: set[str] = set()
    jit = sys.modules.get("triton.runtime.jit")
    if jit is None:
        yield names
        return
    run = jit.JITFunction.run

    def noted(kernel: Any, *args: Any, **options: Any) -> Any:
        names.add(kernel.fn.__name__)
        return run(kernel, *args, **options)

    with mock.patch.object(jit.JITFunction, "run", noted):
        yield names
