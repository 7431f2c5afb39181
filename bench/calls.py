"""`calls=mix`: the sizes of the calls that are timed, drawn from the settings. Imports no torch."""

from __future__ import annotations

import csv
import random
from collections.abc import Mapping
from itertools import cycle, islice

from modescope.bench.records.cases import Inference, canonical_json
from modescope.bench.settings import MOST, CallsSettings, usage_error

MOST_SIZES = 2
"""Sizes that may change together."""

NAMES = "name one size or two, as in calls.sizes='{seq: [16, 512]}'"

Sizes = dict[str, list[int]]
"""The size of each call in order, by its name."""


def options_of(
    settings: CallsSettings, shape: Mapping[str, int], seed: int
) -> tuple[Inference, dict[str, int]]:
    """The options of a mix of calls, and `shape` with the largest of the sizes that change.

    Raises UsageError for settings that fit neither each other nor the model.
    """
    sizes = _from_file(settings) if settings.draw == "file" else _drawn(settings, seed)
    if not 1 <= len(sizes) <= MOST_SIZES:
        raise usage_error(f"calls.sizes={settings.sizes}", NAMES)
    for name, values in sizes.items():
        if name not in shape:
            raise usage_error(f"calls.sizes={{{name}: ...}}", "no size of the model", shape)
        if not all(1 <= each <= MOST for each in values):
            raise usage_error(f"calls.sizes={{{name}: ...}}", f"sizes are from 1 to {MOST}")
    pad = _pad(settings.pad, sizes)
    options = Inference(canonical_json(sizes), canonical_json(pad) if pad else None)
    return options, {**shape, **{name: max(values) for name, values in sizes.items()}}


def refuse_unused(settings: CallsSettings, phase: str) -> None:
    """Raises UsageError for settings of a mix where calls do not vary."""
    if settings.name == "mix":
        if phase != Inference.phase:
            raise usage_error("calls=mix", f"measures forwards, and phase={phase} has other steps")
        return
    usual = CallsSettings(name="repeat")
    for key, value in vars(settings).items():
        if value != getattr(usual, key):
            raise usage_error(f"calls.{key}={value}", "no effect with calls=repeat; add calls=mix")


def _drawn(settings: CallsSettings, seed: int) -> Sizes:
    generator = random.Random(seed)
    drawn: Sizes = {}
    if not isinstance(settings.sizes, dict):
        raise usage_error(f"calls.sizes={settings.sizes}", NAMES)
    for name, given in settings.sizes.items():
        typed = f"calls.sizes={{{name}: {given}}}"
        if not (isinstance(given, list) and all(type(each) is int for each in given)):
            raise usage_error(typed, "sizes are a list of whole numbers")
        if settings.draw == "list":
            if not given:
                raise usage_error(typed, "a list of sizes is needed")
            drawn[name] = list(islice(cycle(given), settings.count))
            continue
        if len(given) != 2 or given[0] > given[1]:
            raise usage_error(typed, f"calls.draw={settings.draw} takes the least and the largest")
        every = range(given[0], given[1] + 1)
        # Zipf: the n-th size is drawn 1/n times as often as the first, as short texts are
        weights = [1 / rank for rank in range(1, len(every) + 1)]
        weights = weights if settings.draw == "zipf" else [1.0] * len(every)
        drawn[name] = generator.choices(every, weights, k=settings.count)
    return drawn


def _from_file(settings: CallsSettings) -> Sizes:
    """Columns of a CSV file whose first line names the sizes; at most `count` calls."""
    typed = f"calls.file={settings.file}"
    if not settings.file:
        raise usage_error("calls.draw=file", "needs calls.file=, a CSV file such as seq\\n137\\n16")
    try:
        with open(settings.file, newline="") as file:
            rows = list(islice(csv.DictReader(file), settings.count))
    except OSError as error:
        raise usage_error(typed, error.strerror or str(error)) from error
    if not rows:
        raise usage_error(typed, "holds no calls below its first line, which names the sizes")
    try:
        return {str(name).strip(): [int(row[name]) for row in rows] for name in rows[0]}
    except (TypeError, ValueError) as error:
        raise usage_error(
            typed, f"all lines below the first hold whole numbers ({error})"
        ) from error


def _pad(buckets: list[int] | None, sizes: Sizes) -> Sizes:
    """The buckets of the one size that changes; none without `calls.pad`."""
    if buckets is None:
        return {}
    typed = f"calls.pad={buckets}"
    if len(sizes) > 1:
        raise usage_error(typed, f"pads one size, and calls.sizes names {' and '.join(sizes)}")
    [(name, values)] = sizes.items()
    if not buckets or min(buckets) < 1 or max(values) > max(buckets):
        raise usage_error(typed, f"calls have {name} up to {max(values)}; the last must hold that")
    return {name: sorted(set(buckets))}
