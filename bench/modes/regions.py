"""Finds the repeated blocks of a model, and compiles each of them instead of the whole model.

Equal blocks share a graph, so that torch compiles it once. A block gets a class of its own kind
whose forward is compiled: attributes, hooks, `isinstance` and what forward keeps stay as they are,
and torch's own classes are compiled, too, which `block.compile()` skips. Under a dispatch mode such
a block runs in eager (`bench.model.compiler`). The command line reads this file without torch, so
functions import torch inside.
"""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any
from unittest import mock

from modescope.bench.records.cases import Mode
from modescope.bench.records.columns.compiling import Regions

if TYPE_CHECKING:
    import torch

VALUES = ("model", "blocks")
"""Values of `mode.regions`: what is compiled as one."""

NO_BLOCKS = (
    "mode.regions=blocks compiles repeated blocks, and this model has none: no list of layers has "
    "two modules of one class that have layers themselves; use mode=compile"
)

COMPILATIONS = 8
"""Torch's usual limit of compilations of one function; all blocks of a class are one function."""

_ORIGINAL = "_modescope_original"  # the attribute of a compiled class that names the block's own

_WIDTH = 88  # of printed code


def are_asked(mode: Mode) -> bool:
    """Whether `mode` compiles blocks instead of the whole model."""
    return dict(mode.axes).get("regions", VALUES[0]) == "blocks"


def read(module: torch.nn.Module, device_type: str) -> str:
    """Returns the value of `mode.regions` that `module` is prepared for."""
    return VALUES[bool(compiled(module))]


def find(module: torch.nn.Module) -> dict[str, torch.nn.Module]:
    """Returns the repeated blocks of `module` by their names, such as `layers.0`.

    They are members of a ModuleList, Sequential or ModuleDict that have children and weights and
    are of a class that occurs twice among the members. Of nested blocks the outermost count. If
    there are none, they are members that are Sequentials of equal layers and shapes.
    """
    for kind in (_kind, _form):
        distinct = {id(block): (name, block) for name, block in _search(module, "", kind)}
        if distinct:
            return dict(distinct.values())
    return {}


def _search(
    module: torch.nn.Module, prefix: str, kind: Callable[[torch.nn.Module], Any]
) -> Iterator[tuple[str, torch.nn.Module]]:
    children = {f"{prefix}{name}": child for name, child in module.named_children()}
    kinds = {name: kind(child) for name, child in children.items()}
    often = Counter(kinds.values()) if _is_container(module) else Counter()
    repeated = [name for name, value in kinds.items() if value is not None and often[value] > 1]
    for name in repeated:
        yield name, children[name]
    if not repeated:
        for name, child in children.items():
            yield from _search(child, f"{name}.", kind)


def _kind(module: torch.nn.Module) -> Any:
    return original(module) if _has_layers(module) and not _is_container(module) else None


def _form(module: torch.nn.Module) -> Any:
    import torch

    if not (_has_layers(module) and isinstance(module, torch.nn.Sequential)):
        return None
    weights = (*module.named_parameters(), *module.named_buffers())
    return (
        *((name, original(part)) for name, part in module.named_modules()),
        *((name, tuple(tensor.shape)) for name, tensor in weights),
    )


def _is_container(module: torch.nn.Module) -> bool:
    import torch

    return isinstance(module, torch.nn.Sequential | torch.nn.ModuleList | torch.nn.ModuleDict)


def _has_layers(module: torch.nn.Module) -> bool:
    import torch

    if isinstance(module, torch.jit.ScriptModule):  # whose class cannot be derived from
        return False
    return any(True for _ in module.children()) and any(True for _ in module.parameters())


def original(module: torch.nn.Module) -> type[torch.nn.Module]:
    """Returns the class of `module`, and of a compiled block the class that it had before."""
    kind: type[torch.nn.Module] = getattr(type(module), _ORIGINAL, type(module))
    return kind


def compiled(module: torch.nn.Module) -> list[torch.nn.Module]:
    """Returns the blocks of `module` that were prepared by `compile_blocks`."""
    return [part for part in module.modules() if hasattr(type(part), _ORIGINAL)]


def compile_blocks(
    module: torch.nn.Module, compile_one: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> torch.nn.Module:
    """Makes the blocks of `module` run compiled code; returns `module`.

    `compile_one` compiles a function. Blocks that were compiled before are compiled anew.
    """
    import torch._dynamo.config

    blocks = find(module).values()
    settings = torch._dynamo.config  # an argument of torch.compile only from 2.13 on
    settings.recompile_limit = max(settings.recompile_limit, _limit(len(blocks)))
    kinds: dict[type, type] = {}
    for block in blocks:
        kind = original(block)
        if kind not in kinds:
            own = {_ORIGINAL: kind, "forward": compile_one(kind.forward)}
            names = {name: getattr(kind, name) for name in ("__module__", "__qualname__")}
            kinds[kind] = type(kind.__name__, (kind,), names | own)
        block.__class__ = kinds[kind]
    return module


def _limit(blocks: int) -> int:
    return COMPILATIONS * blocks


def observe(module: torch.nn.Module, step: Callable[[], object]) -> Regions:
    """Returns the blocks of `module`, and how many of them run compiled code when `step` is called.

    Calls `step` once. All is None if no block of `module` was compiled.
    """
    blocks = compiled(module)
    if not blocks:
        return Regions()
    called: set[int] = set()
    with ExitStack() as stack:
        for kind in {type(block) for block in blocks}:
            noting = _noting(kind.forward, called)
            stack.enter_context(mock.patch.object(kind, "forward", noting))
        step()
    names = [name for name, part in module.named_modules() if hasattr(type(part), _ORIGINAL)]
    return Regions(len(names), len(called), json.dumps(names))


def _noting(forward: Callable[..., Any], called: set[int]) -> Callable[..., Any]:
    def noted(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        called.add(id(self))
        return forward(self, *args, **kwargs)

    return noted


def code(names: Sequence[str], arguments: str) -> str:
    """Returns lines that compile the blocks called `names` of `model` in a user's program.

    `arguments`: those of torch.compile, as they follow others in a call.
    """
    listed = textwrap.fill(
        ", ".join(json.dumps(name) for name in names) + ",",
        _WIDTH, initial_indent="    ", subsequent_indent="    ",
    )  # fmt: skip
    return (
        f"torch._dynamo.config.recompile_limit = {_limit(len(names))}  # for all blocks together\n"
        f"blocks = [  # equal ones share a graph\n{listed}\n]\n"
        "for block in map(model.get_submodule, blocks):\n"
        f"    block.forward = torch.compile(block.forward{arguments})"
    )
