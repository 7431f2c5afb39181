"""What `modescope.watch` saw in a program: its record, which is one JSON file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any


@dataclass(frozen=True)
class Compilation:
    """One compilation of a function, or of its backward pass."""

    function: str  # qualified name; that of a part after a graph break ends in ` from line N`
    place: str  # file and line of the function
    start_s: float  # after the watch began
    seconds: float
    thread: str
    code: int = 0  # functions of the same name and place, such as parts, differ in it
    backward: bool = False
    reason: str | None = None  # torch's, for compiling again
    failure: str | None = None  # the error, or that torch reached its limit of compilations


@dataclass(frozen=True)
class Arguments:
    """What a function was called with when it was compiled, by name."""

    tensors: Mapping[str, tuple[str, int, int]] = field(default_factory=dict)
    """The dtype, and of whole numbers the least and largest (else 0)."""
    plain: Mapping[str, object] = field(default_factory=dict)  # numbers, texts, flags, None
    others: tuple[str, ...] = ()  # names of all else, such as lists


@dataclass(frozen=True)
class Region:
    """One piece of compiled code, and its calls during the watch."""

    function: str
    place: str
    calls: int
    seconds: float  # of the host, in the compiled code; guards are not part of it
    sizes: tuple[tuple[Mapping[str, tuple[int, ...]], int], ...] = ()
    """Sizes of the function's tensors, by name, each with the number of calls."""
    arguments: Arguments = field(default_factory=Arguments)

    @property
    def code_id(self) -> str:
        """Which function it is of, as `Ask.code_id` says it."""
        return f"{self.function} {self.place}"


@dataclass(frozen=True)
class Ask:
    """Something that the program asked torch to compile, by torch.compile or Module.compile."""

    function: str
    place: str  # where the program asked
    code_id: str | None  # of the function that torch is to compile
    calls: int  # of what torch.compile returned
    compiled_calls: int  # those in which compiled code ran
    first_eager_call: int = 0  # the first of the others after torch gave up, from 1; 0: none
    is_module: bool = True  # not a function
    is_method: bool = False  # Module.compile, which changes only `module(...)`
    is_part: bool = False  # it was compiled as a part of a function that calls it
    ran_itself_at: str | None = None  # where its own code, not compiled, was seen to be called
    limit_hits: int = 0  # times that torch gave up compiling within its calls


@dataclass(frozen=True)
class Break:
    """A graph break."""

    place: str | None
    reason: str


@dataclass(frozen=True)
class Wait:
    """A thread that stood at one line of the program while another thread compiled."""

    thread: str
    place: str
    function: str  # what was compiled
    seconds: float


@dataclass(frozen=True)
class Watched:
    """All that one watch saw. Numbers are None where torch's version does not say."""

    program: str
    started_at: str
    python_version: str
    wall_s: float
    compiling_s: float  # at least one thread compiles, imports the compiler or records a graph
    compiled_s: float  # else at least one thread runs compiled code; time of the host
    eager_s: float | None  # torch's operators outside both, from samples; None: too few
    eager_low_s: float | None
    eager_high_s: float | None
    samples: int  # windows in which operators were timed
    sampled_s: float
    waits: tuple[Wait, ...] = ()
    error: str | None = None  # that ended the program
    torch_version: str | None = None  # from here on: None or empty if nothing was compiled
    compilations: tuple[Compilation, ...] = ()
    regions: tuple[Region, ...] = ()
    asks: tuple[Ask, ...] = ()
    breaks: tuple[Break, ...] | None = ()
    in_eager: tuple[str, ...] | None = ()  # functions that torch left to Python
    switches: tuple[str, ...] = ()  # variables and settings that change what torch.compile does
    cache_bypasses: tuple[str, ...] = ()  # why graphs could not be looked up in the cache
    graphs_recorded: int | None = None  # CUDA graphs
    graphs_recorded_again: int | None = None
    graph_skips: tuple[str, ...] = ()  # why CUDA graphs were not used
    missing: tuple[str, ...] = ()  # names that this version of torch lacks

    @property
    def rest_s(self) -> float:
        """Time that is in none of the parts: Python, waiting, guards, reading data."""
        return self.wall_s - self.compiling_s - self.compiled_s - (self.eager_s or 0.0)

    def to_json(self) -> str:
        """Returns the record as JSON text."""
        return json.dumps(asdict(self), indent=1)


_PARTS: dict[str, type[Any]] = {
    "compilations": Compilation, "regions": Region, "asks": Ask, "breaks": Break, "waits": Wait,
}  # fmt: skip


def from_json(text: str) -> Watched:
    """Returns the record that `Watched.to_json` wrote; raises ValueError for other texts."""
    try:
        values = json.loads(text)
        return Watched(**{field.name: _value(field.name, values) for field in fields(Watched)})
    except (KeyError, TypeError) as error:
        raise ValueError(f"not the record of a watch: {error}") from error


def _value(name: str, values: Mapping[str, Any]) -> Any:
    value = values[name]
    if isinstance(value, list):
        part = _PARTS.get(name)
        return tuple(part(**_restored(item)) if part else item for item in value)
    return value


def _restored(item: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields of a part with tuples and types that JSON does not know."""
    if "arguments" in item:
        given = item["arguments"]
        tensors = {name: tuple(seen) for name, seen in given["tensors"].items()}
        arguments = Arguments(tensors, given["plain"], tuple(given["others"]))
        sizes = tuple(
            ({name: tuple(size) for name, size in shapes.items()}, calls)
            for shapes, calls in item["sizes"]
        )
        return {**item, "arguments": arguments, "sizes": sizes}
    return item
