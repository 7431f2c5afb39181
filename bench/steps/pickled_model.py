"""A model that another process saved (`modescope.compare`): a module, or a function that builds it.

The file holds both a model and its inputs, or the inputs are None and the function returns them,
too. Weights come back on the CPU, and those in half precision in fp32, as all models begin. Other
tensors that the model holds on a GPU come back on one, because moving a module leaves them behind.
"""

from __future__ import annotations

import functools
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from modescope.bench.devices.allocators import is_out_of_memory
from modescope.bench.devices.cuda import gpu_in_use
from modescope.bench.records.cases import INPUTS, MODEL, Model
from modescope.bench.records.errors import UsageError, one_line
from modescope.bench.steps import trees

HALF = (torch.float16, torch.bfloat16)


def load(model: Model) -> Callable[..., Any]:
    """The saved function, or one that returns the saved module; with the inputs, if they are saved.

    Raises UsageError where the file cannot be read or names a module that is not found.
    """
    assert model.pickled is not None
    saved = _read(model.pickled.file, model.name)
    origin, inputs = saved[MODEL], saved[INPUTS]
    if isinstance(origin, torch.nn.Module):
        return lambda: (_plain_module(origin), _plain_inputs(inputs))

    @functools.wraps(origin)
    def build(**arguments: Any) -> Any:
        built = _call(origin, model.name, arguments)
        if inputs is None:
            module, example = (
                built if isinstance(built, tuple) and len(built) == 2 else (built, None)
            )
        else:
            module, example = built, inputs
        if not isinstance(module, torch.nn.Module):
            return built
        return module if example is None else (_plain_module(module), _plain_inputs(example))

    return build


def names_of_main(place: dict[str, Any]) -> dict[str, Any]:
    """The names of this process's `__main__`, in which functions of a notebook are defined anew.

    `place`: `__file__` and the like of the script that defined them.
    """
    main = vars(sys.modules["__main__"])
    main.update(place)
    return main


def _read(file: str, name: str) -> dict[str, Any]:
    if str(Path.cwd()) not in sys.path:  # as for a target
        sys.path.append(str(Path.cwd()))
    try:
        saved: dict[str, Any] = torch.load(
            file, map_location=_place, weights_only=False, pickle_module=pickle
        )
    except ImportError as error:
        raise UsageError(
            f"{name}: a fresh process cannot import {error.name} ({error}); install it, or put its "
            "folder on PYTHONPATH"
        ) from error
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise UsageError(
            f"{name}: a fresh process cannot load it ({one_line(error)}); give a function that "
            "builds it instead"
        ) from error
    return saved


def _place(storage: Any, location: str) -> Any:
    """What was on a GPU, on the one that this process uses; all else on the CPU."""
    gpu = gpu_in_use()
    return storage if gpu is None or not location.startswith("cuda") else storage.to(device=gpu)


def _call(function: Callable[..., Any], name: str, arguments: dict[str, Any]) -> Any:
    try:
        return function(**arguments)
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise UsageError(f"{name} raised {one_line(error)}; it has to build the model") from error


def _plain_module(module: torch.nn.Module) -> torch.nn.Module:
    module._apply(_plain)
    return module


def _plain_inputs(inputs: Any) -> Any:
    return trees.map_tensors(_plain, inputs)


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """On the CPU; half precision in fp32."""
    return tensor.to("cpu", torch.float32 if tensor.dtype in HALF else tensor.dtype)
