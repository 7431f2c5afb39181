"""Calls a model that was compiled ahead of time: the package that another process has built.

AOTInductor writes a package for inputs of the given shapes, strides and dtypes, and its code checks
none of them: with others it returns nonsense or crashes. So `Package` checks them.
"""

from __future__ import annotations

import json
import os
import re
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from modescope.bench.model.made import Made
from modescope.bench.model.subject import Inputs
from modescope.bench.records.caches import SAVED
from modescope.bench.records.columns.compiling import Packaged
from modescope.bench.records.errors import UsageError

PACKAGE, RECORD = "model.pt2", "model.json"
"""Files in the folder that SAVED names: a package, and what its builder says (`Record`)."""

OPERATOR = re.compile(r"\baoti_torch_(?:cpu|cuda)_(\w+)\(")
"""Matches a call of an operator in the C++ code of a package, which no profiler sees."""

NOT_BUILT = "no process has built a package of this model"

OTHER_INPUT = (
    "the package was built for input {number} as {wanted}, and got {given}: its code checks "
    "nothing, so modescope refuses what it was not built for"
)

OTHER_WEIGHTS = (
    "the builder of the model makes other weights in each process, and a package holds those of "
    "the process that built it; set the seed of all random numbers that the builder draws"
)


@dataclass(frozen=True)
class Record:
    """What the process that built a package says of it.

    `inputs` describes each leaf of the arguments as `describe` does, `weights` is the result of
    `summed`, `operators` of `operators`, and `warnings` are torch's. Times are in seconds.
    """

    export_s: float
    build_s: float
    inputs: list[str]
    weights: list[float]
    weights_bytes: int
    operators: list[str]
    warnings: list[str]


def write(record: Record, folder: Path) -> None:
    """Writes `record` beside the package in `folder`."""
    (folder / RECORD).write_text(json.dumps(asdict(record)))


def describe(leaf: object) -> str:
    """Describes an argument by all that a package depends on, and that its code does not check."""
    if not isinstance(leaf, torch.Tensor):
        return repr(leaf)
    return f"{list(leaf.shape)} {list(leaf.stride())} {leaf.dtype} {leaf.device}"


def summed(module: torch.nn.Module) -> list[float]:
    """Returns the sum of each weight and buffer: other weights have other sums."""
    return [float(tensor.detach().double().sum()) for tensor in _weights(module)]


def _are_close(sums: list[float], others: list[float]) -> bool:
    found, wanted = (torch.tensor(values, dtype=torch.float64) for values in (sums, others))
    same = found.shape == wanted.shape
    return same and torch.allclose(found, wanted, rtol=1e-9, atol=0, equal_nan=True)


def weights_bytes(module: torch.nn.Module) -> int:
    """Returns the bytes of weights and buffers, of which a package has its own copy."""
    return sum(tensor.nbytes for tensor in _weights(module))


def _weights(module: torch.nn.Module) -> list[torch.Tensor]:
    return [*module.parameters(), *module.buffers()]


def operators(package: Path) -> list[str]:
    """Returns the names of torch's operators that the code in the file `package` calls."""
    with zipfile.ZipFile(package) as archive:
        names = (name for name in archive.namelist() if name.endswith(".wrapper.cpp"))
        code = "\n".join(archive.read(name).decode() for name in names)
    return list(dict.fromkeys(OPERATOR.findall(code)))


def load(inputs: Inputs) -> Package:
    """Loads the package of this case for `inputs`; raises UsageError if there is none.

    The loader is the bare one: `torch._inductor.aoti_load_package` imports the compiler and, in a
    process with empty caches, finds out the processor's instructions by compiling for half a
    minute.
    """
    folder = Path(os.environ.get(SAVED, os.devnull))
    if not (folder / RECORD).exists():
        raise UsageError(NOT_BUILT)
    record = Record(**json.loads((folder / RECORD).read_text()))
    start = time.perf_counter()
    with _unpacking_in(folder):
        loader = torch._C._aoti.AOTIModelPackageLoader(str(folder / PACKAGE), "model", False, 1, -1)
    package = Package(loader, inputs, record.inputs)
    load_s = time.perf_counter() - start

    def check(module: torch.nn.Module) -> None:
        if not _are_close(summed(module), record.weights):
            raise UsageError(OTHER_WEIGHTS)

    columns = Packaged(
        package_export_s=record.export_s,
        package_build_s=record.build_s,
        package_load_s=load_s,
        package_bytes=(folder / PACKAGE).stat().st_size,
    )
    package.made = Made(
        operators=tuple(record.operators),
        columns=columns,
        warnings=tuple(record.warnings),
        runs=lambda: package.runs,
        check=check,
        weights_bytes=record.weights_bytes,
    )
    return package


