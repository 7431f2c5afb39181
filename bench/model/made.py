"""What a backend says of a function that it made. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from modescope.bench.records.columns.compiling import Packaged

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Made:
    """What is known of a function that a backend returns: its attribute `made`.

    `columns` say how it was made. `warnings` are those that torch gave in
    another process. `runs` counts calls of what was made. `check` raises an error if it does not
    stand for a module. `weights_bytes`: what its own copies of weights take. `operators`: names of
    torch's operators in its code, where the process that calls it does not see that generated.
    """

    columns: Packaged = field(default_factory=Packaged)
    warnings: tuple[str, ...] = ()
    runs: Callable[[], int] = lambda: 0
    check: Callable[[torch.nn.Module], None] = lambda module: None
    weights_bytes: int = 0
    operators: tuple[str, ...] = ()
