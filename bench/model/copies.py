"""Makes further modules like a first one, and finds what they lack of it or have in common with it.

A further module is made by calling the model's builder again, where there is one that gives a
module of its own each time; else it is a deep copy. `copy.deepcopy` silently drops hooks on
tensors and attributes of parameters, gives each parameter that shares a storage one of its own, and
copies no function, so that one which holds a part of the original goes on using it.
"""

from __future__ import annotations

import copy
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import torch
from torch._library.custom_ops import CustomOpDef
from torch.nn.parameter import is_lazy

from modescope.bench.model import geometry, trees
from modescope.bench.model.compiler import OperatorMode
from modescope.bench.model.module_state import KEEPERS
from modescope.bench.records.errors import one_line

Description = dict[str, str]
"""What is known of a module, by what it is: `the type of 0.weight`."""

FEW = 3  # differences that a message names


def describe(module: torch.nn.Module, values: bool = False) -> Description:
    """Returns what a copy of `module` must have in common with it.

    These are types of modules, parameters, buffers and attributes, hooks, the form of tensors,
    attributes of tensors, and which of them share memory; with `values`, also the attributes that
    are numbers or texts.
    """
    known: Description = {}
    modules, storages = dict[int, str](), dict[int, str]()
    for prefix, part in module.named_modules():
        known[f"the type of {prefix or 'the model'}"] = _type(part)
        for name, child in part._modules.items():
            place = _path(prefix, name)
            known[f"the module {place}"] = modules.setdefault(id(child), place)
        for kind, hooks in vars(part).items():
            if kind.endswith("_hooks") and hooks:
                known[f"{kind.lstrip('_')} of {prefix or 'the model'}"] = str(len(hooks))
        for name, value in _held(part).items():
            place = _path(prefix, name)
            known[f"the type of {place}"] = _type(value)
            if values and isinstance(value, trees.PLAIN):
                known[f"the value of {place}"] = repr(value)
            if isinstance(value, torch.Tensor):
                known |= _describe_tensor(place, value, storages)
    return known


def differences(first: Description, second: Description) -> list[str]:
    """Returns in what `second` differs from `first`: `hooks of 0.weight (1 → none)`."""
    keys = dict.fromkeys([*first, *second])
    texts = {key: (first.get(key, "none"), second.get(key, "none")) for key in keys}
    return [f"{key} ({was} → {now})" for key, (was, now) in texts.items() if was != now]


def shorten_list(texts: list[str]) -> str:
    """Returns the first of `texts`, and how many more there are."""
    more = f" and {len(texts) - FEW} more" if len(texts) > FEW else ""
    return ", ".join(texts[:FEW]) + more


def shares_memory(first: torch.nn.Module, second: torch.nn.Module) -> bool:
    """Whether the modules have a part, parameter, buffer or other tensor in common."""
    parts = {id(part) for part in first.modules()} & {id(part) for part in second.modules()}
    return bool(parts) or bool(_places(first).keys() & _places(second).keys())


def load(module: torch.nn.Module, values: torch.nn.Module) -> None:
    """Gives `module` the values of parameters, buffers and attributes, and the mode, of `values`.

    The modules must have the same description. Tensors are overwritten in place.
    """
    with torch.inference_mode():  # where tensors that were made in inference mode can be written
        for (_, part), (_, source) in zip(
            module.named_modules(), values.named_modules(), strict=True
        ):
            with suppress(NotImplementedError):  # an exported program was traced in one mode
                if part.training != source.training:
                    part.training = source.training
            own, others = _held(part), _held(source)
            for name, tensor in own.items():
                value = others[name]
                if isinstance(tensor, torch.Tensor) and tensor.grad_fn is None:
                    geometry.write(tensor, value)


def state_differences(first: torch.nn.Module, second: torch.nn.Module) -> list[str]:
    """Returns in what keys and sizes the state_dict of `second` differs from that of `first`."""
    was, now = map(_sizes, (first, second))
    texts = [f"{key} is missing" for key in was if key not in now]
    texts += [f"{key} is not in the model" for key in now if key not in was]
    both = ((key, was[key], now[key]) for key in was if key in now)
    return texts + [f"{key} is {new} instead of {old}" for key, old, new in both if new != old]


def convert(module: torch.nn.Module, function: geometry.Convert) -> torch.nn.Module:
    """Applies `function`, such as a cast, to all parameters and buffers in place.

    Returns `module`. Compressed sparse tensors are replaced, because `Module._apply` changes what
    their dtype is called, but not their values (torch 2.13). `Module.to(dtype)` is not used,
    because it would take the imaginary part from complex weights.
    """
    module._apply(lambda tensor: tensor if _is_compressed(tensor) else function(tensor))
    for part in module.modules():
        every: list[dict[str, Any]] = [part._parameters, part._buffers]
        for held in every:
            for name, tensor in held.items():
                if tensor is not None and _is_compressed(tensor):
                    new = function(tensor.detach())
                    is_weight = isinstance(tensor, torch.nn.Parameter)
                    held[name] = torch.nn.Parameter(new, tensor.requires_grad) if is_weight else new
    return module


def copy_module(module: torch.nn.Module, shared: Iterable[torch.Tensor] = ()) -> torch.nn.Module:
    """Returns a deep copy of `module` that has the `shared` tensors in common with it.

    Compressed sparse parameters and buffers are copied apart because deepcopy fails for them. An
    operator that is kept as an attribute (`torch.library.custom_op`) stays the same one, as there
    is one of it in a process.
    """
    attributes = (value for part in module.modules() for value in vars(part).values())
    operators = (value for value in attributes if isinstance(value, CustomOpDef))
    known: dict[int, Any] = {id(kept): kept for kept in (*shared, *operators)}
    for tensor in (*module.parameters(), *module.buffers()):
        if _is_compressed(tensor) and id(tensor) not in known:
            own = tensor.detach().clone()
            is_weight = isinstance(tensor, torch.nn.Parameter)
            known[id(tensor)] = torch.nn.Parameter(own, tensor.requires_grad) if is_weight else own
    return copy.deepcopy(module, known)


