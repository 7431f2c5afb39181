"""A module with its inputs, which can be copied, cast, moved and redrawn, and its built steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import torch

from modescope.bench.devices.devices import Evictor, Step, evict_first
from modescope.bench.model import copies, geometry, module_state, trees
from modescope.bench.model.made import Made
from modescope.bench.model.module_state import keep_state


@dataclass(frozen=True)
class Inputs:
    """The arguments of a call of forward, and targets that a loss compares its outputs with.

    An argument is a tensor, number, text or None, or a container of these (`bench.model.trees`).
    Only tensors are copied, cast and redrawn; the rest is the same in every call.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    targets: tuple[torch.Tensor, ...] = ()  # of training, one per output

    def tensors(self) -> list[torch.Tensor]:
        """Returns all tensors, first those of positional arguments."""
        return trees.tensors((self.args, self.kwargs, self.targets))

    def leaves(self) -> Iterator[tuple[str, Any]]:
        """Yields each leaf of the arguments with its place: `[0]` by position, `['x']` by name."""
        yield from trees.leaves(self.args)
        yield from trees.leaves(self.kwargs)

    def map(self, function: Callable[[torch.Tensor], torch.Tensor]) -> Inputs:
        """Returns the same arguments in new containers, with `function` applied to each tensor."""
        return Inputs(*trees.map_tensors(function, (self.args, self.kwargs, self.targets)))

    def copy(self, convert: geometry.Convert = torch.clone) -> Inputs:
        """Returns copies that lie in memory like the originals; `convert` makes their storage.

        They are leaves of autograd, and keep `requires_grad`, subclass and attributes.
        """
        copy = geometry.copier(self.tensors(), convert)
        return self.map(lambda tensor: geometry.leaf(copy(tensor), tensor))

    @torch.no_grad()
    def assign(self, values: Inputs) -> None:
        """Overwrites the tensors in place, so that captured graphs see the new values.

        Tensors of `values` must have the same sizes and strides.
        """
        for tensor, value in zip(self.tensors(), values.tensors(), strict=True):
            geometry.write(tensor, value)


