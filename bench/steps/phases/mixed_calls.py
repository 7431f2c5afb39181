"""Calls of different sizes: a step is one pass over them.

The inputs of all sizes are one tree, so that they are copied, cast, moved and redrawn like those of
any model. Comparing, calling and capturing is done at each size: there is one `Subject` and one
`Built` per size, and all of them share the module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from modescope.bench.devices.devices import Hardware
from modescope.bench.records.cases import TOLERANCE, Inference, Variant, size_name
from modescope.bench.records.errors import note_place
from modescope.bench.steps.checks import Check, Deviation, Seen, worst
from modescope.bench.steps.examination import REFERENCES
from modescope.bench.steps.outputs import Outputs
from modescope.bench.steps.phases.output_check import OutputCheck, prepare_check
from modescope.bench.steps.subject import Built, Inputs, Subject

T = TypeVar("T")


def vary(subject: Subject, options: Inference, seed: int) -> Subject:
    """`subject` with inputs of all sizes in `options`, and the order in which they are called.

    The subject's builder makes the inputs, from `seed`.
    """
    assert subject.rebuild is not None
    true, padded = options.calls(), options.calls(padded=True)
    by_label = {size_name(each): each for each in (*true, *padded)}
    inputs = {}
    for name, sizes in by_label.items():
        made = subject.rebuild(seed, sizes)
        inputs[name] = (made.args, made.kwargs)
    return replace(
        subject,
        inputs=Inputs((inputs,), {}),
        order=tuple(map(size_name, padded)),
        order_of_baseline=tuple(map(size_name, true)),
    )


@dataclass(frozen=True)
class MixedCheck(Check):
    """A check of outputs at each size."""

    parts: Mapping[str, OutputCheck]
    unfit: str | None
    seen: Seen
    unchecked: str | None

    def examine(self, built: Built, variant: Variant) -> Deviation:
        """The largest error over the sizes that are called; its place names the size."""
        return worst(
            (f"{found.place or 'output'} at {name}", found.error)
            for name, found in self._each(built, lambda check, part: check.examine(part, variant))
        )

    def results(self, built: Built) -> Outputs:
        """The outputs of all sizes."""
        return {
            f"{place} at {name}": value
            for name, outputs in self._each(built, lambda check, part: check.results(part))
            for place, value in outputs.items()
        }

    def _each(
        self, built: Built, examine: Callable[[OutputCheck, Built], T]
    ) -> Iterator[tuple[str, T]]:
        for name, part in built.parts.items():
            with note_place(name):
                yield name, examine(self.parts[name], part)


def prepare_mixed_check(subject: Subject, device: Hardware, seed: int) -> MixedCheck:
    """The check that `prepare_check` makes, for every size."""
    checks = {}
    for name, part in subject.parts.items():
        with note_place(name):
            checks[name] = prepare_check(part, device, seed)
    every = [each.seen for each in checks.values()]
    first = next(iter(checks.values()))
    seen = replace(
        first.seen,
        checked_against=max((each.checked_against for each in every), key=list(REFERENCES).index),
        narrowest=max((each.narrowest for each in every), key=TOLERANCE.__getitem__),
        apart=max(each.apart for each in every),
        random=any(each.random for each in every),
        depends=any(each.depends for each in every),
    )
    return MixedCheck(checks, first.unfit, seen, first.unchecked)
