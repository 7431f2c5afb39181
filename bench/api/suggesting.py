"""Turns what a watch saw into a case: the module, and its inputs by size and frequency."""

from __future__ import annotations

import inspect
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from modescope.analysis.format import numbers
from modescope.bench.api.watching import WatchResult
from modescope.bench.records.errors import UsageError
from modescope.bench.records.files import atomic_write
from modescope.bench.records.watched import Region

if TYPE_CHECKING:
    from modescope.bench.api.compare import Comparison

T = TypeVar("T")

MOST_CALLS = 200  # of the file; more would only make passes longer


@dataclass(frozen=True)
class Suggestion:
    """A case for `modescope.compare`, made of the calls of one module.

    `model` returns the module and inputs of the sizes that it gets; `sizes` has each combination of
    them with the number of calls. `overrides` are `compare`'s: the sizes' file, if they vary.
    """

    function: str
    model: Callable[..., tuple[torch.nn.Module, dict[str, Any]]]
    sizes: tuple[tuple[Mapping[str, int], int], ...]
    overrides: tuple[str, ...]

    def compare(self, **options: Any) -> Comparison:
        """Measures the case in all modes; `options` are those of `modescope.compare`."""
        from modescope.bench.api.compare import compare

        given = options.pop("overrides", ())
        mine = [*self.overrides, *([given] if isinstance(given, str) else given)]
        return compare(self.model, overrides=mine, **{"name": self.function, **options})

    def __str__(self) -> str:
        listed = "\n".join(
            f"  {', '.join(f'{name}={value}' for name, value in sizes.items()) or 'one size'}: "
            f"{numbers.counted(calls, 'call', 'calls')}"
            for sizes, calls in self.sizes
        )
        return f"{self.function}\n{listed}"


def suggest(result: WatchResult, folder: str | Path = "results/main/watch") -> Suggestion:
    """Returns the module of a watched program that ran longest in compiled code, as a case.

    Its arguments must be tensors, numbers, texts, flags or None. Tensors of the case have the
    sizes, dtypes and, if whole numbers, the range that were seen. The calls by size go to a file in
    `folder`, if sizes vary.

    Raises:
        UsageError: no module was called in compiled code, it is gone, or it has other arguments.
    """
    seen = result.record
    times: dict[str | None, float] = defaultdict(float)
    for region in seen.regions:
        times[region.code_id] += region.seconds
    candidates = [
        (times[ask.code_id], ask, subject())
        for ask, subject in zip(seen.asks, result._subjects, strict=True)
        if ask.code_id in times
    ]
    alive = [found for found in candidates if isinstance(found[2], torch.nn.Module)]
    if not alive:
        which = "the modules that ran in compiled code are gone" if candidates else (
            "no module that the program asked to compile ran in compiled code"
        )  # fmt: skip
        raise UsageError(f"suggest: {which}; give modescope.compare a module and inputs")
    _, ask, module = max(alive, key=lambda found: found[0])
    regions = [region for region in seen.regions if region.code_id == ask.code_id]
    return _suggestion(ask.function, module, regions, Path(folder))


def _suggestion(
    function: str, module: torch.nn.Module, regions: list[Region], folder: Path
) -> Suggestion:
    if others := sorted({name for region in regions for name in region.arguments.others}):
        raise UsageError(
            f"suggest: {function} was called with {', '.join(others)}, which is no tensor, number, "
            "text or flag; give modescope.compare a function that builds the inputs"
        )
    # torch's own modules are compiled in a function of torch's that takes what it gets by place
    parameters = inspect.signature(module.forward).parameters
    by_place = {f"[{place}]": name for place, name in enumerate(parameters)}

    def renamed(values: Mapping[str, T]) -> dict[str, T]:
        return {by_place.get(name, name): value for name, value in values.items()}

    calls = Counter[tuple[tuple[str, tuple[int, ...]], ...]]()
    for region in regions:
        for shapes, count in region.sizes:
            key = tuple(sorted(renamed(shapes).items()))
            calls[key] += count
    if not calls:
        raise UsageError(f"suggest: sizes of {function}'s tensors were not seen")
    seen = {k: v for region in regions for k, v in renamed(region.arguments.tensors).items()}
    plain = {k: v for region in regions for k, v in renamed(region.arguments.plain).items()}
    names = _names([dict(key) for key in calls])
    combined = Counter[tuple[tuple[str, int], ...]]()
    for key, count in calls.items():
        sizes = {names[name, axis]: dict(key)[name][axis] for name, axis in names}
        combined[tuple(sizes.items())] += count
    shapes = dict(calls.most_common(1)[0][0])
    usual = dict(combined.most_common(1)[0][0])

    def build(**sizes: int) -> tuple[torch.nn.Module, dict[str, Any]]:
        given = {**usual, **sizes}
        tensors = {
            name: _tensor(
                [
                    given[names[name, axis]] if (name, axis) in names else size
                    for axis, size in enumerate(shape)
                ],
                *seen[name],
            )
            for name, shape in shapes.items()
        }
        return module, plain | tensors

    build.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value)
            for name, value in usual.items()
        ]
    )
    overrides = (_mix(function, combined, folder),) if len(combined) > 1 else ()
    found = tuple((dict(sizes), count) for sizes, count in combined.most_common())
    return Suggestion(function, build, found, tuple(word for pair in overrides for word in pair))


def _names(calls: list[Mapping[str, tuple[int, ...]]]) -> dict[tuple[str, int], str]:
    """Names each axis of a tensor whose size varies; axes that vary together have one name."""
    columns: dict[tuple[int, ...], str] = {}
    names: dict[tuple[str, int], str] = {}
    for tensor, shape in calls[0].items():
        for axis in range(len(shape)):
            column = tuple(call[tensor][axis] for call in calls)
            if len(set(column)) > 1:
                names[tensor, axis] = columns.setdefault(column, f"{tensor}_{axis}")
    return names


def _mix(
    function: str, calls: Counter[tuple[tuple[str, int], ...]], folder: Path
) -> tuple[str, str]:
    """Writes the file of calls, each size as often as it was seen; returns the settings."""
    total = calls.total()
    share = min(1.0, MOST_CALLS / total)
    names = [name for name, _ in next(iter(calls))]
    lines = [
        ",".join(str(value) for _, value in sizes)
        for sizes, count in calls.items()
        for _ in range(max(1, round(share * count)))
    ]
    order = torch.randperm(len(lines), generator=torch.Generator().manual_seed(0)).tolist()
    path = (folder / f"{function}-sizes.csv").resolve()
    with atomic_write(path) as partial:
        partial.write_text("\n".join([",".join(names), *(lines[place] for place in order)]) + "\n")
    return "calls=mix", f"calls.file={path}"


def _tensor(size: list[int], dtype: str, low: int, high: int) -> torch.Tensor:
    kind = getattr(torch, dtype)
    if kind.is_floating_point or kind.is_complex:
        return torch.randn(size, dtype=kind)
    return torch.randint(low, high + 1, size).to(kind)
