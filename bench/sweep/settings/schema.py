"""The settings of the command line: keys, types, choices and bounds. Imports no torch."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, DictConfig, OmegaConf

from modescope.bench.records.cases import CompileOptions
from modescope.bench.records.errors import UsageError
from modescope.bench.records.paths import runner
from modescope.bench.records.training_options import IMPLEMENTATIONS, OPTIMIZERS
from modescope.bench.steps import backends
from modescope.bench.sweep.settings.phase_settings import PHASE_SETTINGS
from modescope.bench.sweep.settings.spelling import nearest

MOST = 2**31 - 1
"""Largest number that any setting takes: torch, the system and the files can still hold it."""

DTYPES = ("fp32", "tf32", "bf16", "fp16")


@dataclass(frozen=True)
class Limits:
    """The allowed values of a setting, beyond its type, and what it applies to."""

    choices: tuple[str | None, ...] = ()
    least: float | None = None  # of a number; None where any is allowed
    most: float = MOST
    of_sweep: bool = False  # of the command as a whole, not of the case
    is_text: bool = False  # may hold commas and brackets; one for the whole command

    def check(self, key: str, value: Any) -> None:
        """Raises UsageError for a value outside the limits."""
        if self.choices and value not in self.choices:
            names = [str(choice) for choice in self.choices if choice is not None]
            meant = nearest(key, str(value), names)
            hint = f" did you mean {meant}? Allowed" if meant else " allowed"
            raise UsageError(f"{key}={value}:{hint} are {', '.join(names)}")
        if self.least is not None and value is not None and not self.least <= value <= self.most:
            raise UsageError(f"{key}={value}: must be from {self.least} to {self.most}")


def limited(*choices: str | None, default: Any = MISSING, **limits: Any) -> Any:
    """A field with `Limits`."""
    return field(default=default, metadata={"limits": Limits(choices, **limits)})


T = TypeVar("T")


@dataclass
class ModelConfig:
    """conf/model/*.yaml"""

    name: str = MISSING
    library: str | None = None  # of published architectures, one of which `name` chooses
    target: str | None = None
    pickle: str | None = None  # in place of a target: a file of modescope.compare in the study
    kwargs: dict[str, Any] = field(default_factory=dict)
    inputs: Any = None  # descriptions: bench.records.input_descriptions
    fullgraph: bool = True
    batch_dim: int | None = 0
    loss: str = "mse"
    scale: str | None = None  # the size that shape.scale sets
    sizes: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)


def _with_compile_options(schema: type[T]) -> type[T]:
    """Declares `CompileOptions` in a class that will be a dataclass, after its own fields."""
    types = get_type_hints(CompileOptions)
    for each in fields(CompileOptions):
        schema.__annotations__[each.name] = types[each.name]
        choices = each.metadata.get("choices", ())
        setattr(schema, each.name, limited(*choices, default=each.default))
    return schema


@dataclass
@_with_compile_options
class ModeConfig:
    """conf/mode/*.yaml"""

    name: str = MISSING
    grad: str = limited("enabled", "no_grad", "inference_mode", "natural")
    autocast: bool = MISSING
    compile: str = limited(*backends.modes())
    graph: bool = MISSING


@dataclass
class BudgetConfig:
    """conf/budget/*.yaml"""

    name: str = MISSING
    rank: int = MISSING
    warmup_min_s: float = limited(least=0)
    warmup_max_s: float = limited(least=0)
    block_s: float = limited(least=1e-6)
    pilot_rounds: int = limited(least=1)
    min_rounds: int = limited(least=1)
    max_rounds: int = limited(least=1)
    half_width: float = limited(least=1e-6)
    timed_max_s: float = limited(least=1e-3)
    clock_rounds: int = limited(least=1)


@dataclass
class BaselineConfig:
    """What the speedup is measured against."""

    mode: str = MISSING
    dtype: str | None = limited(None, *DTYPES, default=None)


@dataclass
class TrainConfig:
    """How phase=train trains."""

    optimizer: str = limited(*OPTIMIZERS, default="sgd")
    implementation: str = limited(*IMPLEMENTATIONS, default="default")
    capturable: bool | None = None
    lr: float = limited(default=1e-3, least=1e-12)
    scaler: bool | None = None
    capture: str = limited("step", "forward_backward", default="step")
    checkpoint: str = limited("none", "children", "model", default="none")
    activation_memory_budget: float | None = limited(default=None, least=0, most=1)


@dataclass
class ExperimentConfig:
    """What conf/experiment/*.yaml adds to the sweep under hydra.sweeper.params."""

    further: list[dict[str, Any]] = field(default_factory=list)  # bench.sweep.settings.sweeps


@dataclass
class Config:
    """All settings of the command line."""

    model: ModelConfig = MISSING
    mode: ModeConfig = MISSING
    phase: str = limited(*PHASE_SETTINGS)
    dtype: str = limited("auto", *DTYPES)
    shape: dict[str, Any] = MISSING  # `size`, and the sizes that conf/model/*.yaml names
    budget: BudgetConfig = MISSING
    baseline: BaselineConfig = MISSING
    train: TrainConfig = MISSING
    experiment: ExperimentConfig | None = limited(default=None, of_sweep=True)  # noqa: RUF009
    device: str = MISSING
    threads: int = limited(least=1)
    seed: int = limited(least=0)
    results_dir: str = limited(is_text=True)
    study: str = limited(is_text=True)
    timeout_s: float = limited(least=1)
    compile_cache: str = limited("cold", "warm")
    profile: bool = MISSING
    memory: bool = MISSING
    trace_max_mb: float = limited(least=0)
    traces_max_mb: float = limited(least=0)
    replicates: int = limited(least=1)
    order: str = limited("random", "given", of_sweep=True)
    resume: bool | None = limited(default=None, of_sweep=True)
    retry: bool = limited(of_sweep=True)
    max_error: float | None = limited(default=None, least=1e-12)


SECTIONS: dict[str, type] = {
    key: kind
    for key, kind in get_type_hints(Config).items()
    if isinstance(kind, type) and is_dataclass(kind)
}
"""Keys that have keys of their own."""

SCHEMAS: dict[str, type] = {"": Config, **SECTIONS}

LIMITS: dict[str, Limits] = {
    f"{section}.{each.name}".lstrip("."): each.metadata["limits"]
    for section, schema in SCHEMAS.items()
    for each in fields(schema)
    if "limits" in each.metadata
}
"""The limits of every setting that has any."""

OF_SWEEP = tuple(key for key, limits in LIMITS.items() if limits.of_sweep)
"""Settings of the command as a whole: they are no part of a case or of the command for one."""

TEXTS = tuple(key for key, limits in LIMITS.items() if limits.is_text)
"""Settings whose values may hold commas and brackets."""


def register() -> None:
    """Makes the schema known to Hydra; it rejects unknown keys and wrong types."""
    ConfigStore.instance().store(name="schema", node=Config)
    OmegaConf.register_new_resolver("runner", runner, replace=True)  # for the text of --help


def check(config: DictConfig) -> None:
    """Raises UsageError for an unknown key or value, or a folder that cannot be used."""
    for key in sorted(OmegaConf.missing_keys(config)):
        raise UsageError(f"{key}: no value is set; give one, as in {key}=...")
    for section, schema in SCHEMAS.items():
        known = [each.name for each in fields(schema)]
        for key in set(config[section] if section else config) - set(known):  # added with +
            whole = f"{section}.{key}".lstrip(".")
            raise UsageError(f"{whole}: no such key; known are {', '.join(known)}")
    for key, limits in LIMITS.items():
        limits.check(key, OmegaConf.select(config, key))
    _check_results_dir(Path(config.results_dir), config.study)


def _check_results_dir(folder: Path, study: str) -> None:
    """Raises UsageError unless files can be created under `folder`, in a folder called `study`."""
    if study != Path(study).name or study in ("", ".."):
        raise UsageError(f"study={study}: must be the plain name of a folder in results_dir")
    nearest = next(p for p in (folder.absolute(), *folder.absolute().parents) if p.exists())
    if not nearest.is_dir():
        raise UsageError(f"results_dir={folder}: {nearest} is a file; name a folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise UsageError(f"results_dir={folder}: {nearest} cannot be written; name another folder")
