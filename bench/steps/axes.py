"""The table of a mode's axes beside compiling and capturing: gradients, autocast, and further ones.

A new axis is an entry in `AXES`: the setting `mode.<name>` and its values, what is done once or
around each call, and the proof that it took effect follow from it. The command line reads this file
without torch, so functions import torch inside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from modescope.bench.records.cases import Variant
from modescope.bench.steps import freezing
from modescope.bench.steps.backends import Doubt

if TYPE_CHECKING:
    import torch

    from modescope.bench.steps.subject import Subject

Context = Callable[[], AbstractContextManager[Any]]

Value = str | bool


@dataclass(frozen=True)
class Axis:
    """An axis of a mode: what it asks for, how that is brought about, and how it is seen.

    `read` returns the value that is in effect when a step calls the module; it gets the module and
    the type of the device. None: a call does not show it, and `doubts` alone are the proof. `asked`
    returns the value that a variant asks for; None: the setting `mode.<name>`, whose `values`, all
    texts or all booleans, begin with the one that changes nothing.
    """

    read: Callable[[torch.nn.Module, str], Value] | None
    values: tuple[Value, ...] = ()
    asked: Callable[[Variant], Value] | None = None
    set_up: Callable[[Sequence[Variant]], None] | None = None
    """Sets torch for the whole process, by the variants that run in it, before all else."""
    enter: Callable[[Variant, str], Context | None] | None = None
    """Returns the context that each call enters, by variant and type of the device; None: none."""
    prepare: Callable[[Subject, Variant], Subject] | None = None
    """Changes the copy of the model and its inputs that the variant calls, once."""
    code: Callable[[Variant, str], tuple[str, ...]] = lambda variant, device_type: ()
    """Lines that do what `set_up` and `prepare` do in a user's program, by variant and type of the
    device."""
    context: Callable[[Variant, str], str] = lambda variant, device_type: ""
    """The expression of the context in a user's program; empty: none."""
    doubt: str = "{name} was {seen} instead of {asked}"
    """Says that another value than the one asked for was read."""
    doubts: tuple[Doubt, ...] = ()
    """Further reasons why it did not take effect, from all facts of the variant."""
    remarks: tuple[Doubt, ...] = ()
    """What to know of it where it took effect, in the same form."""


def _read_grad(module: torch.nn.Module, device_type: str) -> str:
    import torch

    if torch.is_inference_mode_enabled():
        return "inference_mode"
    return "enabled" if torch.is_grad_enabled() else "no_grad"


def _enter_grad(variant: Variant, device_type: str) -> Context | None:
    import torch

    contexts: dict[str, Context] = {
        "no_grad": torch.no_grad, "inference_mode": torch.inference_mode
    }  # fmt: skip
    return contexts.get(variant.mode.grad)  # gradients are recorded by default


def _grad_code(variant: Variant, device_type: str) -> str:
    return "" if variant.mode.grad == "enabled" else f"torch.{variant.mode.grad}()"


def _autocast_dtype(variant: Variant) -> str:
    return {"bf16": "bfloat16", "fp16": "float16"}.get(variant.dtype, "float32")


def _read_autocast(module: torch.nn.Module, device_type: str) -> str:
    import torch

    if not torch.is_autocast_enabled(device_type):
        return "none"
    return str(torch.get_autocast_dtype(device_type)).removeprefix("torch.")


def _enter_autocast(variant: Variant, device_type: str) -> Context | None:
    import torch

    if not variant.mode.autocast:
        return None
    return partial(torch.autocast, device_type, getattr(torch, _autocast_dtype(variant)))


def _autocast_code(variant: Variant, device_type: str) -> str:
    if not variant.mode.autocast:
        return ""
    return f'torch.autocast("{device_type}", torch.{_autocast_dtype(variant)})'


AXES = {
    "autocast": Axis(
        _read_autocast,
        asked=lambda variant: _autocast_dtype(variant) if variant.mode.autocast else "none",
        enter=_enter_autocast,
        context=_autocast_code,
    ),
    "grad": Axis(
        _read_grad,
        asked=lambda variant: variant.mode.grad,
        enter=_enter_grad,
        context=_grad_code,
        doubt="the model ran under {seen} instead of {asked}",
    ),
    freezing.NAME: Axis(
        read=None,
        values=(False, True),
        set_up=freezing.set_up,
        code=freezing.code,
        doubts=(
            (freezing.froze_nothing, "no weight was frozen"),
            (freezing.froze_unasked, "weights were frozen"),
        ),
        remarks=((freezing.froze, freezing.REMARK),),
    ),
}
"""Each call enters the contexts in this order, the last one first."""


def settings() -> dict[str, tuple[Value, ...]]:
    """Returns the values of each setting `mode.<name>` that an axis adds, the default first."""
    return {name: axis.values for name, axis in AXES.items() if axis.asked is None}


def asked(name: str, variant: Variant) -> Value:
    """Returns the value that `variant` asks for on the axis `name`."""
    axis = AXES[name]
    if axis.asked is not None:
        return axis.asked(variant)
    return dict(variant.mode.axes).get(name, axis.values[0])


def context(name: str, variant: Variant, device_type: str = "cpu") -> Context | None:
    """Returns the context that a call enters for the axis `name`; None: none."""
    enter = AXES[name].enter
    return enter(variant, device_type) if enter else None


def contexts(variant: Variant, device_type: str) -> list[Context]:
    """Returns the contexts that each call of `variant` enters, the innermost first."""
    made = (context(name, variant, device_type) for name in AXES)
    return [each for each in made if each is not None]


def set_up(variants: Sequence[Variant]) -> None:
    """Sets torch as the axes of `variants`, which run in this process, want it."""
    for axis in AXES.values():
        if axis.set_up:
            axis.set_up(variants)


def prepare(subject: Subject, variant: Variant) -> Subject:
    """Returns `subject` as the axes of `variant` want it; its module may be changed."""
    for name, axis in AXES.items():
        if axis.prepare and (axis.asked or asked(name, variant) != axis.values[0]):
            subject = axis.prepare(subject, variant)
    return subject


def read(module: torch.nn.Module, device_type: str) -> dict[str, Value]:
    """Returns the value that is in effect now of each axis that a call shows."""
    return {name: axis.read(module, device_type) for name, axis in AXES.items() if axis.read}


def doubts(variant: Variant, seen: Mapping[str, Value]) -> list[str]:
    """Returns a sentence for each axis in `seen` on which `variant` asked for something else."""
    return [
        AXES[name].doubt.format(name=name, seen=seen[name], asked=wanted)
        for name in AXES
        if name in seen and seen[name] != (wanted := asked(name, variant))
    ]
