"""`model.inputs`: the inputs of a model, described instead of made. Standard library only.

Forward's arguments by name, or a list of them by position. A description is

- a list of sizes, `[20, batch, 64]`: a tensor of standard normal numbers
- a mapping with `size`, `{size: [4, 16], dtype: int64, high: 30000}`: a tensor
- a number, bool, string or null: itself
- any other mapping or list: a container of descriptions
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any

from modescope.bench.records.errors import UsageError

KEY = "model.inputs"

BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
"""Of whole numbers: the largest is below 2 to this power."""

DTYPES = ("float32", *BITS, "uint8", "bool")
"""Dtypes of described tensors. The setting `dtype` decides the precision of floats."""

RANGES = {
    "uint8": (0, 2**8),
    **{name: (-(2**bits), 2**bits) for name, bits in BITS.items()},
    "int64": (-(2**63), 2**63 - 1),  # torch takes `high` itself as such a number
}
"""The least `low` and the largest `high` of each."""

AS_IN = "as in '+model.inputs={input: [8, 64]}'"


@dataclass(frozen=True)
class TensorDescription:
    """A tensor to draw.

    Floats are standard normal, or uniform in [low, high) where both are given; whole numbers are
    uniform in [low, high), from 0 by default; bools are true or false alike.
    """

    size: tuple[int | str, ...]  # whole numbers, and names of sizes that shape.NAME sets
    dtype: str = "float32"
    low: float | None = None
    high: float | None = None


def parse(described: Any) -> Any:
    """`described` with a `TensorDescription` for each tensor; raises UsageError for a mistake."""
    if not isinstance(described, (dict, list)):
        raise UsageError(
            f"{KEY}={described}: must be a mapping from forward's arguments, {AS_IN}, or a list of "
            "arguments by position"
        )
    made = _container(described, KEY)
    if not any(isinstance(leaf, TensorDescription) for _, leaf in _leaves(made, KEY)):
        raise UsageError(
            f"{KEY}={described} describes no tensor; a tensor is a list of whole numbers and names "
            f"of sizes, {AS_IN} or '+model.inputs=[[8, 64]]'"
        )
    return made


def size_names(parsed: Any) -> dict[str, str]:
    """The names among the sizes of all tensors, and the place of the first tensor with each."""
    names: dict[str, str] = {}
    for place, leaf in _leaves(parsed, KEY):
        if isinstance(leaf, TensorDescription):
            for size in leaf.size:
                if isinstance(size, str):
                    names.setdefault(size, place)
    return names


def map_descriptions(function: Callable[[TensorDescription], Any], parsed: Any) -> Any:
    """The same containers with `function` applied to each description of a tensor."""
    if isinstance(parsed, dict):
        return {name: map_descriptions(function, value) for name, value in parsed.items()}
    if isinstance(parsed, list):
        return [map_descriptions(function, value) for value in parsed]
    return function(parsed) if isinstance(parsed, TensorDescription) else parsed


def _leaves(parsed: Any, place: str) -> Iterator[tuple[str, Any]]:
    if isinstance(parsed, dict):
        for name, value in parsed.items():
            yield from _leaves(value, f"{place}.{name}")
    elif isinstance(parsed, list):
        for number, value in enumerate(parsed):
            yield from _leaves(value, f"{place}[{number}]")
    else:
        yield place, parsed


def _parse(described: Any, place: str) -> Any:
    if isinstance(described, dict) and described.keys() & {"size", "dtype"}:
        return _tensor(described, place)
    if isinstance(described, list) and all(_is_size(each) for each in described):
        return _tensor({"size": described}, place)
    return _container(described, place)


def _container(described: Any, place: str) -> Any:
    if isinstance(described, dict):
        for name in described:
            if not isinstance(name, str):
                raise UsageError(f"{place}: {name!r} is not a name; keys must be names")
        return {name: _parse(value, f"{place}.{name}") for name, value in described.items()}
    if isinstance(described, list):
        return [_parse(value, f"{place}[{number}]") for number, value in enumerate(described)]
    return described


def _is_size(value: Any) -> bool:
    return isinstance(value, (int, str)) and not isinstance(value, bool)


def _tensor(described: dict[str, Any], place: str) -> TensorDescription:
    known = [field.name for field in fields(TensorDescription)]
    for key in described:
        if key not in known:
            raise UsageError(f"{place}.{key}: no such key; known are {', '.join(known)}")
    if "size" not in described:
        raise UsageError(f"{place}: size is missing; add it, as in {{size: [4, 16], dtype: int64}}")
    size = described["size"]
    if not isinstance(size, list) or not all(_is_size(each) for each in size):
        raise UsageError(f"{place}.size={size}: must be a list of whole numbers and names of sizes")
    for each in size:
        if isinstance(each, int) and not 0 <= each < 2**63:
            raise UsageError(f"{place}: {each} is no size; sizes are whole numbers from 0")
    made = TensorDescription(**{**described, "size": tuple(size)})
    _check_values(made, place)
    return made


def _check_values(made: TensorDescription, place: str) -> None:
    """Raises UsageError for a dtype or limits that no tensor can be drawn with."""
    if made.dtype not in DTYPES:
        floats = "; the setting dtype decides the precision of floats"
        hint = floats if "float" in str(made.dtype) or "16" in str(made.dtype) else ""
        raise UsageError(f"{place}.dtype={made.dtype}: allowed are {', '.join(DTYPES)}{hint}")
    limits = {"low": made.low, "high": made.high}
    given = {key: value for key, value in limits.items() if value is not None}
    if made.dtype == "bool" and given:
        raise UsageError(f"{place}: bool takes no {' or '.join(given)}; leave them out")
    whole = made.dtype in RANGES
    for key, value in given.items():
        right = isinstance(value, int) if whole else isinstance(value, (int, float))
        if isinstance(value, bool) or not right or not abs(value) < float("inf"):
            raise UsageError(
                f"{place}.{key}={value}: must be a {'whole' if whole else 'finite'} number"
            )
    if whole and made.high is None:
        raise UsageError(
            f"{place}: {made.dtype} needs high; numbers are drawn from low to high - 1"
        )
    if len(given) == 1 and not whole:
        raise UsageError(f"{place}: give both low and high, or none of them")
    low, high = made.low or 0, made.high
    if high is not None and not low < high:
        raise UsageError(f"{place}: high={high} must be above low={low}")
    least, most = RANGES.get(made.dtype, (low, high))
    if high is not None and not (least <= low and high <= most):
        raise UsageError(f"{place}: {made.dtype} holds numbers from {least} to {most - 1}")
