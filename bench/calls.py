"""Draws or reads the sizes of the timed calls with `calls=mix`. Imports no torch."""

from __future__ import annotations

import csv
import random
from collections.abc import Mapping
from itertools import cycle, islice
from typing import Any

from modescope.bench.mistakes import usage_error
from modescope.bench.records.cases import Inference, canonical_json
from modescope.bench.settings import MOST, CallsSettings

MOST_SIZES = 2
"""How many named sizes, such as batch and seq, may change from call to call."""

NAMES = "name one size or two, as in calls.sizes='{seq: [16, 512]}'"
"""What an error message asks for if calls.sizes is wrong."""

CSV = "a CSV file names the sizes in its first line and has a line of whole numbers for each call"

COUNT = 200
"""Number of drawn calls if calls.count is not set."""

LARGEST_DRAWN = 1_000_000
"""Largest size that calls.draw=uniform and zipf may draw."""

Sizes = dict[str, list[int]]
"""Maps the name of a size to its value in each call, in order: {"seq": [137, 16]}."""


def options_of(
    settings: CallsSettings, shape: Mapping[str, int], known: bool, seed: int
) -> tuple[Inference, dict[str, int]]:
    """Returns the options for calls of different sizes, and `shape` with the largest of them.

    The sizes are read from a file or drawn at random from `seed`, as `settings` say. `known`:
    whether `shape` names all sizes of the model; a user's builder may take others. Raises
    UsageError for settings that contradict each other or the model.
    """
    sizes = _from_file(settings) if settings.file else _draw(settings, seed)
    if not 1 <= len(sizes) <= MOST_SIZES:
        raise usage_error(f"calls.sizes={settings.sizes}", NAMES)
    for name, values in sizes.items():
        if known and name not in shape:
            raise usage_error(f"calls.sizes={{{name}: ...}}", "no size of the model", shape)
        if not all(1 <= value <= MOST for value in values):
            raise usage_error(f"calls.sizes={{{name}: ...}}", f"sizes are from 1 to {MOST}")
    pad = {name: _buckets(settings.pad, name, values) for name, values in sizes.items()}
    options = Inference(canonical_json(sizes), canonical_json(pad) if settings.pad else None)
    return options, {**shape, **{name: max(values) for name, values in sizes.items()}}


def refuse_unused(settings: CallsSettings, phase: str) -> None:
    """Raises UsageError if calls=mix is set in a phase without it, or its settings without it."""
    if settings.name == "mix":
        if phase != Inference.phase:
            raise usage_error("calls=mix", f"measures forwards, and phase={phase} has other steps")
        return
    usual = CallsSettings(name="repeat")
    for key, value in vars(settings).items():
        if value != getattr(usual, key):
            raise usage_error(f"calls.{key}={value}", "no effect with calls=repeat; add calls=mix")


def _draw(settings: CallsSettings, seed: int) -> Sizes:
    if not isinstance(settings.sizes, dict):
        raise usage_error(f"calls.sizes={settings.sizes}", NAMES)
    generator, count = random.Random(seed), settings.count or COUNT
    drawn: Sizes = {}
    for name, given in settings.sizes.items():
        typed = f"calls.sizes={{{name}: {given}}}"
        if not (isinstance(given, list) and given and all(type(size) is int for size in given)):
            raise usage_error(typed, "sizes are a list of whole numbers")
        if settings.draw == "list":
            drawn[name] = list(islice(cycle(given), count))
        elif len(given) != 2 or not 1 <= given[0] <= given[1] <= LARGEST_DRAWN:
            what = f"takes the least and the largest, from 1 to {LARGEST_DRAWN}"
            raise usage_error(typed, f"calls.draw={settings.draw} {what}")
        else:
            every = range(given[0], given[1] + 1)
            # Zipf: the n-th size comes 1/n times as often as the first, as of texts
            weights = [1 / rank for rank in range(1, len(every) + 1)]
            weighted = weights if settings.draw == "zipf" else None
            drawn[name] = generator.choices(every, weighted, k=count)
    return drawn


def _from_file(settings: CallsSettings) -> Sizes:
    typed = f"calls.file={settings.file}"
    if settings.sizes is not None:
        raise usage_error(typed, f"calls.sizes={settings.sizes} is set as well; give one of them")
    assert settings.file is not None
    try:
        with open(settings.file, newline="", encoding="utf-8-sig") as file:
            rows = list(islice(csv.DictReader(file), settings.count))
        sizes = {str(name).strip(): [int(row[name]) for row in rows] for name in (rows or [{}])[0]}
    except OSError as error:
        raise usage_error(typed, error.strerror or str(error)) from error
    except (TypeError, ValueError, csv.Error) as error:  # bytes of another encoding included
        raise usage_error(typed, f"{CSV} ({error})") from error
    if not sizes:
        raise usage_error(typed, f"no calls; {CSV}")
    return sizes


def _buckets(pad: Any, name: str, values: list[int]) -> list[int]:
    """Returns the sizes that calls are padded to, ascending; empty if `pad` is None.

    `values` has the size called `name` of each call. `pad` is a list of sizes, or a number n: then
    n quantiles of `values` are returned, of which the last is the largest value.
    """
    if pad is None:
        return []
    if type(pad) is int and pad >= 1:
        ranked = sorted(values)
        return sorted({ranked[-(-len(ranked) * part // pad) - 1] for part in range(1, pad + 1)})
    if not (isinstance(pad, list) and pad and all(type(size) is int for size in pad)):
        raise usage_error(f"calls.pad={pad}", "a number of buckets, or a list of sizes")
    if max(values) > max(pad) or min(pad) < 1:
        raise usage_error(f"calls.pad={pad}", f"calls have {name} up to {max(values)}")
    return sorted(set(pad))
