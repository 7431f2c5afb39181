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

from modescope.bench.modes import attention, freezing, kernels, layout, quantizing, regions
from modescope.bench.modes.backends import Doubt
from modescope.bench.records.cases import KERNELS, QUANTIZE, TORCH, Case, Mode, Variant

if TYPE_CHECKING:
    import torch

    from modescope.bench.model.subject import Subject
    from modescope.bench.records.environment import DeviceFacts

NONE = "none"

Context = Callable[[], AbstractContextManager[Any]]

Value = str | bool


@dataclass(frozen=True)
class Called:
    """A call of the module in a step: its arguments, and the names of torch's operators that ran.

    The names, such as `aten::addmm`, include those of operators that others are composed of, and
    those in generated code. `in_eager`: those of the same call neither compiled nor captured.
    `given`: names of the classes of what torch's functions took in such a call, where weights have
    fewer bits; else empty.
    """

    module: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    operators: frozenset[str]
    in_eager: frozenset[str]
    given: frozenset[str]


@dataclass(frozen=True)
class Axis:
    """An axis of a mode: what it asks for, how that is brought about, and how it is seen.

    `read` returns the value that is in effect when a step calls the module; it gets the module and
    the type of the device. None: a call does not show it, and `doubts` alone are the proof. `asked`
    returns the value that a variant asks for; None: the setting `mode.<name>`, whose `values`, all
    texts or all booleans, begin with the one that changes nothing. `enter`, `prepare`, `code`,
    `context`, `input_code` and `refuse` of a setting get only variants that ask for another value.
    """

    read: Callable[[torch.nn.Module, str], Value] | None = None
    values: tuple[Value, ...] = ()
    named: bool = False
    """Whether the setting takes any further name, of which the model knows the meaning."""
    asked: Callable[[Variant], Value] | None = None
    set_up: Callable[[Sequence[Variant]], None] | None = None
    """Sets torch for the whole process, by all variants that run in it, before all else."""
    enter: Callable[[Variant, str], Context | None] | None = None
    """Returns what makes the context that each call enters, by variant and type of the device, as
    `torch.no_grad` does; None: none."""
    prepare: Callable[[Subject, Variant], Subject] | None = None
    """Changes the copy of the model and its inputs that the variant calls, once.

    It changes the module by `Subject.change`, which does the same to further copies, and ends with
    `Subject.remember_state` if it replaced the storage of tensors."""
    code: Callable[[Variant, str], tuple[str, ...]] = lambda variant, device_type: ()
    """Lines that do what `set_up` and `prepare` do in a user's program, by variant and type of the
    device."""
    context: Callable[[Variant, str], str] = lambda variant, device_type: ""
    """The expression of the context in a user's program; empty: none."""
    input_code: Callable[[Variant, str], str] = lambda variant, device_type: ""
    """The expression that an input `x` is replaced by in a user's program; empty: none."""
    doubt: str = "{name} was {seen} instead of {asked}"
    """Says that another value than the one asked for was read."""
    doubts: tuple[Doubt, ...] = ()
    """Further reasons why it did not take effect, from all facts of the variant."""
    remarks: tuple[Doubt, ...] = ()
    """What to know of it where it took effect, in the same form."""
    witness: Callable[[Called], str] | None = None
    """Instead of `read`: returns the value that a further call shows. That call is made only for a
    variant that asks for another value than the first."""
    unseen: str = ""
    """Says that a value `none` was in effect, where a witness may return that."""
    switch: Callable[[Variant], object] | None = None
    """Sets what the process does for a variant. Where case or baseline sets the axis, it runs
    before each call of both, untimed."""
    refuse: Callable[[Variant, DeviceFacts], str | None] = lambda variant, device: None
    """Says what a device lacks for the axis; None if nothing is known to be missing."""
    unfit: Callable[[torch.nn.Module], str | None] | None = None
    """Says why the axis changes nothing in a model, as it was built; None if it may."""


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


def _attention(variant: Variant) -> str:
    return str(asked("attention", variant))


