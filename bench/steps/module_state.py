"""Finds what calls change in a module, and puts it back.

The state of a module is its parameters, its buffers, its plain attributes, and what lists, dicts
and objects in these attributes hold. A program may call a model whose state says how far it has
come (the position in a cache). A benchmark calls it thousands of times, and every call has to begin
where the example begins.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.parameter import is_lazy

from modescope.bench.steps import geometry, trees

Place = str
"""A path in a module, such as `blocks.0.cache['k']`, for what stands there; with ELEMENTS, such as
`blocks.0.k[:]`, for the elements of the tensor that stands there."""

ELEMENTS = "[:]"

KEEPERS = frozenset(vars(torch.nn.Module()))
"""Attributes of every module: its parameters, buffers, children, hooks and `training`."""

OPAQUE = frozenset({*sys.stdlib_module_names, "torch", "numpy"} - {"types"})
"""Packages whose objects are not looked into: a pool of threads changes while it works."""

CONTENTS = (list, set, deque)
"""Containers that are put back as a whole."""

UNSEEN = (Iterator, torch.Generator)
"""Types of values that a call may advance, and whose position can be neither seen nor put back."""


@dataclass(frozen=True)
class _Entries:
    """The entries of a dict at one moment: of one of a module's own dicts, or of an attribute."""

    place: Place
    name: Callable[[Any], Place]  # the place of an entry, from its key
    holder: MutableMapping[Any, Any]
    values: dict[Any, Any]

    def changed(self) -> dict[Place, Any]:
        """Maps the places of entries that were set, added or removed since then to their keys."""
        keys = dict.fromkeys([*self.values, *_plain_keys(self.holder)])
        return {self.name(key): key for key in keys if not self._is_same(key)}

    def restorer(self, places: frozenset[Place]) -> Callable[[], None] | None:
        """Returns a function that puts the entries at `places` back; None if it has none there."""
        known = [key for key in self.values if self.name(key) in places]
        names = {self.name(key) for key in known}
        holder, values = self.holder, {key: self.values[key] for key in known}
        may_appear = {each for each in places - names if self._is_parent_of(each)}
        if not (values or may_appear):
            return None

        def restore() -> None:
            for key, value in values.items():
                holder[key] = value
            if may_appear:
                for key in [each for each in _plain_keys(holder) if self.name(each) in may_appear]:
                    del holder[key]

        return restore

    def _is_parent_of(self, place: Place) -> bool:
        if place.endswith(ELEMENTS):
            return False
        return place.rpartition(".")[0] == self.place or place.startswith(f"{self.place}[")

    def _is_same(self, key: Any) -> bool:
        if (key in self.values) != (key in self.holder):
            return False
        before, now = self.values[key], self.holder[key]
        plain = isinstance(before, trees.PLAIN) and type(before) is type(now)
        return before is now or bool(plain and before == now)


@dataclass(frozen=True)
class _Content:
    """What a list, set or deque held at one moment."""

    place: Place
    holder: Any
    values: tuple[Any, ...]

    def changed(self) -> dict[Place, Any]:
        """Maps its place to None if it holds something else now."""
        now = tuple(self.holder)
        same = len(now) == len(self.values) and all(
            old is new for old, new in zip(self.values, now, strict=True)
        )
        return {} if same or now == self.values else {self.place: None}

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
        one, other = self.holder, self.values
        alike = (one.shape, one.dtype) == (other.shape, other.dtype)
        alike = alike and one.grad_fn is self.history
        return {} if alike and geometry.same_bits(one, other) else {self.place: None}

    def restorer(self, places: frozenset[Place]) -> Callable[[], None] | None:
        """Returns a function that writes the elements back in place, as graphs know addresses."""
        if self.place not in places:
            return None
        return partial(_put_back, self.holder, self.values, self.history is None)