@contextmanager
def _unpacking_in(folder: Path) -> Iterator[None]:
    """Makes the loader unpack in `folder`: it leaves its files behind if the process is ended."""
    before = os.environ.get("TMPDIR")
    os.environ["TMPDIR"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = before


class Package:
    """A loaded package, which takes the arguments that its model took, and no others.

    `runs` counts its calls. `example` are arguments like those of the build, and `described` is how
    the process that built it describes their leaves. Raises UsageError for other arguments.
    """

    def __init__(self, loader: Any, example: Inputs, described: Sequence[str]) -> None:
        self.runs, self.made = 0, Made()
        self._run = loader.boxed_run
        given, returned = map(pytree.treespec_loads, loader.get_call_spec())
        self._flatten, self._unflatten = _flattener(given), _unflattener(returned)
        leaves = self._flatten(example.args, example.kwargs)
        _compare(leaves, described)
        self._described = described
        self._tensors = [
            (number, leaf.shape, leaf.stride(), leaf.dtype, leaf.device)
            for number, leaf in enumerate(leaves)
            if isinstance(leaf, torch.Tensor)
        ]
        self._others = [
            (number, leaf) for number, leaf in enumerate(leaves)
            if not isinstance(leaf, torch.Tensor)
        ]  # fmt: skip

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Returns what the model would return; raises UsageError unless it was built for these."""
        leaves = self._flatten(args, kwargs)
        if len(leaves) != len(self._described):
            _compare(leaves, self._described)
        tensors = []
        for number, shape, stride, dtype, device in self._tensors:
            tensor = leaves[number]
            if (
                not isinstance(tensor, torch.Tensor)
                or tensor.shape != shape
                or tensor.stride() != stride
                or tensor.dtype is not dtype
                or tensor.device != device
            ):
                _compare(leaves, self._described)
            tensors.append(tensor)
        for number, value in self._others:
            if type(leaves[number]) is not type(value) or leaves[number] != value:
                _compare(leaves, self._described)
        self.runs += 1
        return self._unflatten(self._run(tensors))


def _compare(leaves: Sequence[Any], described: Sequence[str]) -> None:
    found = [describe(leaf) for leaf in leaves]
    if len(found) != len(described):
        raise UsageError(f"the package was built for {len(described)} inputs, not {len(found)}")
    for number, (given, wanted) in enumerate(zip(found, described, strict=True)):
        if given != wanted:
            raise UsageError(OTHER_INPUT.format(number=number, wanted=wanted, given=given))


def _flattener(spec: pytree.TreeSpec) -> Callable[[tuple[Any, ...], dict[str, Any]], Sequence[Any]]:
    """Returns a function of arguments that returns their leaves, in the order of the package."""
    args, kwargs = pytree.tree_unflatten(range(spec.num_leaves), spec)
    names = list(kwargs)
    if _are_leaves(args) and _are_leaves(kwargs.values()):
        if not names:
            return lambda args, kwargs: _only(args, kwargs, names)
        return lambda args, kwargs: [*args, *_only(map(kwargs.get, names), kwargs, names)]

    def flatten(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any]:
        ordered = dict(zip(names, _only(map(kwargs.get, names), kwargs, names), strict=True))
        leaves, given = pytree.tree_flatten((args, ordered))
        if given != spec:
            raise UsageError(f"the package was built for arguments like {spec}, not {given}")
        return leaves

    return flatten


def _only(values: Any, kwargs: dict[str, Any], names: Sequence[str]) -> Any:
    if kwargs.keys() != set(names):
        raise UsageError(f"the package was built for arguments named {names}, not {[*kwargs]}")
    return values


def _unflattener(spec: pytree.TreeSpec) -> Callable[[list[Any]], Any]:
    """Returns a function that makes the model's result of the list that a package returns."""
    result = pytree.tree_unflatten(range(spec.num_leaves), spec)
    if _are_leaves([result]):
        return lambda outputs: outputs[0]
    if type(result) is tuple and _are_leaves(result):
        return tuple
    return lambda outputs: pytree.tree_unflatten(outputs, spec)


def _are_leaves(values: Iterable[Any]) -> bool:
    return all(type(value) is int for value in values)
