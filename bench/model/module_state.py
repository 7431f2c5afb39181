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
from itertools import islice
from types import FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import torch
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.parameter import is_lazy

from modescope.bench.model import geometry, trees

Place = str
"""A path in a module, such as `blocks.0.cache['k']`, for what stands there; with ELEMENTS, such as
`blocks.0.k[:]`, for the elements of the tensor that stands there."""

ELEMENTS = "[:]"

KEEPERS = frozenset(vars(torch.nn.Module()))
"""Attributes of every module: its parameters, buffers, children, hooks and `training`."""

OPAQUE = frozenset({*sys.stdlib_module_names, "torch", "numpy"} - {"types", "__main__"})
"""Packages whose objects are not looked into: a pool of threads changes while it works."""

CONTENTS = (list, set, deque, UserList)
"""Containers that are put back as a whole."""

VALUES = (*trees.PLAIN, torch.device, torch.dtype, torch.Size)
"""Types of values that are compared by what they are, not by which object they are."""

UNSEEN = (Iterator, torch.Generator, random.Random)
"""Types of values that a call may advance, and whose position can be neither seen nor put back. So
are all of NumPy's random numbers."""


@dataclass(frozen=True)
class _Entries:
    """The entries of a dict at one moment: of one of a module's own dicts, or of an attribute."""

    place: Place
    name: Callable[[Any], Place]  # the place of an entry, from its key
    holder: MutableMapping[Any, Any]
    values: dict[Any, Any]
    counted: Callable[[MutableMapping[Any, Any]], list[Any]]  # the keys that count
    size: int  # of the whole dict

    def changed(self) -> dict[Place, Any]:
        """Maps the places of entries that were set, added or removed since then to their keys."""
        keys = dict.fromkeys([*self.values, *self.counted(self.holder)])
        return {self.name(key): key for key in keys if not self._is_same(key)}

    def restorer(self, places: frozenset[Place]) -> Callable[[], None] | None:
        """Returns a function that puts the entries at `places` back; None if it has none there."""
        known = [key for key in self.values if self.name(key) in places]
        names = {self.name(key) for key in known}
        holder, values, size = self.holder, {key: self.values[key] for key in known}, self.size
        may_appear = {place for place in places - names if self._is_parent_of(place)}
        if not (values or may_appear):
            return None

        def restore() -> None:
            for key, value in values.items():
                holder[key] = value
            new = len(holder) - size if may_appear else 0
            if new > 0:  # the last ones of a dict, which may be large
                keys = islice(reversed(holder), new) if isinstance(holder, dict) else holder
                for key in [key for key in keys if self.name(key) in may_appear]:
                    del holder[key]

        return restore

    def _is_parent_of(self, place: Place) -> bool:
        if place.endswith(ELEMENTS):
            return False
        return place.rpartition(".")[0] == self.place or place.startswith(f"{self.place}[")

    def _is_same(self, key: Any) -> bool:
        if (key in self.values) != (key in self.holder):
            return False
        return key not in self.values or _is_same(self.values[key], self.holder[key])


@dataclass(frozen=True)
class _Content:
    """What a list, set or deque held at one moment."""

    place: Place
    holder: Any
    values: tuple[Any, ...]

    def changed(self) -> dict[Place, Any]:
        """Maps its place to None if it holds something else now."""
        now = tuple(self.holder)
        same = len(now) == len(self.values) and all(map(_is_same, self.values, now))
        return {} if same else {self.place: None}

    def restorer(self, places: frozenset[Place]) -> Callable[[], None] | None:
        """Returns a function that puts the content back; None if `places` lacks its place."""
        if self.place not in places:
            return None
        holder, values = self.holder, self.values

        def restore() -> None:
            holder.clear()
            (holder.update if isinstance(holder, set) else holder.extend)(values)

        return restore


@dataclass(frozen=True)
class _Elements:
    """The elements of a tensor at one moment."""

    place: Place
    holder: torch.Tensor
    values: torch.Tensor  # a copy, or the same tensor of a module that was not called
    history: object  # its grad_fn: a tensor into which a call writes gets that call's

    def changed(self) -> dict[Place, Any]:
        """Maps its place to None if elements differ from those then, bit by bit, or its history."""
        now, before = self.holder, self.values
        alike = (now.shape, now.dtype) == (before.shape, before.dtype)
        alike = alike and now.grad_fn is self.history
        return {} if alike and geometry.same_bits(now, before) else {self.place: None}

    def restorer(self, places: frozenset[Place]) -> Callable[[], None] | None:
        """Returns a function that writes the elements back in place, as graphs know addresses."""
        if self.place not in places:
            return None
        return partial(_put_back, self.holder, self.values, self.history is None)