def why_not_copied(module: torch.nn.Module) -> str | None:
    """Returns why a deep copy of `module` is impossible or another program; None if it is neither.

    A copy that goes on using the original is not noticed here, but by `Reached`.
    """
    try:
        made = copy_module(module)
    except Exception as error:
        return f"{_first_uncopied(module) or 'the model'} cannot be copied ({one_line(error, 120)})"
    lost = differences(describe(module), describe(made))
    return f"a copy of the model differs in {shorten_list(lost)}" if lost else None


class Reached(OperatorMode):
    """Finds tensors of a module that operators use while it is active: `place` is the first.

    `place` is None if there are none.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.place: str | None = None
        self._places = _places(module)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        for tensor in trees.tensors((args, kwargs or {})):
            with suppress(NotImplementedError, RuntimeError):  # of a tensor without a storage
                self.place = self.place or self._places.get(tensor.untyped_storage()._cdata)
        return func(*args, **(kwargs or {}))


def generator_states() -> Callable[[], None]:
    """Returns a function that sets the random generators of the host to their present states.

    They are the default ones of torch, Python and NumPy.
    """
    kept = torch.get_rng_state().numpy().tobytes()  # a tensor would count as the model's memory
    states: list[Callable[[], object]] = [
        lambda: torch.set_rng_state(torch.frombuffer(bytearray(kept), dtype=torch.uint8)),
        partial(random.setstate, random.getstate()),
    ]
    if numpy := sys.modules.get("numpy"):
        states.append(partial(numpy.random.set_state, numpy.random.get_state()))

    def restore() -> None:
        for put_back in states:
            put_back()

    return restore


@contextmanager
def keep_generators() -> Iterator[None]:
    """Restores the random generators of the host after the block."""
    restore = generator_states()
    try:
        yield
    finally:
        restore()


def _held(part: torch.nn.Module) -> Mapping[str, Any]:
    """Returns the parameters, buffers and plain attributes of `part` itself, by name."""
    left = {*KEEPERS, "_compiled_call_impl"}  # torch drops the latter on purpose
    attributes = {name: value for name, value in vars(part).items() if name not in left}
    return {**part._parameters, **part._buffers, **attributes}


def _describe_tensor(place: str, tensor: torch.Tensor, storages: dict[int, str]) -> Description:
    """Describes a tensor. `storages` has the first place of each storage so far, and is extended.

    Of a tensor that is no leaf or that autograd does not know, hooks cannot be counted.
    """
    after = getattr(tensor, "_post_accumulate_grad_hooks", None) if tensor.is_leaf else None
    hooks = [*(tensor._backward_hooks or ()), *(after or ())]
    form = [str(tensor.dtype).removeprefix("torch."), str(tensor.layout).removeprefix("torch.")]
    known = {f"the gradient of {place}": "required"} if tensor.requires_grad else {}
    if not tensor.is_leaf:
        known[f"the autograd history of {place}"] = "present"
    with suppress(RuntimeError, NotImplementedError, AttributeError):  # lazy, nested or sparse
        form += [f"sizes {tuple(tensor.shape)}", f"strides {tensor.stride()}"]
        storage = tensor.untyped_storage()._cdata
        known[f"the memory of {place}"] = storages.setdefault(storage, place)
    attributes = [
        f"{name}={value!r}" if isinstance(value, trees.PLAIN) else f"{name}: {_type(value)}"
        for name, value in sorted(vars(tensor).items())
    ]
    known[f"the form of {place}"] = " ".join(form)
    if hooks:
        known[f"hooks of {place}"] = str(len(hooks))
    if attributes:
        known[f"attributes of {place}"] = ", ".join(attributes)
    return known


def _places(module: torch.nn.Module) -> dict[int, str]:
    """Maps the storages of parameters, buffers and attributes that are tensors to their places."""
    places: dict[int, str] = {}
    for prefix, part in module.named_modules():
        for name, value in _held(part).items():
            if isinstance(value, torch.Tensor) and value.numel():
                with suppress(RuntimeError, NotImplementedError):
                    places.setdefault(value.untyped_storage()._cdata, _path(prefix, name))
    return places


def _first_uncopied(module: torch.nn.Module) -> str | None:
    for prefix, part in module.named_modules():
        for name, value in _held(part).items():
            try:
                copy.deepcopy(value)
            except Exception:
                return f"{_path(prefix, name)} ({type(value).__name__})"
    return None


def _is_compressed(tensor: torch.Tensor) -> bool:
    return tensor.layout in geometry.COMPRESSED


def _sizes(module: torch.nn.Module) -> dict[str, tuple[int, ...] | None]:
    """Returns the sizes of the tensors in the state_dict of `module`; None of all else."""
    return {
        key: tuple(value.shape) if isinstance(value, torch.Tensor) and not is_lazy(value) else None
        for key, value in module.state_dict().items()
    }


def _path(prefix: str, name: str) -> str:
    return f"{prefix}.{name}".lstrip(".")


def _type(value: Any) -> str:
    kind = type(value)
    name = kind.__qualname__.rpartition("<locals>.")[2]  # as cloudpickle names a local class
    return f"{kind.__module__}.{name}"
