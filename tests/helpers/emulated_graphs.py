"""Emulates CUDA graphs on a CPU: a capture records operators, and a replay calls them again.

As on a GPU a replay does not run the model's Python, works on the captured tensors, and repeats
Python numbers as they were; a capture has results only after the first replay, and refuses to read
a tensor's value. Not emulated: reuse of memory, streams, and compiled code.
"""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from modescope.bench.devices.cuda import Cuda
from modescope.bench.devices.devices import Cpu

REFUSED = "operation not permitted when stream is capturing"
CAPTURE = inspect.signature(torch.cuda.graph)
ASKS_FOR_A_VALUE = (torch.ops.aten._local_scalar_dense, torch.ops.aten.equal)


class Graph:
    """Stands in for `torch.cuda.CUDAGraph`."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, Any, Any, list[torch.Tensor]]] = []
        self.replays = 0

    def replay(self) -> None:
        """Calls every operator again, and writes the results to the captured tensors."""
        self.replays += 1
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            for func, args, kwargs, results in self.calls:
                again = _tensors(func(*args, **kwargs))
                for old, new in zip(results, again, strict=True):
                    if _storage(old) != _storage(new) and not _shares(old, (args, kwargs)):
                        old.data.copy_(new)


class _Capturing(TorchDispatchMode):
    """Records the operators of a capture. `undo` then takes back what they computed."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.graph = graph
        self.made: set[int] = set()  # storages
        self.before: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket in ASKS_FOR_A_VALUE:
            raise RuntimeError(REFUSED)
        kwargs = kwargs or {}
        for tensor in _written(func, args, kwargs):
            if _storage(tensor) not in self.made:
                self.before.setdefault(id(tensor), (tensor, tensor.detach().clone()))
        result = func(*args, **kwargs)
        results = _tensors(result)
        given = {_storage(tensor) for tensor in _tensors((args, kwargs))}
        self.made |= {_storage(tensor) for tensor in results} - given
        self.graph.calls.append((func, args, kwargs, results))
        return result

    def undo(self) -> None:
        for tensor, value in self.before.values():
            tensor.data.copy_(value)
        for *_, results in self.graph.calls:
            for tensor in results:
                if _storage(tensor) in self.made and tensor.is_floating_point():
                    tensor.data.fill_(torch.nan)


@contextmanager
def _capture(graph: Graph, *options: Any, **named: Any) -> Iterator[None]:
    """Stands in for `torch.cuda.graph`, with the same arguments; TypeError for any other."""
    CAPTURE.bind(graph, *options, **named)
    with _Capturing(graph) as capturing:
        yield
    capturing.undo()


class _Mark:
    """A mark in the emulated queue, which is always empty, so it is reached at once."""

    def __init__(self) -> None:
        self.at_s = time.perf_counter()

    def reached(self) -> bool:
        return True

    def seconds_since(self, earlier: _Mark) -> float:
        return self.at_s - earlier.at_s


class Emulated(Cpu):
    """The CPU, with the methods by which `Cuda` captures; made by `emulated`.

    `queues` is true, so that tensors stay at their addresses, as captured graphs need.
    """

    queues = True
    CAPTURE_WARM_UPS = Cuda.CAPTURE_WARM_UPS
    capture = Cuda.capture
    make_graph = Cuda.make_graph

    def hold(self, seconds: float) -> None:
        """Does nothing: an emulated device queues no work, so no work has device time."""

    def mark(self) -> Any:
        return _Mark()


def emulated(patch: pytest.MonkeyPatch) -> Emulated:
    """Replaces torch's CUDA graphs by emulated ones through `patch`; returns the device."""
    stream = SimpleNamespace(wait_stream=lambda other: None)
    for name, value in {
        "CUDAGraph": Graph,
        "graph": _capture,
        "Stream": lambda: stream,
        "stream": lambda stream: _nothing(),
        "current_stream": lambda: stream,
        "synchronize": lambda: None,
    }.items():
        patch.setattr(torch.cuda, name, value)
    patch.setattr(sys.modules["torch.cuda.graphs"], "graph_pool_handle", lambda: None)
    adam = sys.modules["torch.optim.adam"]  # hidden as an attribute by a function of that name
    patch.setattr(adam, "_get_capturable_supported_devices", lambda *_, **__: ["cpu"])
    return Emulated()


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def _tensors(tree: object) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _written(func: Any, args: Any, kwargs: Any) -> list[torch.Tensor]:
    """The arguments that the operator's schema marks as changed in place."""
    arguments = func._schema.arguments
    named = {argument.name: argument for argument in arguments}
    given = [*zip(args, arguments, strict=False), *((v, named[k]) for k, v in kwargs.items())]
    changed = [
        value for value, argument in given if argument.alias_info and argument.alias_info.is_write
    ]
    return _tensors(changed)


def _shares(tensor: torch.Tensor, given: object) -> bool:
    return _storage(tensor) in {_storage(other) for other in _tensors(given)}


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