@dataclass(frozen=True)
class Subject:
    """A module and the inputs that it is called with; nothing else refers to either."""

    module: torch.nn.Module
    inputs: Inputs
    random: bool = False  # whether forward is known to draw random numbers
    changes: tuple[str, ...] = ()  # places of the arguments that forward is known to change
    state: tuple[str, ...] = ()  # places of the module that forward is known to change
    warm: bool = False  # whether calls return to the state after a first call
    again: Callable[[], torch.nn.Module] | None = None
    """Makes another module as the first was built; None: further modules are deep copies."""
    since: tuple[Callable[[torch.nn.Module], object], ...] = ()
    """What was done to the module since it was built, apart from values."""
    restore: module_state.Restorer | None = None
    """Puts `state` back to what it was when this subject was made; None if it has none."""
    kernels: Callable[[str], torch.nn.Module] | None = None
    """Builds another implementation of the model (`cases.Model.kernels`), by its name."""
    rebuild: Callable[..., Inputs] | None = None
    """A function of a seed, and of other sizes if given, that returns the inputs that the builder
    makes."""
    put_back: tuple[str, ...] = ()  # settings of torch that building it had changed
    order: tuple[str, ...] = ()  # of calls that vary (`mixed_calls`): the names of their sizes
    order_of_baseline: tuple[str, ...] = ()  # which is called without padding
    graphs_on: torch.device | None = None  # where calls are captured, so that inputs stay in place
    alternates: bool = False  # whether each call sets how fp32 is multiplied (`fp32_products`)
    switches: tuple[str, ...] = ()  # axes of modes whose switch is set before each call

    @cached_property
    def parts(self) -> dict[str, Subject]:
        """Maps each size to the module with inputs of that size; empty if calls have one size."""
        if not self.order:
            return {}
        [every] = self.inputs.args
        plain = replace(self, order=(), order_of_baseline=(), rebuild=None)
        return {name: replace(plain, inputs=Inputs(*every[name])) for name in every}

    @cached_property
    def given(self) -> Inputs:
        """What forward and a loss get: `inputs`, with copies of those that forward changes.

        Calls that are captured get copies of all tensors on `graphs_on`, as a graph reads its
        inputs at fixed addresses.
        """
        copied = {
            id(tensor)
            for tensor in self.inputs.tensors()
            if id(tensor) in self.changed or tensor.device == self.graphs_on
        }
        own = [tensor for tensor in self.inputs.tensors() if id(tensor) in copied]
        copy = geometry.copier(own, torch.clone)  # those that share memory share it again

        def give(tensor: torch.Tensor) -> torch.Tensor:
            return geometry.leaf(copy(tensor), tensor) if id(tensor) in copied else tensor

        return self.inputs.map(give)

    @cached_property
    def changed(self) -> frozenset[int]:
        """The ids of those `inputs` that forward changes."""
        leaves = dict(self.inputs.leaves())
        return frozenset(id(leaves.get(place)) for place in self.changes)

    def copied(self, changed: bool) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Returns the tensors of `given` that are copies, each with its original.

        `changed`: those that forward changes, else those that a captured call reads.
        """
        pairs = zip(self.given.tensors(), self.inputs.tensors(), strict=True)
        once = {id(own): (own, original) for own, original in pairs}  # a tensor may be given twice
        return [
            (own, original)
            for own, original in once.values()
            if own is not original and (id(original) in self.changed) == changed
        ]

    def cast(self, dtype: torch.dtype | None, every: bool = False) -> Subject:
        """Returns a copy whose fp32 weights, buffers and inputs have `dtype`; None: their own.

        With `every`, those of other floating dtypes have it, too, as a reference needs.
        """

        def converted(tensor: torch.Tensor) -> torch.Tensor:
            known = tensor.is_floating_point() if every else tensor.dtype is torch.float32
            return tensor.to(dtype) if dtype and known else tensor

        inputs = self.inputs.copy(lambda storage: converted(storage.clone()))
        made = replace(self, module=self.another(), inputs=inputs)
        if dtype and (every or dtype is not torch.float32):
            made = made.change(partial(copies.convert, function=converted))
        if self.warm:
            made.warm_up()
        return made.remember_state()

    def warm_up(self) -> None:
        """Calls the module once, without gradients if that works."""
        own = self.inputs.copy()
        try:
            with torch.no_grad():
                self.module(*own.args, **own.kwargs)
        except Exception:
            own = self.inputs.copy()
            with torch.enable_grad():
                self.module(*own.args, **own.kwargs)

    def call(self) -> Any:
        """Calls the module once, on copies of the inputs, and returns its result.

        Before that, it puts the module's state back. If calls have different sizes, it is called
        once at each size; the result is a dict from size to result.
        """
        if self.order:
            return {name: part.call() for name, part in self.parts.items()}
        own = self.inputs.copy()
        if self.restore:
            self.restore()
        return self.module(*own.args, **own.kwargs)

    def tensors(self) -> list[torch.Tensor]:
        """Returns parameters, buffers and inputs, as a call uses them."""
        return [*self.module.parameters(), *self.module.buffers(), *self.given.tensors()]

    def to(self, device: torch.device) -> Subject:
        """Returns the subject on `device`: moves its module in place and copies its inputs."""
        inputs = self.inputs.copy(lambda storage: storage.to(device))
        moved = replace(self, inputs=inputs).change(lambda module: module.to(device))
        return moved.remember_state()

    def on_host(self) -> Subject:
        """Returns a subject like this one whose tensors lie in the host's memory.

        That is this one if all of its own do, so the result must not be called.
        """
        host = torch.device("cpu")
        if all(tensor.device == host for tensor in self.tensors()):
            return self
        return replace(replace(self, warm=False).cast(None).to(host), warm=self.warm)

    def change(self, change: Callable[[torch.nn.Module], object]) -> Subject:
        """Applies `change` to the module; returns the subject whose further modules have it too."""
        change(self.module)
        return replace(self, since=(*self.since, change))

    def another(self) -> torch.nn.Module:
        """Returns another module like this one, with its values, in memory of its own."""
        if self.restore:  # modules may share an object, which the calls of another one changed
            self.restore()
        if self.again is None:
            return copies.copy_module(self.module)
        made = self._changed(self.again())
        copies.load(made, self.module)
        return made

    def _changed(self, made: torch.nn.Module) -> torch.nn.Module:
        for change in self.since:
            change(made)
        return made

    def use(self, build: Callable[[], torch.nn.Module]) -> Subject:
        """Returns the subject with a module that `build` makes, as further ones of it are made.

        All that was done to this one's module since it was built, apart from values, is done to it.
        """
        return replace(self, module=self._changed(build()), again=build)

    def remember_state(self) -> Subject:
        """Returns the subject with a `restore` that returns its module to its present state."""
        restore = module_state.restorer(self.module, self.state) if self.state else None
        return replace(self, restore=restore)


def is_plain_float(tensor: torch.Tensor) -> bool:
    """Whether all numbers are finite and some are not whole, unlike those of masks and lengths."""
    if not tensor.is_floating_point():
        return False
    return bool(tensor.isfinite().all()) and not torch.equal(tensor, tensor.round())


@torch.no_grad()
def redraw(
    inputs: Inputs, seed: int, redrawn: Callable[[torch.Tensor], bool] = lambda tensor: True
) -> Inputs:
    """Returns random inputs like `inputs`: floats are redrawn, integers and booleans permuted.

    Tensors for which `redrawn` is false are copied. Floats keep mean, spread and range of the
    example, so that a model that needs, say, positive values still gets them; a constant keeps its
    sign. Infinite values stay (attention masks).
    """
    generator = torch.Generator().manual_seed(seed)

    def fresh(tensor: torch.Tensor) -> torch.Tensor:
        if not redrawn(tensor):
            return tensor
        if not tensor.is_floating_point():
            order = torch.randperm(tensor.numel(), generator=generator).to(tensor.device)
            return tensor.flatten()[order].view(tensor.shape)
        noise = torch.randn(tensor.shape, generator=generator).to(tensor)
        return torch.where(tensor.isfinite(), _like(tensor, noise), tensor)

    drawn = inputs.copy()
    for tensor in map(geometry.distinct, drawn.tensors()):
        tensor.copy_(fresh(tensor))
    return drawn


def _like(tensor: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """Gives standard normal `noise` the mean, spread and range of the tensor's finite values."""
    known = tensor[tensor.isfinite()]
    if known.numel() == 0:
        return tensor
    low, high = known.aminmax()
    if low == high:  # no spread: zero becomes noise, another value is scaled
        return noise if low == 0 else tensor * noise.exp()
    return (known.mean() + known.std(correction=0) * noise).clamp(low, high)


