"""Finds out whether a mode that autotunes has anything to tune, before any code is generated.

Inductor chooses between kernels while it lowers a graph. All later steps are skipped: tests of the
CPU's instructions, code generation and the C++ compiler take most of a first call on a CPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest import mock

import torch

from modescope.bench.case.runner import set_up_torch
from modescope.bench.devices.cuda import find
from modescope.bench.records.cases import Case, Plan
from modescope.bench.records.errors import Progress
from modescope.bench.steps import compiler, modes, plain_call
from modescope.bench.steps.evidence import mode_effect
from modescope.bench.steps.phases import phase_of


class _Lowered(Exception):
    """Raised to end the compilation of a graph once it is lowered."""


def nothing_to_tune(progress: Progress, case: Case, plan: Plan) -> bool:
    """Returns whether graphs of the first call leave no choice between kernels. False if unknown.

    Call it in a process of its own, with empty caches of the compiler. Raises what the model or the
    compiler raises.
    """
    progress("choices of kernels")
    set_up_torch(case, plan)
    compiler.import_it()
    device, phase = find(case.device), phase_of(case.options)
    subject = phase.prepare(plain_call.build_drawn(case, device).subject, plan.seed)
    own = phase.own(subject.cast(modes.weight_dtype(case.variant)))
    before = mode_effect.read_compiled()
    with _lower_only() as fixed:
        modes.build(own, case.variant, case.model.fullgraph, device, phase).step()
    compiled = mode_effect.read_compiled().since(before)
    return compiled.autotuned == 0 and len(fixed) >= compiled.graphs > 0 and all(fixed)


@contextmanager
def _lower_only() -> Iterator[list[bool]]:
    """Lowers graphs in the block and runs them uncompiled.

    Yields a list with a value per graph: whether the graph has no template, and so no choice of
    kernels. The CPU's instructions are taken as reported, because torch's tests of them take
    seconds: they compile and load a program for each set.
    """
    from torch._functorch._aot_autograd.utils import make_boxed_func
    from torch._inductor import compile_fx, ir
    from torch._inductor.cpu_vec_isa import VecISA
    from torch._inductor.graph import GraphLowering

    fixed: list[bool] = []

    def ends(graph: Any) -> None:
        fixed.append(not any(isinstance(each, ir.TemplateBuffer) for each in graph.operations))
        raise _Lowered

    def lower(module: torch.fx.GraphModule, *args: Any, **options: Any) -> Any:
        seen = len(fixed)
        try:
            return compile_fx.compile_fx_inner(module, *args, **options)
        except Exception:  # torch wraps what ends a compilation
            if len(fixed) == seen:
                raise
            return make_boxed_func(module.forward)

    compile_it = partial(compile_fx.compile_fx, inner_compile=lower)
    with (
        mock.patch.object(GraphLowering, "codegen", ends),
        mock.patch.object(compile_fx, "compile_fx", compile_it),
        mock.patch.object(VecISA, "check_build", return_value=True),
    ):
        yield fixed
