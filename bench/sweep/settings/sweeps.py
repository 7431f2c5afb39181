"""The sweeps of a command: the product of its values, and the further sweeps of its experiment.

Hydra's sweep is one product of values. An experiment may have further ones over the same settings:

    experiment:
      further:
        - {dtype: bf16, baseline.dtype: fp32, mode: "eager,compile"}

Each has the values under hydra.sweeper.params, with its own in place of them or added. The command
has the last word: see `narrowed`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.plugins.sweeper import Sweeper
from omegaconf import DictConfig, OmegaConf

from modescope.bench.records.cores import quota_cores, usable_cores
from modescope.bench.sweep.settings.override_values import values_of

BASELINE_MODE = "baseline.mode"
OFF = "none"
"""The baseline mode with which a case has no baseline, and no other setting of one."""

Values = dict[str, list[str]]
"""Keys and the values over which they are swept, as they are written."""

Jobs = list[list[str]]
"""The overrides of each job."""


def with_further(sweeper: Any, config: DictConfig) -> Sweeper:
    """Makes Hydra's basic sweeper also make the further sweeps of the experiment in `config`."""
    listed: Any = []
    if config.experiment:
        listed = OmegaConf.to_container(config.experiment.further, resolve=True)
    every = [_values(_parsed(one)) for one in listed]
    sweeper.split_arguments = partial(_batches, sweeper.split_arguments, len(sweeper.params), every)
    return sweeper  # type: ignore[no-any-return]


def _batches(
    split: Callable[[list[Override], int | None], list[Jobs]],
    of_experiment: int,
    every: Sequence[Values],
    overrides: list[Override],
    max_batch_size: int | None,
) -> list[Jobs]:
    """The jobs of all sweeps; the first overrides are those of the experiment, the rest is typed.

    `split`: Hydra's function, which takes the last override of each key.
    """
    first, typed = _values(overrides[:of_experiment]), _values(overrides[of_experiment:])
    batches = split(overrides, max_batch_size)
    for values in every:
        for kept in narrowed(values, typed, first):
            batches += split([*overrides, *_parsed(kept)], None)
    return batches


def narrowed(further: Values, typed: Values, first: Values) -> list[Values]:
    """What a further sweep varies beside the settings of the command; empty: it is left out.

    A key that the first sweep does not vary, such as dtype, is what the further sweep is for: if
    the command sets it, the first sweep already has the command's values, and this one is left out.
    Of a key that both vary, such as mode, the values that the command also has are kept; without
    any, too, the sweep is left out. Where the command switches the baseline off, settings of the
    baseline are left out; beside other baselines that makes two sweeps.
    """
    kept = {}
    for key, values in further.items():
        if key in typed and key not in first:
            return []
        kept[key] = [value for value in values if value in typed.get(key, values)]
    if not all(kept.values()):
        return []
    return _by_baseline(kept, (first | typed | kept).get(BASELINE_MODE, []))


def _by_baseline(values: Values, baselines: Sequence[str]) -> list[Values]:
    """The sweep with baselines, and apart from it the one in which the baseline is off."""
    if OFF not in baselines:
        return [values]
    on = [mode for mode in baselines if mode != OFF]
    sweeps = [values | {BASELINE_MODE: on}] if on else []
    without = {key: each for key, each in values.items() if not key.startswith("baseline.")}
    if without or BASELINE_MODE in values:
        sweeps.append(without | {BASELINE_MODE: [OFF]})
    return sweeps


def thread_counts() -> str:
    """`1,2,4,6`: powers of two, and as many threads as this process has cores.

    No more than its quota of CPU time covers, because threads beyond that wait for each other.
    """
    quota = quota_cores()
    most = usable_cores() if quota is None else max(1, min(usable_cores(), math.floor(quota)))
    below = [2**power for power in range(most.bit_length()) if 2**power < most]
    return ",".join(map(str, [*below, most]))


def register() -> None:
    """Makes `${thread_counts:}` known to the files of experiments."""
    OmegaConf.register_new_resolver("thread_counts", thread_counts, replace=True)


def _values(overrides: Sequence[Override]) -> Values:
    return {each.get_key_element(): values_of(each) for each in overrides}


def _parsed(values: Mapping[str, object]) -> list[Override]:
    """A mapping of keys to values as overrides; several values are a list or a text with commas."""
    texts = [
        f"{key}={','.join(map(str, each)) if isinstance(each, list) else each}"
        for key, each in values.items()
    ]
    return OverridesParser.create().parse_overrides(texts)
