"""Loads a model that another process saved (`modescope.compare`).

The file holds a module, or a function that builds it, and the inputs; the inputs are None if the
function returns them too. Weights are loaded on the CPU. Half precision becomes fp32, in which
every model starts, unless the model has other floats, too. Other tensors that the model held on a
GPU are loaded on a GPU, because moving a module would leave them behind.
"""

from __future__ import annotations

import functools
import importlib
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch._library.custom_ops import OPDEFS, CustomOpDef

from modescope.bench.devices.allocators import is_out_of_memory
from modescope.bench.devices.cuda import gpu_in_use
from modescope.bench.model import geometry, trees
from modescope.bench.records.cases import INPUTS, MODEL, Model
from modescope.bench.records.errors import UsageError, one_line

HALF = (torch.float16, torch.bfloat16)


def load(model: Model) -> Callable[..., Any]:
    """Returns a function that makes the saved module, and its inputs if they are saved.

    Raises UsageError if the file cannot be read or names a module that is not found.
    """
    assert model.pickled is not None
    saved = read(model.pickled.file, model.name)
    origin, inputs = saved[MODEL], saved[INPUTS]
    if isinstance(origin, torch.nn.Module):
        return lambda: _plain(origin, inputs)

    @functools.wraps(origin)
    def build(**arguments: Any) -> Any:
        built = origin(**arguments)
        if inputs is not None:
            return _plain(built, inputs)
        return _plain(*built) if isinstance(built, tuple) and len(built) == 2 else built

    return build


def names_of_main(place: dict[str, Any]) -> dict[str, Any]:
    """Adds `place` to the namespace of this process's `__main__`, and returns that namespace.

    Functions that a notebook or script defined in its own `__main__` get it as their globals when
    they are unpickled here. `place` has `__file__` and the like of that script.
    """
    main = vars(sys.modules["__main__"])
    main.update(place)
    return main


def operator_of(module: str, qualified: str) -> CustomOpDef:
    """Returns the operator `library::name` that `module` defines by torch.library.custom_op."""
    importlib.import_module(module)
    found: CustomOpDef = OPDEFS[qualified]
    return found


def read(file: str, name: str) -> dict[str, Any]:
    """Returns the content of a file as it was saved; raises UsageError if it cannot be read."""
    if str(Path.cwd()) not in sys.path:  # as for a target
        sys.path.append(str(Path.cwd()))
    try:
        saved: dict[str, Any] = torch.load(
            file, map_location=_place, weights_only=False, pickle_module=pickle
        )
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise UsageError(
            f"{name}: a fresh process cannot load it ({one_line(error)}); put the folder of what "
            "it imports on PYTHONPATH, or give a function that builds it instead"
        ) from error
    return saved


def _place(storage: Any, location: str) -> Any:
    """Moves a storage that was saved from a GPU to the GPU in use; leaves all others on the CPU."""
    gpu = gpu_in_use()
    return storage if gpu is None or not location.startswith("cuda") else storage.to(device=gpu)


def _plain(module: Any, inputs: Any) -> tuple[Any, Any]:
    own: list[torch.Tensor] = []
    if isinstance(module, torch.nn.Module):
        own = [*module.parameters(), *module.buffers()]
    floats = {tensor.dtype for tensor in own if tensor.is_floating_point()}
    is_half = floats <= {*HALF}

    def plain(tensor: torch.Tensor) -> torch.Tensor:
        dtype = torch.float32 if is_half and tensor.dtype in HALF else tensor.dtype
        if tensor.dtype == dtype and tensor.device.type == "cpu":
            return tensor
        return geometry.leaf(tensor.to("cpu", dtype), tensor)

    if isinstance(module, torch.nn.Module):
        module._apply(plain)
    return module, trees.map_tensors(plain, inputs)