StepPart = tuple[str, Callable[[Any], Any]]
"""A part of a step: its name (forward, backward, optimizer or scaler), and a function of the
previous part's result."""


@dataclass(frozen=True)
class StateSizes:
    """Bytes of what steps change, for the columns of `bench.records.columns.passes.Memory`."""

    gradient_bytes: int | None = None
    optimizer_bytes: int | None = None


class State:
    """What steps change in addition to the module's buffers; in this base class, nothing."""

    start: Any = None  # what the first step starts from, as returned by `Phase.start`

    def restore(self) -> None:
        """Restores `start` in place, so that the next step is the first again."""

    def adjust_start(self, step: Step) -> None:
        """Adjusts `start` by calling `step`, so that all timed steps do the same work."""

    def tensors(self) -> list[torch.Tensor]:
        """Returns the tensors that live from step to step, without parameters."""
        return []

    def written(self, step: Step) -> list[torch.Tensor]:
        """Returns existing tensors that a step overwrites; may call `step` to find out."""
        return []

    def parts(self) -> tuple[StepPart, ...]:
        """Returns the parts of a step in order; none if they are not timed."""
        return ()

    def parts_note(self) -> str | None:
        """Returns a note on the times of `parts`; None if there is none."""
        return None

    def sizes(self) -> StateSizes:
        """Returns the sizes of the state."""
        return StateSizes()

    def leave_device(self) -> None:
        """Moves modescope's own copies out of the device's memory."""

    def copies_bytes(self) -> int:
        """Returns the bytes of modescope's own copies that are in the same memory as the step."""
        return 0


@dataclass(frozen=True)
class Built:
    """The steps of a variant, ready to be called, and what they change."""

    subject: Subject  # its own weights and inputs
    target: torch.nn.Module  # the module that a step calls, compiled or not
    live: Step  # a step that calls the target, even if `step` is a replay
    step: Step  # what is timed: `live`, or a replay of it
    state: State = field(default_factory=State)
    graphed: bool = False  # forward and backward are one CUDA graph each
    parts: Mapping[str, Built] = field(default_factory=dict)  # where calls vary: by size
    made: Made = field(default_factory=Made)  # what is known of what the backend made
    evictor: Evictor | None = None  # of what each timed call is to find in no cache

    def timed(self) -> Step:
        """Returns its step, with the eviction before each call, if there is any."""
        return evict_first(self.step, self.evictor) if self.evictor else self.step

    @contextmanager
    def keep_state(self) -> Iterator[None]:
        """Undoes on exit what steps within the block change: buffers and state."""
        with keep_state(self.subject.module):
            try:
                yield
            finally:
                self.state.restore()

    def adjust_start(self) -> None:
        """Adjusts what steps start from (`State.adjust_start`), then restores the state to it."""
        with self.keep_state():
            self.state.adjust_start(self.step)

    def tensors(self) -> list[torch.Tensor]:
        """Returns weights, buffers, inputs, and the state's tensors."""
        return [*self.subject.tensors(), *self.state.tensors()]
