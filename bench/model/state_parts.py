"""The parts of a module's state, each as it was at one moment: what a dict, list or tensor held.

Each knows what changed since then, and returns a function that puts it back in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import torch

from modescope.bench.model import geometry, trees

Place = str
"""A path in a module, such as `blocks.0.cache['k']`, for what stands there; with ELEMENTS, such as
`blocks.0.k[:]`, for the elements of the tensor that stands there."""

ELEMENTS = "[:]"

VALUES = (*trees.PLAIN, torch.device, torch.dtype, torch.Size)
"""Types of values that are compared by what they are, not by which object they are."""


@dataclass(frozen=True)
class Entries:
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
class Content:
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
class Elements:
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
        return partial(put_back, self.holder, self.values, self.history is None)


@dataclass(frozen=True)
class Array:
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


class Attributes(MutableMapping[str, Any]):
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


Part = Entries | Content | Elements | Array


def put_back(tensor: torch.Tensor, values: torch.Tensor, was_leaf: bool) -> None:
    """Writes `values` into `tensor`, and drops the history that calls gave it if it was a leaf."""
    if was_leaf and not tensor.is_leaf and not tensor._is_view():
        tensor.detach_()  # or each call would extend the history of all calls before
    if tensor.shape != values.shape:  # a call gave it other memory
        tensor.data = values.clone()
        return
    with torch.inference_mode():  # where tensors made in inference mode can be written
        geometry.write(tensor, values)


def _is_same(before: object, now: object) -> bool:
    if before is now:
        return True
    if type(before) is not type(now) or not isinstance(before, VALUES):
        return False
    return bool(before == now) or (before != before and now != now)  # nan equals nan here