AXES = {
    "attention": Axis(
        values=(attention.DEFAULT, *attention.SWITCHES),
        switch=lambda variant: attention.use(_attention(variant)),
        witness=lambda called: attention.read(called.operators, called.in_eager),
        doubt="attention ran as {seen} instead of {asked}",
        unseen="the model calls no scaled_dot_product_attention, which attention={asked} is about",
        refuse=lambda variant, device: attention.refusal(_attention(variant), device),
        code=lambda variant, device_type: attention.code(
            _attention(variant), variant.mode.compiles
        ),
    ),
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
    "regions": Axis(  # a backend does it (`backends.Backend.of_blocks`)
        regions.read,
        values=regions.VALUES,
        doubt="the {seen} was compiled instead of its {asked}",
    ),
    KERNELS: Axis(  # before what changes the module
        values=(TORCH,),
        named=True,
        prepare=kernels.prepare,
        code=kernels.code,
        doubts=((kernels.absent, kernels.ABSENT),),
        remarks=((kernels.unseen, kernels.UNSEEN),),
    ),
    "layout": Axis(
        values=("contiguous", layout.CHANNELS_LAST),
        prepare=layout.prepare,
        code=lambda variant, device_type: ("model.to(memory_format=torch.channels_last)",),
        input_code=lambda variant, device_type: layout.OF_INPUTS,
        witness=lambda called: layout.read(called.module, (called.args, called.kwargs)),
        unfit=layout.unfit,
    ),
    QUANTIZE: Axis(  # after the layout, which is of plain tensors
        values=(quantizing.FULL, *quantizing.QUANTIZERS),
        prepare=quantizing.prepare,
        code=quantizing.code,
        witness=lambda called: quantizing.read(called.module, called.operators, called.given),
        doubt="weights were of {seen} instead of {asked}",
        unseen="no weight has fewer bits, as quantize={asked} asks for",
        refuse=quantizing.refusal,
        unfit=quantizing.unfit,
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


def is_set(name: str, variant: Variant) -> bool:
    """Whether `variant` asks for another value of the setting `mode.<name>` than the first."""
    return AXES[name].asked is None and asked(name, variant) != AXES[name].values[0]


def acting(variant: Variant) -> dict[str, Axis]:
    """Returns the axes by name, without those whose setting has its first value in `variant`."""
    return {name: axis for name, axis in AXES.items() if axis.asked or is_set(name, variant)}


def context(name: str, variant: Variant, device_type: str = "cpu") -> Context | None:
    """Returns the context that a call enters for the axis `name`; None: none."""
    axis = acting(variant).get(name)
    return axis.enter(variant, device_type) if axis and axis.enter else None


def contexts(variant: Variant, device_type: str) -> list[Context]:
    """Returns the contexts that each call of `variant` enters, the innermost first."""
    made = (context(name, variant, device_type) for name in AXES)
    return [found for found in made if found is not None]


def set_up(variants: Sequence[Variant]) -> None:
    """Sets torch as the axes of `variants`, which run in this process, want it."""
    for axis in AXES.values():
        if axis.set_up:
            axis.set_up(variants)


def prepare(subject: Subject, variant: Variant) -> Subject:
    """Returns `subject` as the axes of `variant` want it; its module may be changed."""
    for name in prepared(variant):
        if change := AXES[name].prepare:
            subject = change(subject, variant)
    return subject


def prepared(variant: Variant) -> list[str]:
    """Returns the axes of `variant` that change its copy of the model and the inputs."""
    return [name for name, axis in acting(variant).items() if axis.prepare]


def read(module: torch.nn.Module, device_type: str) -> dict[str, Value]:
    """Returns the value of each axis with a `read` that is in effect now."""
    return {name: axis.read(module, device_type) for name, axis in AXES.items() if axis.read}


def witnessed(variant: Variant) -> list[str]:
    """Returns the axes of `variant` that only a further call shows."""
    return [name for name, axis in AXES.items() if axis.witness and is_set(name, variant)]


def witness(variant: Variant, called: Called) -> dict[str, str]:
    """Returns the value of each axis in `witnessed` that `called` shows."""
    seen = {name: AXES[name].witness for name in witnessed(variant)}
    return {name: look(called) for name, look in seen.items() if look}


def unfit(module: torch.nn.Module) -> dict[str, str]:
    """Returns why axes change nothing in `module`, by name."""
    reasons = {name: axis.unfit(module) for name, axis in AXES.items() if axis.unfit}
    return {name: reason for name, reason in reasons.items() if reason}


def switches(case: Case) -> tuple[str, ...]:
    """Returns the axes whose `switch` runs before each call of `case` and of its baseline."""
    return tuple(
        name
        for name, axis in AXES.items()
        if axis.switch and any(is_set(name, variant) for variant in case.variants)
    )


def switch(names: tuple[str, ...], variant: Variant) -> None:
    """Sets for `variant` what the process does on the axes `names`, which have a `switch`."""
    for name in names:
        if act := AXES[name].switch:
            act(variant)


def switch_back(names: tuple[str, ...]) -> None:
    """Sets the first values of the axes `names`, for calls that are of no variant."""
    switch(names, Variant(Mode("eager", "enabled"), "fp32"))


def describe(names: tuple[str, ...], variant: Variant) -> str:
    """Returns what `variant` asks for on the axes `names`: `attention=math`."""
    return " ".join(f"{name}={asked(name, variant)}" for name in names)


def refusal(variant: Variant, device: DeviceFacts) -> str | None:
    """Says what `device` lacks for an axis of `variant`; None if nothing is known."""
    reasons = (axis.refuse(variant, device) for axis in acting(variant).values())
    return next(filter(None, reasons), None)


def doubts(variant: Variant, seen: Mapping[str, Value]) -> list[str]:
    """Returns a sentence for each axis in `seen` on which `variant` asked for something else."""
    return [
        _doubt(name, seen[name], wanted)
        for name in AXES
        if name in seen and seen[name] != (wanted := asked(name, variant))
    ]


def _doubt(name: str, seen: Value, wanted: Value) -> str:
    axis = AXES[name]
    text = axis.unseen if axis.unseen and seen == NONE else axis.doubt
    return text.format(name=name, seen=seen, asked=wanted)
