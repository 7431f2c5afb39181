"""The base class of modes that see each operator of a call."""

from __future__ import annotations

from torch._compile import _disable_dynamo
from torch.utils._python_dispatch import TorchDispatchMode

from modescope.bench.steps import compiler


class OperatorMode(TorchDispatchMode):
    """A dispatch mode that does not import torch's compiler.

    torch keeps Dynamo away from `__torch_dispatch__` by a decorator whose first call imports the
    compiler, which takes seconds. Here the decorator is left out until something else has imported
    it: the model may compile a part of itself, although the mode of the case does not.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        method = type(self).__torch_dispatch__
        if compiler.is_imported() and not hasattr(method, "__wrapped__"):
            kept_away = _disable_dynamo(method, recursive=True)
            type(self).__torch_dispatch__ = kept_away  # type: ignore[method-assign]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False
