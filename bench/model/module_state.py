"""Finds what calls change in a module, and puts it back.

The state of a module is its parameters, its buffers, its plain attributes, and what lists, dicts
and objects in these attributes hold. A program may call a model whose state says how far it has
come (the position in a cache). A benchmark calls it thousands of times, and every call has to begin
where the example begins.
"""

from __future__ import annotations

import random
import sys
from collections import UserList, deque
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import torch
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.parameter import is_lazy

from modescope.bench.model import geometry
from modescope.bench.model.state_parts import (
    ELEMENTS,
    VALUES,
    Array,
    Attributes,
    Content,
    Elements,
    Entries,
    Part,
    Place,
    put_back,
)

KEEPERS = frozenset(vars(torch.nn.Module()))
"""Attributes of every module: its parameters, buffers, children, hooks and `training`."""

OPAQUE = frozenset({*sys.stdlib_module_names, "torch", "numpy"} - {"types", "__main__"})
"""Packages whose objects are not looked into: a pool of threads changes while it works."""

CONTENTS = (list, set, deque, UserList)
"""Containers that are put back as a whole."""

UNSEEN = (Iterator, torch.Generator, random.Random)
"""Types of values that a call may advance, and whose position can be neither seen nor put back. So
are all of NumPy's random numbers."""


@dataclass(frozen=True)
class Restorer:
    """Puts back a module's state when it is called. `values` are the elements that it writes."""

    steps: tuple[Callable[[], None], ...]
    values: tuple[torch.Tensor, ...]

    def __call__(self) -> None:
        """Puts the state back."""
        for step in self.steps:
            step()


