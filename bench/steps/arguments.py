"""What forward does to its arguments, and calls that begin with the example's nevertheless.

A program gives its model other arguments in each call, a benchmark always the same example. What
forward changes in it is put back before every call, or each would begin where the last one ended.
"""

from __future__ import annotations

from typing import Any

import torch

from modescope.bench.devices.devices import Prepared, Step
from modescope.bench.records.errors import UsageError
from modescope.bench.steps import geometry, trees
from modescope.bench.steps.subject import Inputs, Subject

RESIZED = (
    "forward resizes or frees the memory of its argument {place}, which cannot be put back before "
    "each call; let it make a new tensor instead"
)


VARIES = (
    "calls=mix: forward changes its argument {place}, which would have to be put back before each "
    "call; measure this model with calls=repeat"
)


class Snapshot:
    """Arguments as they are before a call."""

    def __init__(self, inputs: Inputs) -> None:
        self._leaves = dict(inputs.leaves())
        values = {place: leaf for place, leaf in self._leaves.items() if _is_plain(leaf)}
        self._values = {place: tensor.clone() for place, tensor in values.items()}
        self._bytes = {place: _allocated_bytes(tensor) for place, tensor in values.items()}
        self._versions = {place: _version(leaf) for place, leaf in self._leaves.items()}

    def differences(self, called: Inputs) -> tuple[str, ...]:
        """The places that differ in `called`, which were `fresh` arguments before the call.

        A tensor's version counts what torch writes, be the values equal. Bits are compared as well,
        for what NumPy, `.data` or a foreign kernel writes. Raises UsageError for what cannot be put
        back.
        """
        for place, leaf in self._leaves.items():
            if place in self._bytes and _allocated_bytes(leaf) != self._bytes[place]:
                raise UsageError(RESIZED.format(place=place))
        after = dict(called.leaves())
        changed = [place for place in self._leaves if self._differs(place, after)]
        added = [place for place in after if place not in self._leaves]
        moved = []
        if not (changed or added):
            moved = [place for place, now in zip(self._leaves, after, strict=True) if place != now]
        return (*changed, *added, *moved)

    def _differs(self, place: str, after: dict[str, Any]) -> bool:
        """Whether the values, or the object at this place, are others now."""
        before = self._leaves[place]
        if place not in after:
            return True
        if _version(before) != self._versions[place]:
            return True
        if place in self._values and not torch.equal(_bits(self._values[place]), _bits(before)):
            return True
        now = after[place]
        if isinstance(before, torch.Tensor) and isinstance(now, torch.Tensor):
            return _properties(before) != _properties(now)
        return now is not before and not (type(now) is type(before) and now == before)


def fresh(inputs: Inputs) -> Inputs:
    """The same memory in new tensors without a history, in new containers.

    Compiled code and captured graphs find it at the same addresses.
    """

    def alias(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach().requires_grad_(tensor.requires_grad)

    return Inputs(*trees.map_tensors(alias, (inputs.args, inputs.kwargs)))


def find_changes(subject: Subject) -> tuple[str, ...]:
    """The places of the arguments that a call of the module as it is changes.

    The call may change the module, but not the inputs. Raises UsageError as `Snapshot.changed`.
    """
    for part in subject.parts.values():
        if changed := find_changes(part):
            raise UsageError(VARIES.format(place=changed[0]))
    if subject.parts:
        return ()
    own = subject.inputs.copy()
    before, called = Snapshot(own), fresh(own)
    subject.module(*called.args, **called.kwargs)
    return before.differences(called)


def call_of(subject: Subject, target: torch.nn.Module) -> Step:
    """A call of `target`, which stands for the module, with the subject's arguments.

    `Prepared` where forward changes them. Without that the call costs nothing more.
    """
    if subject.parts:  # each size once
        calls = [call_of(part, target) for part in subject.parts.values()]
        return lambda: [call() for call in calls]
    args, kwargs = subject.inputs.args, subject.inputs.kwargs
    if not subject.changes:
        return lambda: target(*args, **kwargs)
    renewal = _Renewal(subject)
    return Prepared(renewal, lambda: target(*renewal.called.args, **renewal.called.kwargs))


class _Renewal:
    """Puts the example's values back into what forward is given, and gives it new tensors."""

    def __init__(self, subject: Subject) -> None:
        self._given = subject.given
        pairs = zip(subject.inputs.tensors(), self._given.tensors(), strict=True)
        self._values = [(given, value) for value, given in pairs if given is not value]
        self.called = fresh(self._given)

    def __call__(self) -> None:
        with torch.no_grad():
            for given, value in self._values:
                geometry.write(given, value)
        self.called = fresh(self._given)


def _is_plain(leaf: object) -> bool:
    """Whether it is a tensor whose bytes can be compared: not sparse, quantised or nested."""
    if type(leaf) not in (torch.Tensor, torch.nn.Parameter):
        return False
    assert isinstance(leaf, torch.Tensor)
    return leaf.layout == torch.strided and not (leaf.is_quantized or leaf.is_nested)


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    plain = tensor.detach().resolve_conj().resolve_neg()
    return plain.contiguous().reshape(-1).view(torch.uint8)


def _allocated_bytes(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().nbytes()


def _properties(tensor: torch.Tensor) -> tuple[Any, ...]:
    """What a call may change of a tensor beside its values."""
    shared = (type(tensor), tensor.dtype, tensor.requires_grad, tensor.grad_fn is not None)
    if not _is_plain(tensor):  # a nested one has no single shape
        return shared
    place = (tensor.stride(), tensor.storage_offset(), tensor.untyped_storage()._cdata)
    return (*shared, tensor.shape, *place)


def _version(leaf: object) -> int | None:
    """How often torch has written to it; None where that is not counted."""
    if isinstance(leaf, torch.Tensor) and not leaf.is_inference():
        return leaf._version
    return None
