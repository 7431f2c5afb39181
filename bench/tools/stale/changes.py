"""What may change between a process that fills a cache and one that starts with it (`STATES`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from modescope.bench.model.saved_caches import BUNDLE
from modescope.bench.records.caches import CACHES, Variables
from modescope.bench.records.cases import Case, canonical_json
from modescope.bench.records.errors import UsageError
from modescope.bench.records.plans import Plan
from modescope.bench.sweep.starts import LIBRARY, Rung

MODULE, WEIGHT = "stale_model", "weight.txt"
"""The model's module in a temporary folder, and the file with what is added to a weight."""

FACTOR = "* 1.0"

SOURCE = f'''\
from functools import wraps
from pathlib import Path

import torch
from modescope.bench.model.building import find
from torch.utils._pytree import tree_map_only

original = find("ORIGINAL")


class Model(torch.nn.Module):
    def __init__(self, inside):
        super().__init__()
        self.inside = inside

    def forward(self, *args, **kwargs):
        result = self.inside(*args, **kwargs)
        return tree_map_only(torch.Tensor, lambda tensor: tensor {FACTOR}, result)


@wraps(original)
def build(*args, **kwargs):
    module, inputs = original(*args, **kwargs)
    weight = [*module.parameters()][-1].data
    weight.view(-1)[0] += float(Path(__file__).with_name("{WEIGHT}").read_text())
    return Model(module), inputs
'''
"""The model that is changed: another one, whose results are multiplied by a factor."""

USUAL: Variables = {
    "PYTHONDONTWRITEBYTECODE": "1",  # else a file that changes within a second may be read stale
    "TORCHINDUCTOR_VEC_ISA_OK": "1",  # saves tests of the processor in each empty cache: 8 seconds
}
"""Variables of all processes."""

OPTION, VALUE = "cpp.simdlen", 1
OF_AVX2 = {"ATEN_CPU_CAPABILITY": "avx2"}


@dataclass(frozen=True)
class World:
    """What a process finds when it starts: the model's folder, a rung's folder, and more."""

    source: Path
    rung: Path
    case: Case
    plan: Plan
    log: Path
    variables: Variables

    def open(self) -> Rung:
        """Returns the rung, as a process finds it."""
        given = USUAL | {"PYTHONPATH": str(self.source)} | self.variables
        return Rung(self.case, self.plan, self.rung, self.log, given)


def write(source: Path, target: str) -> None:
    """Writes the model, unchanged, into the folder `source`; `target` builds what is inside."""
    (source / f"{MODULE}.py").write_text(SOURCE.replace("ORIGINAL", target))
    (source / WEIGHT).write_text("0.0")


def _edit(world: World) -> World:
    path = world.source / f"{MODULE}.py"
    path.write_text(path.read_text().replace(FACTOR, "* 2.0"))
    return world


def _change_weight(world: World) -> World:
    (world.source / WEIGHT).write_text("10.0")
    return world


def _set_option(world: World) -> World:
    variant = world.case.variant
    mode = replace(variant.mode, options=canonical_json({OPTION: VALUE}))
    return replace(world, case=replace(world.case, variant=replace(variant, mode=mode)))


def _remove(pattern: str) -> Callable[[World], World | None]:
    """Returns a change that removes files of a rung; only those that processes start with."""

    def change(world: World) -> World | None:
        cache = CACHES[world.plan.compile_cache]
        is_left = pattern.startswith("filled") and (cache.ships or not cache.fills)
        found = [path for path in world.rung.glob(pattern) if path.is_file()]
        if is_left or not found:
            return None
        for path in found:
            path.unlink()
        return world

    return change


def _save_again(world: World) -> World | None:
    """Replaces a bundle by that of a process which finds everything in the cache."""
    bundle = world.rung / "saved" / BUNDLE
    if not bundle.exists():
        return None
    bundle.unlink()
    if failure := world.open().fill().start.failure:
        raise UsageError(f"the process that saves the bundle again failed: {failure}")
    return world


@dataclass(frozen=True)
class State:
    """A change, in words, and the function that makes it; that returns None if it does not apply.

    `fills_with` are variables of the process that fills the cache.
    """

    meaning: str
    change: Callable[[World], World | None]
    fills_with: tuple[tuple[str, str], ...] = ()
    shows: bool = False  # whether the right result is another after the change
    is_option: bool = False  # whether what was saved before has none of it


STATES = {
    "nothing": State("nothing changed", lambda world: world),
    "weight": State("a weight's value", _change_weight, shows=True),
    "source": State("a line of the model", _edit, shows=True),
    "threads": State(
        "2 threads instead of 1",
        lambda world: replace(world, case=replace(world.case, threads=2)),
    ),
    "option": State(f"option {OPTION}={VALUE}", _set_option, is_option=True),
    "avx2": State("avx2 after avx512", lambda world: replace(world, variables=OF_AVX2)),
    "avx512": State("avx512 after avx2", lambda world: world, fills_with=tuple(OF_AVX2.items())),
    "library": State("compiled C++ removed", _remove(f"filled/**/{LIBRARY}")),
    "entry": State("Inductor's entry removed", _remove("filled/fxgraph/**/*")),
    "dynamo": State("Dynamo's entry removed", _remove("filled/dynamo/**/*")),
    "saved": State("saved file removed", _remove("saved/*")),
    "bundle": State("bundle saved after hits alone", _save_again),
}
"""Changes between the process that fills a cache and one that starts with it."""
