"""The base class of modes that see each operator of a call in plain eager."""

from __future__ import annotations

from torch.utils._python_dispatch import TorchDispatchMode


class OperatorMode(TorchDispatchMode):
    """A dispatch mode for calls in which nothing is compiled.

    torch keeps Dynamo away from `__torch_dispatch__` by a decorator that imports the compiler,
    which takes seconds. Without compiled code around it there is nothing to keep away.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False
