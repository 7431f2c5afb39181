"""The program that a user writes to run a package of AOTInductor. Imports no torch."""

from __future__ import annotations

from modescope.bench.records.cases import Mode

PROGRAM = """\
# ahead of time, once: for inputs of these shapes, strides and dtypes, which nothing checks later
with {context}:
    program = torch.export.export(model, {inputs})
torch._inductor.aoti_compile_and_package(program, package_path="model.pt2")
# in each process; torch._inductor.aoti_load_package("model.pt2") does the same, but compiles tests
# of the processor for up to half a minute, and reads the specification anew in each call
from torch.utils import _pytree

loader = torch._C._aoti.AOTIModelPackageLoader("model.pt2", "model", False, 1, -1)
returned = _pytree.treespec_loads(loader.get_call_spec()[1])


def run_package(*args, **kwargs):
    leaves = _pytree.tree_leaves((args, kwargs))
    tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
    return _pytree.tree_unflatten(loader.boxed_run(tensors), returned)

"""


def lines(mode: Mode, named: bool, context: str) -> tuple[str, ...]:
    """Returns the lines before a call of `run_package`, as `Backend.program` has them."""
    inputs = "(), dict(inputs)" if named else "tuple(inputs)"
    return (PROGRAM.format(context=context, inputs=inputs),)
