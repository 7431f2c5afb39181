"""Finds the arguments and the state that a model's forward changes, and restores them.

A program passes new arguments to each call; a benchmark passes the same example again and again.
Without restoring, each call would begin with what the last one left. How a module's state is found
and restored is in `module_state`.
"""

from __future__ import annotations

from typing import Any

import torch

from modescope.bench.devices.devices import Prepared, Step, bare_call, prepare_like
from modescope.bench.model import geometry, trees
from modescope.bench.model.subject import Inputs, Subject
from modescope.bench.records.errors import UsageError

VARIES = (
    "calls=mix: forward changes its argument {place}, which would have to be put back before each "
    "call; measure this model with calls=repeat"
)


def alias_inputs(inputs: Inputs) -> Inputs:
    """Returns `inputs` as new tensors on the same memory, without autograd history.

    Containers are new too. Compiled code and captured graphs find the values at the same addresses.
    """

    def alias(tensor: torch.Tensor) -> torch.Tensor:
        return geometry.leaf(tensor, tensor)

    return Inputs(*trees.map_tensors(alias, (inputs.args, inputs.kwargs)))


def find_changes(subject: Subject) -> tuple[str, ...]:
    """Calls the subject's module and returns the places of the arguments that the call changed.

    A place is a path such as `[0]['x']`. The call may change the module, but not `subject.inputs`.
    Raises UsageError if calls have different sizes and one of them changes its arguments.
    """
    for part in subject.parts.values():
        if changed := find_changes(part):
            raise UsageError(VARIES.format(place=changed[0]))
    if subject.parts:
        return ()
    own = subject.inputs.copy()
    called = alias_inputs(own)
    known = [(place, leaf, _version(leaf)) for place, leaf in own.leaves()]
    subject.module(*called.args, **called.kwargs)
    values, after = dict(subject.inputs.leaves()), dict(called.leaves())
    changed = tuple(
        place
        for place, leaf, version in known
        if place not in after
        or _version(leaf) != version
        or _differs(values[place], leaf, after[place])
        or _has_gradient(after[place])
    )
    places = [place for place, *_ in known]
    added = tuple(place for place in after if place not in places)
    moved = tuple(place for place, now in zip(places, after, strict=False) if place != now)
    return changed + added or moved


def call_of(subject: Subject, target: torch.nn.Module) -> Step:
    """Returns a function that calls `target` with the arguments of the subject's module.

    If calls have different sizes, it calls `target` once with each size. If forward changes its
    arguments or its module's state, it is a `Prepared`: it passes copies of the changed arguments,
    and its untimed preparation writes what was there before into these and into the module.
    """
    if subject.parts:  # each size once
        calls = [call_of(part, target) for part in subject.parts.values()]
        return lambda: [call() for call in calls]
    given, restore = subject.given, subject.restore
    args, kwargs = given.args, given.kwargs
    if not subject.changes:

        def call() -> object:
            return target(*args, **kwargs)

        return Prepared(restore, call, in_a_row=not restore.values) if restore else call
    pairs = subject.copied(changed=True)
    called = alias_inputs(given)

    def renew() -> None:
        nonlocal called
        with torch.no_grad():
            for own, value in pairs:
                geometry.write(own, value)
        called = alias_inputs(given)
        if restore:
            restore()

    return Prepared(renew, lambda: target(*called.args, **called.kwargs))


def sample_of(subject: Subject) -> Inputs:
    """Returns inputs for `make_graphed_callables`, whose graphs read the same addresses for ever.

    Into these it copies other arguments itself. What forward changes stays the tensor that calls
    pass, as nothing would copy it back.
    """
    given, changed = subject.given, {id(own) for own, _ in subject.copied(changed=True)}
    read = [tensor for tensor in given.tensors() if id(tensor) not in changed]
    copy = geometry.copier(read, torch.clone)

    def sample(tensor: torch.Tensor) -> torch.Tensor:
        return tensor if id(tensor) in changed else geometry.leaf(copy(tensor), tensor)

    return given.map(sample)


def fill_first(step: Step, subject: Subject) -> Step:
    """Returns `step`, which is captured, after copies of its inputs to where the graph reads them.

    A graph reads the same addresses in each replay, so a program copies each new batch there
    (PyTorch notes on CUDA graphs). These copies are timed. Arguments that forward changes are part
    of what is prepared.
    """
    pairs = subject.copied(changed=False)
    if not pairs:
        return step
    call = bare_call(step)
    simple = all(geometry.is_distinct(own) and not own.requires_grad for own, _ in pairs)

    def filled() -> object:
        for own, value in pairs:
            own.copy_(value)
        return call()

    @torch.no_grad()
    def write() -> None:
        for own, value in pairs:
            geometry.write(own, value)

    def written() -> object:
        write()
        return call()

    return prepare_like(filled if simple else written, step)


def _differs(value: object, given: object, now: object) -> bool:
    """Whether a call changed one tensor or other value in its arguments, or replaced it.

    `value` is the original, `given` is the copy whose memory the call got, and `now` is what stands
    in its place after the call. Elements are compared bit by bit because NumPy, `.data` and foreign
    kernels write without raising torch's version counter.
    """
    if not (isinstance(value, torch.Tensor) and isinstance(given, torch.Tensor)):
        return now is not given and not (type(now) is type(given) and now == given)
    if geometry.is_plain(value) and not geometry.same_bits(value, given):
        return True
    return not isinstance(now, torch.Tensor) or _properties(given) != _properties(now)


def _has_gradient(leaf: object) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.is_leaf and leaf.grad is not None


def _properties(tensor: torch.Tensor) -> tuple[Any, ...]:
    shared = (type(tensor), tensor.dtype, tensor.requires_grad, tensor.grad_fn is not None)
    if not geometry.is_plain(tensor):  # a nested one has no single shape
        return shared
    place = (tensor.stride(), tensor.storage_offset(), tensor.untyped_storage()._cdata)
    return (*shared, tensor.shape, *place)


def _version(leaf: object) -> int | None:
    if isinstance(leaf, torch.Tensor) and not leaf.is_inference():
        return leaf._version
    return None
