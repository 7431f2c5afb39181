"""Calls a model as the function that `aot_compile` of torch saved in another process.

The function has the model's guards. It takes the module as its first argument, so it has no weights
of its own, and raises RuntimeError for arguments and settings that it was not compiled for.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from modescope.bench.model.made import Made
from modescope.bench.records.caches import SAVED
from modescope.bench.records.errors import UsageError

FUNCTION = "model.bin"
"""Name of the file in the folder that SAVED names."""

NOT_SAVED = "no process has saved this model with aot_compile"


def save(module: torch.nn.Module, args: Any, kwargs: Any, compile_options: dict[str, Any]) -> None:
    """Compiles `module` for these arguments and saves it in the folder that SAVED names."""
    compiled: Any = torch.compile(module, fullgraph=True, **compile_options)
    function = compiled.forward.aot_compile((args, kwargs))
    function.save_compiled_function(str(Path(os.environ[SAVED]) / FUNCTION))


def load(module: torch.nn.Module) -> Callable[..., Any]:
    """Returns what is called instead of `module`; raises UsageError if nothing was saved."""
    path = Path(os.environ.get(SAVED, os.devnull)) / FUNCTION
    if not path.exists():
        raise UsageError(NOT_SAVED)
    with path.open("rb") as file:
        return Saved(torch.compiler.load_compiled_function(file), module)


class Saved:
    """A loaded function, called without the module; `made` counts its calls."""

    def __init__(self, function: Callable[..., Any], module: torch.nn.Module) -> None:
        self._function, self._module = function, module
        self.runs = 0
        self.made = Made(runs=lambda: self.runs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Returns what the model would return."""
        self.runs += 1
        return self._function(self._module, *args, **kwargs)