_Part = _Entries | _Content | _Elements


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
        self._seen: set[int] = set()
        self._places = places
        self.unseen: list[Place] = []  # places of values of the types UNSEEN
        self._uncalled = dict(pristine.named_parameters()) if pristine is not None else {}
        for prefix, owner in module.named_modules():
            for own in (owner._parameters, owner._buffers):
                self._add_entries(prefix, _attribute_name(prefix), own)
            self._add_entries(prefix, _attribute_name(prefix), vars(owner))

    def changed(self) -> tuple[Place, ...]:
        """Returns the places that differ from what they were, each once."""
        return tuple(dict.fromkeys(place for part in self._parts for place in part.changed()))

    def restorer(self, places: frozenset[Place]) -> Restorer:
        """Returns what puts back the state at `places`."""
        found = [(each, restore) for each in self._parts if (restore := each.restorer(places))]
        tensors = (each.values for each, _ in found if isinstance(each, _Elements))
        return Restorer(tuple(restore for _, restore in found), tuple(tensors))

    def _add_entries(
        self, place: Place, name: Callable[[Any], Place], holder: MutableMapping[Any, Any]
    ) -> None:
        values = {key: holder[key] for key in _plain_keys(holder)}
        self._parts.append(_Entries(place, name, holder, values))
        for key, value in values.items():
            self._add(name(key), value)

    def _add(self, place: Place, value: Any) -> None:
        if isinstance(value, trees.PLAIN) or id(value) in self._seen:
            return
        self._seen.add(id(value))
        if isinstance(value, torch.Tensor):
            self._add_elements(place, value)
        elif isinstance(value, UNSEEN):
            self.unseen.append(place)
        elif isinstance(value, MutableMapping):
            self._add_entries(place, lambda key: f"{place}[{key!r}]", value)
        elif isinstance(value, (*CONTENTS, tuple)):
            if not isinstance(value, tuple):
                self._parts.append(_Content(place, value, tuple(value)))
            for number, each in enumerate(value):
                self._add(f"{place}[{number}]", each)
        elif _is_looked_into(value):
            self._add_entries(place, lambda key: f"{place}.{key}", vars(value))

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
    """Returns the places as a text for users, each once; None if there are none."""
    return ", ".join(dict.fromkeys(each.removesuffix(ELEMENTS) for each in places)) or None


def restorer(module: torch.nn.Module, places: tuple[Place, ...]) -> Restorer:
    """Returns what puts the state of `module` at `places` back to what it is now."""
    wanted = frozenset(places)
    return Snapshot(module, places=wanted).restorer(wanted)


@dataclass(frozen=True)
class Changes:
    """The state of a module that every call changes.

    `unseen` are places of values that calls may change, which cannot be seen or put back.
    `restore` puts what is at `places` of the module that was called back.
    """

    places: tuple[Place, ...]
    unseen: tuple[Place, ...]
    restore: Restorer | None


def find_changes(
    module: torch.nn.Module, pristine: torch.nn.Module, call: Callable[[], object]
) -> Changes:
    """Calls `call` once or twice, and returns the state that each call changes.

    What only the first call changes, such as a table that it makes, is no such state. `call` calls
    `module`, and `pristine` is a module like it that is not called.
    """
    before = Snapshot(module, pristine)
    call()
    unseen, touched = before.unseen, before.changed()
    if not touched:
        return Changes((), tuple(unseen), None)
    between = Snapshot(module, places=frozenset(touched))
    call()
    again, places = between.changed(), list[Place]()
    for place in (each for each in touched if each in again):
        try:
            before.restorer(frozenset([place]))()
            places.append(place)
        except Exception:  # such as a container that is read-only for others
            unseen.append(place)
    return Changes(tuple(places), tuple(unseen), before.restorer(frozenset(places)))


def put_back_in_training(module: torch.nn.Module, places: tuple[Place, ...]) -> tuple[Place, ...]:
    """Returns those of `places` that training is not meant to change.

    It is meant to change floating tensors, such as an average of weights that forward updates, and
    what layers of normalisation keep.
    """
    norms = [name for name, each in module.named_modules() if isinstance(each, _NormBase)]
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}

    def trained(place: Place) -> bool:
        place = place.removesuffix(ELEMENTS)
        tensor = tensors.get(place)
        of_norm = tensor is not None and place.rpartition(".")[0] in norms
        return of_norm or (tensor is not None and tensor.is_floating_point())

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
    with torch.inference_mode():  # where tensors made in inference mode can be written
        geometry.write(tensor, values)


def _path(prefix: str, name: str) -> Place:
    return f"{prefix}.{name}".lstrip(".")


def _attribute_name(prefix: str) -> Callable[[Any], Place]:
    return partial(_path, prefix)


def _plain_keys(holder: MutableMapping[Any, Any]) -> list[Any]:
    keys = holder.keys()  # which alone lists those of a ScriptModule
    return [key for key in keys if not (isinstance(key, str) and key in KEEPERS)]


def _is_looked_into(value: Any) -> bool:
    """Whether `value` is an object of the user's whose attributes are state."""
    kind = type(value)
    if isinstance(value, (torch.nn.Module, type, ModuleType)) or callable(value):
        return False
    package = kind.__module__.partition(".")[0]
    return hasattr(value, "__dict__") and (kind is SimpleNamespace or package not in OPAQUE)