class Snapshot:
    """The state of a module when it was made.

    `pristine`: a module like `module` that is never called. Its parameters are then compared with,
    and not copied. `places`: those of which the state is kept; None: all.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        pristine: torch.nn.Module | None = None,
        places: frozenset[Place] | None = None,
    ) -> None:
        self._parts: list[Part] = []
        self._seen = {id(owner) for owner in module.modules()}
        self._todo: list[tuple[Place, Any]] = []
        self._places = places
        self.unseen: list[Place] = []  # places of values of the types UNSEEN
        self._uncalled = dict(pristine.named_parameters()) if pristine is not None else {}
        for prefix, owner in module.named_modules():
            self._add_module(prefix, owner)
        while self._todo:  # no recursion: a list of nodes may be long
            self._visit(*self._todo.pop())

    def changed(self) -> tuple[Place, ...]:
        """Returns the places that differ from what they were, each once."""
        return tuple(dict.fromkeys(place for part in self._parts for place in part.changed()))

    def restorer(self, places: frozenset[Place]) -> Restorer:
        """Returns what puts back the state at `places`."""
        found = [(part, restore) for part in self._parts if (restore := part.restorer(places))]
        tensors = (part.values for part, _ in found if isinstance(part, Elements))
        return Restorer(tuple(restore for _, restore in found), tuple(tensors))

    def _add_module(self, prefix: Place, owner: torch.nn.Module) -> None:
        own = partial(_path, prefix)
        for held in (owner._parameters, owner._buffers, vars(owner)):
            self._add_entries(prefix, own, held, _own_keys)
        kind = type(owner)
        if id(kind) not in self._seen and _package(kind) not in OPAQUE:
            self._seen.add(id(kind))
            self._add_object(kind.__qualname__, Attributes(kind, partial(_data_names, kind)))

    def _add_entries(
        self,
        place: Place,
        name: Callable[[Any], Place],
        holder: MutableMapping[Any, Any],
        counted: Callable[[MutableMapping[Any, Any]], list[Any]] = list,
    ) -> None:
        values = {key: holder[key] for key in counted(holder)}
        self._parts.append(Entries(place, name, holder, values, counted, len(holder)))
        self._todo += [(name(key), value) for key, value in reversed(values.items())]

    def _add_object(self, place: Place, attributes: MutableMapping[str, Any]) -> None:
        self._add_entries(place, lambda name: f"{place}.{name}", attributes)

    def _visit(self, place: Place, value: Any) -> None:
        if isinstance(value, VALUES) or id(value) in self._seen:
            return
        self._seen.add(id(value))
        if isinstance(value, torch.Tensor):
            self._add_elements(place, value)
        elif isinstance(value, torch.nn.Module):  # in a list, say, where torch does not see it
            for prefix, owner in value.named_modules(prefix=place):
                self._seen.add(id(owner))
                self._add_module(prefix, owner)
        elif _is_array(value):
            self._parts.append(Array(place, value, value.copy()))
        elif isinstance(value, UNSEEN) or type(value).__module__.startswith("numpy.random"):
            self.unseen.append(place)
        elif isinstance(value, MutableMapping):
            self._add_entries(place, lambda key: f"{place}[{key!r}]", value)
        elif isinstance(value, (*CONTENTS, tuple)):
            if not isinstance(value, tuple):
                self._parts.append(Content(place, value, tuple(value)))
            self._todo += [(f"{place}[{number}]", item) for number, item in enumerate(value)]
        elif _is_looked_into(value):
            slots = [name for kind in type(value).__mro__ for name in _slots(kind)]
            if slots:
                self._add_object(place, Attributes(value, lambda: slots))
            if hasattr(value, "__dict__"):
                self._add_object(place, vars(value))

    def _add_elements(self, place: Place, tensor: torch.Tensor) -> None:
        if is_lazy(tensor) or not geometry.is_plain(tensor):
            return
        if self._places is not None and place + ELEMENTS not in self._places:
            return
        uncalled = self._uncalled.get(place)
        if isinstance(tensor, torch.nn.Parameter) and uncalled is not None:
            kept = uncalled.detach()
        else:
            plain = tensor.detach()
            kept = geometry.copier([plain], torch.clone)(plain)
        self._parts.append(Elements(place + ELEMENTS, tensor, kept, tensor.grad_fn))


def name_places(places: Iterable[Place]) -> str | None:
    """Returns the places as a text for users, each once and sorted; None if there are none."""
    return ", ".join(sorted({place.removesuffix(ELEMENTS) for place in places})) or None


def restorer(module: torch.nn.Module, places: tuple[Place, ...]) -> Restorer:
    """Returns what puts the state of `module` at `places` back to what it is now."""
    wanted = frozenset(places)
    return Snapshot(module, places=wanted).restorer(wanted)


@dataclass(frozen=True)
class Changes:
    """The state of a module that every call changes.

    `unseen` are places of values that calls may change, which cannot be seen or put back. `start`
    is the state to which calls return. `warm` says that this is the state after a first call,
    because the first call of all makes what later calls only read.
    """

    places: tuple[Place, ...]
    unseen: tuple[Place, ...]
    start: Snapshot
    warm: bool = False


def find_changes(
    module: torch.nn.Module, pristine: torch.nn.Module, call: Callable[[], object]
) -> Changes:
    """Calls `call` one to four times, and returns the state that every call changes.

    What only the first call changes, such as a table that it makes, is no such state. If putting
    the rest back makes the next call a first one again, calls return to the state after the first
    instead. `call` calls `module`, and `pristine` is a module like it that is not called.
    """
    before = Snapshot(module, pristine)
    call()
    first = before.changed()
    if not first:
        return Changes((), tuple(before.unseen), before)
    between = Snapshot(module)
    call()
    second = between.changed()
    if not second:
        return Changes((), tuple(before.unseen), before)
    later = Snapshot(module)
    call()
    third = later.changed()
    every = [place for place in second if place in third]
    places, unseen = list[Place](), list(before.unseen)
    for place in every:
        try:
            between.restorer(frozenset([place]))()
            places.append(place)
        except Exception:  # such as a container that is read-only for others
            unseen.append(place)
    warm = not {*places} <= {*first}
    if not warm:
        before.restorer(frozenset(places))()
        again = Snapshot(module)
        call()
        warm = not {*again.changed()} <= {*places}
    return Changes(tuple(places), tuple(unseen), between if warm else before, warm)


def put_back_in_training(module: torch.nn.Module, places: tuple[Place, ...]) -> tuple[Place, ...]:
    """Returns those of `places` that training is not meant to change.

    It is meant to change floating tensors, such as an average of weights that forward updates, and
    what layers of normalisation keep. A single whole number is a position, whatever its dtype.
    """
    norms = [name for name, layer in module.named_modules() if isinstance(layer, _NormBase)]
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}

    def trained(place: Place) -> bool:
        place = place.removesuffix(ELEMENTS)
        tensor = tensors.get(place)
        of_norm = tensor is not None and place.rpartition(".")[0] in norms
        if of_norm or tensor is None or not tensor.is_floating_point():
            return of_norm
        return tensor.numel() > 1 or not torch.equal(tensor, tensor.round())

    return tuple(place for place in places if not trained(place))


@contextmanager
def keep_state(module: torch.nn.Module) -> Iterator[dict[str, torch.Tensor]]:
    """Restores the module's buffers after the block, whether calls changed or replaced them.

    Yields copies of the buffers, with names as in `named_buffers`.
    """
    buffers = [
        (owner, name, buffer, buffer is None or buffer.is_leaf, _path(prefix, name))
        for prefix, owner in module.named_modules()
        for name, buffer in owner._buffers.items()
    ]
    before = {
        full: geometry.copier([buffer], torch.clone)(buffer)
        for *_, buffer, _, full in buffers
        if not (buffer is None or is_lazy(buffer))
    }
    try:
        yield before
    finally:
        for owner, name, buffer, was_leaf, full in buffers:
            if buffer is not None and full in before:
                put_back(buffer, before[full], was_leaf)  # graphs contain its address
            setattr(owner, name, buffer)


def _path(prefix: str, name: str) -> Place:
    return f"{prefix}.{name}".lstrip(".")


def _own_keys(holder: MutableMapping[Any, Any]) -> list[Any]:
    """Returns the keys of one of a module's own dicts, without what every module has."""
    keys = holder.keys()  # which alone lists those of a ScriptModule
    return [key for key in keys if key not in KEEPERS]


def _is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray) and not value.dtype.hasobject


def _is_looked_into(value: Any) -> bool:
    """Whether `value` is an object of the user's whose attributes are state."""
    if isinstance(value, (type, ModuleType, FunctionType, MethodType)):
        return False
    has_attributes = hasattr(value, "__dict__") or any(map(_slots, type(value).__mro__))
    return has_attributes and (
        type(value) is SimpleNamespace or _package(type(value)) not in OPAQUE
    )


def _package(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _slots(kind: type) -> list[str]:
    names = vars(kind).get("__slots__", ())
    listed = [names] if isinstance(names, str) else [*names]
    return [name for name in listed if name not in ("__dict__", "__weakref__")]


def _data_names(kind: type) -> list[str]:
    """Returns the attributes of a class that are data, such as a counter of all calls."""
    kinds = (int, float, str, torch.Tensor, MutableMapping, *CONTENTS, SimpleNamespace)
    return [
        name
        for name, value in vars(kind).items()
        if isinstance(value, kinds) and not name.startswith("__")
    ]
