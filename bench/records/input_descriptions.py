"""Parses `model.inputs`, which describes a model's inputs in YAML. Standard library only.

`model.inputs` is a mapping of forward's named arguments, or a list of positional ones. Each
argument is described by

- a list of sizes, `[20, batch, 64]`: a tensor of standard normal numbers
- a mapping with `size`, `{size: [4, 16], dtype: int64, high: 30000}`: a tensor
- a number, bool, string or null: itself
- any other mapping or list: a container of descriptions
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from modescope.bench.records.errors import UsageError

KEY = "model.inputs"

RANGES = {
    **{f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1)) for bits in (8, 16, 32)},
    "int64": (-(2**63), 2**63 - 1),  # torch takes `high` itself as such a number
    "uint8": (0, 2**8),
}
"""Integer dtype -> the least `low` and the largest `high` that a description may have."""

DTYPES = ("float32", *RANGES, "bool")
"""Dtypes that a described tensor may have. The setting `dtype` decides the precision of floats."""


@dataclass(frozen=True)
class TensorDescription:
    """A tensor to draw at random.

    Floats are standard normal, or uniform in [low, high) if both are given. Whole numbers are
    uniform in [low, high), with 0 as the default of low. Bools are true or false with equal chance.
    """

    size: tuple[int | str, ...]  # a text is the name of a size, which shape.NAME sets
    dtype: str = "float32"
    low: float | None = None
    high: float | None = None


def parse(described: Any) -> Any:
    """Returns `described` with a `TensorDescription` in place of each description of a tensor.

    `described`: the value of model.inputs, a dict or list of the arguments of forward. A list of
    sizes or a dict with `size` or `dtype` describes a tensor. Raises UsageError for a mistake.
    """
    made = _container(described, KEY)
    if not isinstance(made, (dict, list)) or not any(_tensors(made)):
        raise UsageError(
            f"{KEY}={described}: must describe the arguments of forward, with a tensor among them, "
            "as in '+model.inputs={input: [8, 64]}' or '+model.inputs=[[8, 64]]'"
        )
    return made


def size_names(parsed: Any) -> list[str]:
    """Returns the names that stand for sizes in the parsed description, each once."""
    sizes = (size for tensor in _tensors(parsed) for size in tensor.size)
    return list(dict.fromkeys(size for size in sizes if isinstance(size, str)))


def map_descriptions(function: Callable[[TensorDescription], Any], parsed: Any) -> Any:
    """Returns `parsed` with each `TensorDescription` replaced by the result of `function`."""
    if isinstance(parsed, dict):
        return {name: map_descriptions(function, value) for name, value in parsed.items()}
    if isinstance(parsed, list):
        return [map_descriptions(function, value) for value in parsed]
    return function(parsed) if isinstance(parsed, TensorDescription) else parsed


def _tensors(parsed: Any) -> Iterator[TensorDescription]:
    if isinstance(parsed, TensorDescription):
        yield parsed
    elif isinstance(parsed, (dict, list)):
        for value in parsed.values() if isinstance(parsed, dict) else parsed:
            yield from _tensors(value)


def _parse(described: Any, place: str) -> Any:
    if isinstance(described, dict) and described.keys() & {"size", "dtype"}:
        return _tensor(described, place)
    if isinstance(described, list) and all(_is_size(size) for size in described):
        return _tensor({"size": described}, place)
    return _container(described, place)


def _container(described: Any, place: str) -> Any:
    if isinstance(described, dict):
        return {name: _parse(value, f"{place}.{name}") for name, value in described.items()}
    if isinstance(described, list):
        return [_parse(value, f"{place}[{number}]") for number, value in enumerate(described)]
    return described


def _is_size(value: Any) -> bool:
    return isinstance(value, (int, str)) and not isinstance(value, bool)


def _tensor(described: dict[str, Any], place: str) -> TensorDescription:
    try:
        made = TensorDescription(**{**described, "size": tuple(described["size"])})
    except (KeyError, TypeError):
        wrong: str | None = "a tensor has a list `size`, and may have dtype, low and high"
    else:
        wrong = _fault(made)
    if wrong:
        raise UsageError(f"{place}={described}: {wrong}")
    return made


def _fault(made: TensorDescription) -> str | None:
    dtype, limits = made.dtype, [limit for limit in (made.low, made.high) if limit is not None]
    if not all(isinstance(s, str) or (_is_size(s) and 0 <= s < 2**63) for s in made.size):
        return "sizes are names, and whole numbers from 0"
    if dtype not in DTYPES:
        return f"dtype is one of {', '.join(DTYPES)}; floats get the precision of the setting dtype"
    if dtype == "bool":
        return "bool takes neither low nor high" if limits else None
    kinds = (int,) if dtype in RANGES else (int, float)
    if not all(type(limit) in kinds and abs(limit) < float("inf") for limit in limits):
        return f"low and high of {dtype} are {'whole' if dtype in RANGES else 'finite'} numbers"
    if dtype in RANGES and made.high is None:
        return f"{dtype} needs high; numbers are drawn from low to high - 1"
    if dtype not in RANGES and len(limits) == 1:
        return "give both low and high, or none of them"
    low, high = made.low or 0, made.high
    least, most = RANGES.get(dtype, (low, high))
    if high is not None and not least <= low < high <= most:
        return f"low={low} and high={high} are no limits of {dtype}"
    return None
