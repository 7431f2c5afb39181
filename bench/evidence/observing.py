"""Observes calls of the timed step: the state of torch, the weights, and what code runs."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode

from modescope.bench.devices.devices import Hardware, Step, prepare_call
from modescope.bench.model import trees
from modescope.bench.model.subject import Built
from modescope.bench.modes import (
    attention,
    axes,
    backends,
    fp32_products,
    modes,
    quantizing,
    regions,
)
from modescope.bench.modes.axes import Called
from modescope.bench.modes.phase import Phase
from modescope.bench.records.cases import SWITCHED, Inference, Mode, Variant, canonical_json
from modescope.bench.records.columns.checks import Checks

GRAPH_LAUNCHES = ("cudaGraphLaunch", "cuGraphLaunch")


@dataclass(frozen=True)
class Observed:
    """What was in effect when a step called the model: each axis, and dtypes of weights.

    `products` says how fp32 was multiplied (`fp32_products.used`), as the model left it. It is None
    if that is unknown, and where neither this variant nor another of the process asks for tf32 or
    bf32.
    """

    axes: dict[str, axes.Value]  # by axis, of those that a call shows (`bench.modes.axes`)
    weight_dtype: str  # all floating ones, such as "bfloat16, float64"; "none" without weights
    products: str | None = None
    attention: tuple[str, ...] | None = None  # operators of it that ran; None if unknown

    def add_to(self, checks: Checks) -> Checks:
        """Returns `checks` with the columns of what was seen."""
        usual = {name: values[0] for name, values in axes.settings().items()}
        others = {name: seen for name, seen in self.axes.items() if seen != usual.get(name, seen)}
        return replace(
            checks,
            seen_grad=str(self.axes["grad"]),
            seen_autocast=str(self.axes["autocast"]),
            seen_weight_dtype=self.weight_dtype,
            seen_attention=None if self.attention is None else canonical_json(self.attention),
            seen_axes=canonical_json(others) if others else None,
        )


def observe(
    built: Built, variant: Variant, device: Hardware, generated: Iterable[str] = ()
) -> Observed:
    """Calls `built.live` once; returns torch's state at the moment when it calls the module.

    `variant` is that of `built`, and `generated` are the names of torch's operators in the code
    that was generated for it. An axis with a witness that is set gets a second call.

    The state is read just before compiled code, if any, is entered. If the timed step is a replay,
    `live` is the call that was captured. Restores what the call changes.
    """
    observed: list[Observed] = []
    given: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    reads_products = built.subject.alternates or variant.dtype in SWITCHED
    kind = type(built.target)
    call = kind.__call__

    def watched(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        if module is not built.target:
            return call(module, *args, **kwargs)
        own = built.subject.module
        observed.append(Observed(axes.read(own, device.type), join_dtypes(weight_dtypes(own))))
        given.append((args, kwargs))
        result = call(module, *args, **kwargs)
        if reads_products:
            observed[0] = replace(observed[0], products=fp32_products.used())
        return result

    # not a hook, which a ScriptModule refuses
    with mock.patch.object(kind, "__call__", watched), built.keep_state():
        built.live()
    if not axes.witnessed(variant):
        return observed[0]
    called = _called(built, variant, device, *given[0], frozenset(generated))
    found = axes.witness(variant, called)
    ran = tuple(attention.names(called.operators)) if "attention" in found else None
    return replace(observed[0], axes={**observed[0].axes, **found}, attention=ran)


def _called(
    built: Built,
    variant: Variant,
    device: Hardware,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    generated: frozenset[str],
) -> Called:
    eager = replace(variant, mode=variant.mode.eager_mode())
    with built.keep_state():
        live, ran = built.live, operators(built.live)
        in_eager = ran
        if variant.mode != eager.mode:
            live = modes.build(built.subject, eager, False, device, Phase(Inference())).live
            in_eager = operators(live)
        given = _given(live) if quantizing.is_asked(variant.mode) else frozenset[str]()
    return Called(built.subject.module, args, kwargs, ran | generated, in_eager, given)


def _given(step: Step) -> frozenset[str]:
    """Calls `step`; returns the classes of what torch's functions took.

    In a call of its own, as some modules run other operators under such a mode.
    """
    with _Given() as noted:
        step()
    return frozenset(noted.classes)


class _Given(TorchFunctionMode):
    """Notes the classes of what torch's functions are given, but for reads of attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.classes = set[str]()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.__name__ != "__get__":
            self.classes.update(type(each).__name__ for each in args)
        return func(*args, **(kwargs or {}))


