"""The arguments of `modescope.compare` as the settings of a command line, and their mistakes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf

from modescope.bench.api.composing import compose
from modescope.bench.api.saving import name_of
from modescope.bench.records.errors import UsageError
from modescope.bench.records.paths import CONF
from modescope.bench.steps import trees
from modescope.bench.steps.building import as_inputs

PLAIN = re.compile(r"[\w.:/+-]+", re.ASCII)
"""A text that needs no quotes in a setting."""

NAME = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)

EXPERIMENTS = {"inference": "modes", "train": "training"}
"""By phase, the experiment whose modes are compared by default."""

ON_ANY_DEVICE = ("none", "default")
"""Values of a mode's `compile` that do not need a GPU to differ from another mode."""

RESULTS = "results"


def checked_name(model: torch.nn.Module | Callable[..., Any], inputs: Any, name: str | None) -> str:
    """What the model is called in tables. Raises UsageError for a wrong model, inputs or name."""
    if hasattr(model, "_orig_mod"):
        raise UsageError(
            "model is compiled; give the module that was compiled, as compare compiles it itself"
        )
    is_module = isinstance(model, torch.nn.Module)
    if not (is_module or callable(model)):
        raise UsageError(
            f"model is {type(model).__name__}, and must be a torch.nn.Module, or a function that "
            "returns one"
        )
    if is_module and inputs is None:
        raise UsageError("inputs are missing; give what the model is called with, as in (x,)")
    if inputs is not None:
        _check_inputs(inputs)
    if name is not None and not (isinstance(name, str) and NAME.fullmatch(name)):
        raise UsageError(f"name={name!r}: must be letters, digits, _ and -, as in name='wide-2'")
    return name or name_of(model)


def _check_inputs(inputs: Any) -> None:
    if as_inputs(inputs) is None:
        raise UsageError(
            f"inputs is {type(inputs).__name__}, and must be a tensor, a tuple of arguments or a "
            "dict of named ones, with at least one tensor"
        )
    for place, leaf in trees.leaves(inputs):
        if not isinstance(leaf, (torch.Tensor, *trees.PLAIN)):
            raise UsageError(
                f"inputs{place} is {type(leaf).__name__}; an input is a tensor, number, bool, "
                "string or None, alone or in tuples, lists, dicts or dataclasses"
            )


def study_folder(study: str | Path | None, name: str) -> Path:
    """The study's folder: results/<study> in the working folder, or the path that was given."""
    if study is None:
        begun = Path.cwd() / RESULTS / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
        number, folder = 1, begun
        while folder.exists():
            number += 1
            folder = begun.with_name(f"{begun.name}-{number}")
        return folder
    if not isinstance(study, str | Path) or not Path(study).name or ".." in Path(study).parts:
        raise UsageError(
            f"study={str(study)!r}: must be a name, or the path of a study's folder without .."
        )
    path = Path(study).expanduser()
    return (Path.cwd() / RESULTS / path) if path.name == str(study) else path.absolute()


def settings(
    pickle: str,
    folder: Path,
    device_type: str,
    *,
    modes: str | Sequence[str] | None,
    dtype: str | Sequence[str],
    phase: str,
    budget: str,
    device: str,
    threads: int,
    overrides: Sequence[str],
) -> list[str]:
    """The arguments of `python run.py -m` that measure the comparison.

    `pickle`: value of model.pickle; `device_type`: cpu or cuda, on which default modes depend.
    """
    dtypes = _listed("dtype", dtype)
    if isinstance(overrides, str) or not all(isinstance(each, str) for each in overrides):
        raise UsageError("overrides must be a list of settings, as in ['replicates=3']")
    values = {
        "model": "custom",
        "model.pickle": pickle,
        "phase": phase,
        "budget": budget,
        "device": device,
        "threads": threads,
        "results_dir": quoted(str(folder.parent)),
        "study": quoted(folder.name),
    }
    if modes is None:
        every = default_modes(EXPERIMENTS.get(phase, EXPERIMENTS["inference"]), device_type)
        # with a precision of the caller's, options such as bf16/eager have none of their own
        modes = [mode for mode in every if "/" not in mode or dtypes == ["auto"]]
        values["mode"] = ",".join(modes)
    else:
        values["mode"] = ",".join(_listed("modes", modes))
    if dtypes != ["auto"]:
        values["dtype"] = ",".join(dtypes)
    several = len(dtypes) > 1 and "fp32" in dtypes and "tf32" not in dtypes
    if several and not any(each.startswith("baseline.") for each in overrides):
        values["baseline.dtype"] = "fp32"  # one baseline, so that all rows can be ranked
    return [*(f"{key}={value}" for key, value in values.items()), *overrides]


def _listed(key: str, value: str | Sequence[str]) -> list[str]:
    values = [value] if isinstance(value, str) else list(value)
    if not values or not all(isinstance(each, str) for each in values):
        raise UsageError(f"{key}={value!r}: must be a name, or a list of names")
    return values


def default_modes(experiment: str, device_type: str) -> list[str]:
    """The modes of an experiment; without a GPU, those that do not need one."""
    listed = OmegaConf.load(CONF / "experiment" / f"{experiment}.yaml").hydra.sweeper.params.mode
    modes = [str(mode) for mode in listed.split(",")]
    if device_type == "cuda":
        return modes
    axes = {mode: compose({"mode": mode}).mode for mode in modes}
    return [m for m, each in axes.items() if each.compile in ON_ANY_DEVICE and not each.graph]


def quoted(text: str) -> str:
    """A text as Hydra reads it unchanged, whatever letters it has."""
    if PLAIN.fullmatch(text):
        return text
    text = re.sub(r"(\\*)('|$)", lambda m: m[1] * 2 + ("\\'" if m[2] else ""), text)
    return f"'{text}'"