@dataclass(frozen=True)
class _Array:
    """The elements of an array of NumPy at one moment."""

    place: Place
    holder: Any
    values: Any

    def changed(self) -> dict[Place, Any]:
        """Maps its place to None if its bytes differ from those then."""
        same = self.holder.shape == self.values.shape
        same = same and self.holder.tobytes() == self.values.tobytes()
        return {} if same else {self.place: None}

    def restorer(self, places: frozenset[Place]) -> Callable[[], None] | None:
        """Returns a function that writes the elements back in place."""
        if self.place not in places:
            return None
        return partial(self.holder.__setitem__, ..., self.values)


class _Attributes(MutableMapping[str, Any]):
    """Attributes of an object that are in slots, or those of a class, as a dict."""

    def __init__(self, owner: Any, names: Callable[[], Iterable[str]]) -> None:
        self._owner, self._names = owner, names

    def __getitem__(self, name: str) -> Any:
        if all(name != known for known in self):
            raise KeyError(name)
        return getattr(self._owner, name)

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self._owner, name, value)

    def __delitem__(self, name: str) -> None:
        delattr(self._owner, name)

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._names() if hasattr(self._owner, name))

    def __len__(self) -> int:
        return sum(1 for _ in self)


_Part = _Entries | _Content | _Elements | _Array


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
        self._parts: list[_Part] = []
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
        tensors = (part.values for part, _ in found if isinstance(part, _Elements))
        return Restorer(tuple(restore for _, restore in found), tuple(tensors))

    def _add_module(self, prefix: Place, owner: torch.nn.Module) -> None:
        own = _attribute_name(prefix)
        for held in (owner._parameters, owner._buffers, vars(owner)):
            self._add_entries(prefix, own, held, _own_keys)
        kind = type(owner)
        if id(kind) not in self._seen and _package(kind) not in OPAQUE:
            self._seen.add(id(kind))
            self._add_object(kind.__qualname__, _Attributes(kind, partial(_data_names, kind)))

    def _add_entries(
        self,
        place: Place,
        name: Callable[[Any], Place],
        holder: MutableMapping[Any, Any],
        counted: Callable[[MutableMapping[Any, Any]], list[Any]] = list,
    ) -> None:
        values = {key: holder[key] for key in counted(holder)}
        self._parts.append(_Entries(place, name, holder, values, counted, len(holder)))
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
            self._parts.append(_Array(place, value, value.copy()))
        elif isinstance(value, UNSEEN) or type(value).__module__.startswith("numpy.random"):
            self.unseen.append(place)
        elif isinstance(value, MutableMapping):
            self._add_entries(place, lambda key: f"{place}[{key!r}]", value)
        elif isinstance(value, (*CONTENTS, tuple)):
            if not isinstance(value, tuple):
                self._parts.append(_Content(place, value, tuple(value)))
            self._todo += [(f"{place}[{number}]", item) for number, item in enumerate(value)]
        elif _is_looked_into(value):
            slots = [name for kind in type(value).__mro__ for name in _slots(kind)]
            if slots:
                self._add_object(place, _Attributes(value, lambda: slots))
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
        self._parts.append(_Elements(place + ELEMENTS, tensor, kept, tensor.grad_fn))


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
                _put_back(buffer, before[full], was_leaf)  # graphs contain its address
            setattr(owner, name, buffer)


def _put_back(tensor: torch.Tensor, values: torch.Tensor, was_leaf: bool) -> None:
    """Writes `values` into `tensor`, and drops the history that calls gave it if it was a leaf."""
    if was_leaf and not tensor.is_leaf and not tensor._is_view():
        tensor.detach_()  # or each call would extend the history of all calls before
    if tensor.shape != values.shape:  # a call gave it other memory
        tensor.data = values.clone()
        return
    with torch.inference_mode():  # where tensors made in inference mode can be written
        geometry.write(tensor, values)


def _path(prefix: str, name: str) -> Place:
    return f"{prefix}.{name}".lstrip(".")


def _attribute_name(prefix: str) -> Callable[[Any], Place]:
    return partial(_path, prefix)


def _own_keys(holder: MutableMapping[Any, Any]) -> list[Any]:
    """Returns the keys of one of a module's own dicts, without what every module has."""
    keys = holder.keys()  # which alone lists those of a ScriptModule
    return [key for key in keys if key not in KEEPERS]


def _is_same(before: object, now: object) -> bool:
    if before is now:
        return True
    if type(before) is not type(now) or not isinstance(before, VALUES):
        return False
    return bool(before == now) or (before != before and now != now)  # nan equals nan here


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