def operators(step: Step) -> frozenset[str]:
    """Calls `step` under the profiler; returns the names of what it recorded on the host."""
    # not torch.profiler, which imports the compiler
    with torch.autograd.profiler.profile(use_cpu=True) as profile:
        step()
    return frozenset(str(event.name) for event in profile.function_events or [])


def rounds_products(built: Built, variant: Variant) -> bool | None:
    """Returns whether a live call in bf32 has other bits than the same call in fp32.

    False on a CPU that does not multiply in bf16 (`fp32_products.rounds`). None if `variant`, which
    is that of `built`, is not in bf32, or if a call returns no tensor.
    """
    if variant.dtype != "bf32":
        return None
    if not fp32_products.rounds():
        return False
    part = next(iter(built.parts.values()), built)
    results = []
    for dtype in ("fp32", "bf32"):  # the latter last, as it was
        with part.keep_state(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            call = prepare_call(part.live)
            fp32_products.use(dtype)
            results.append([tensor.detach().clone() for tensor in trees.tensors(call())])
    pairs = zip(*results, strict=True)
    return any(not _are_equal(*pair) for pair in pairs) if results[0] else None


def _are_equal(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether all elements are equal, or both no numbers."""
    if torch.equal(first, second):
        return True
    return bool(((first == second) | ((first != first) & (second != second))).all())


def runs_own_code(built: Built) -> bool:
    """Whether `built.live` runs the Python code of the module's, or a block's, compiled forward.

    Torch does so for new sizes once it has reached its limit of compilations.
    """
    module = built.subject.module
    parts = regions.compiled(module) or [module]
    own = {getattr(regions.original(part).forward, "__code__", None) for part in parts}
    seen: list[bool] = []

    def watch(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if code in own and any(frame.f_locals.get(code.co_varnames[0]) is part for part in parts):
            seen.append(True)

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        built.live()
    finally:
        sys.setprofile(before)
    return bool(seen)


def weight_dtypes(module: torch.nn.Module) -> frozenset[str]:
    """Returns the names of the floating dtypes of parameters, such as `float32`."""
    return frozenset(dtype_name(w.dtype) for w in module.parameters() if w.is_floating_point())


def join_dtypes(dtypes: Iterable[str]) -> str:
    """Returns `bfloat16, float32` for these names of dtypes; `none` for no names."""
    return ", ".join(sorted(set(dtypes))) or "none"


def dtype_name(dtype: torch.dtype) -> str:
    """Returns the name of a dtype, such as `float32`."""
    return str(dtype).removeprefix("torch.")


def graph_launches(step: Step, mode: Mode, device: Hardware) -> int | None:
    """Calls `step` under the profiler; returns how many CUDA graphs the call launches.

    Makes no call on a CPU (returns 0) and for a mode without CUDA graphs (returns None). Call it
    after all timing: profiling may slow later calls (CUPTI may stay attached).
    """
    if device.type == "cpu":
        return 0
    if not backends.replays_graphs(mode):
        return None
    with torch.profiler.profile(activities=list(device.activities)) as profile:
        step()
        device.synchronize()
    names = [str(event.name) for event in profile.events() or []]
    return sum(name.startswith(GRAPH_LAUNCHES) for name in names)
