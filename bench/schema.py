"""What can be said on the command line: keys, types, choices and bounds. Imports no torch."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, DictConfig, OmegaConf

from bench.records import UsageError
from bench.spelling import nearest
from bench.training.choices import IMPLEMENTATIONS, OPTIMIZERS


@dataclass
class ModelConfig:
    """conf/model/*.yaml"""

    name: str = MISSING
    target: str | None = None
    kwargs: dict[str, Any] = field(default_factory=dict)
    fullgraph: bool = True
    batch_dim: int | None = 0
    loss: str = "mse"
    scale: str | None = None  # the size that shape.scale sets
    sizes: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)


@dataclass
class ModeConfig:
    """conf/mode/*.yaml"""

    name: str = MISSING
    grad: str = MISSING
    autocast: bool = MISSING
    compile: str = MISSING
    graph: bool = MISSING


@dataclass
class BudgetConfig:
    """conf/budget/*.yaml"""

    name: str = MISSING
    rank: int = MISSING
    warmup_min_s: float = MISSING
    warmup_max_s: float = MISSING
    block_s: float = MISSING
    pilot_rounds: int = MISSING
    min_rounds: int = MISSING
    max_rounds: int = MISSING
    half_width: float = MISSING
    timed_max_s: float = MISSING
    clock_rounds: int = MISSING


@dataclass
class BaselineConfig:
    """What speedups are against."""

    mode: str = MISSING
    dtype: str | None = None


@dataclass
class TrainConfig:
    """How phase=train trains."""

    optimizer: str = "sgd"
    implementation: str = "default"
    capturable: bool | None = None
    lr: float = 1e-3
    scaler: bool | None = None
    capture: str = "step"
    checkpoint: str = "none"
    activation_memory_budget: float | None = None


@dataclass
class Config:
    """Everything that can be said on the command line."""

    model: ModelConfig = MISSING
    mode: ModeConfig = MISSING
    phase: str = MISSING
    dtype: str = MISSING
    shape: dict[str, Any] = MISSING  # `size`, and the sizes that conf/model/*.yaml names
    budget: BudgetConfig = MISSING
    baseline: BaselineConfig = MISSING
    train: TrainConfig = MISSING
    experiment: Any = None
    device: str = MISSING
    threads: int = MISSING
    seed: int = MISSING
    results_dir: str = MISSING
    study: str = MISSING
    timeout_s: float = MISSING
    compile_cache: str = MISSING
    profile: bool = MISSING
    memory: bool = MISSING
    trace_max_mb: float = MISSING
    traces_max_mb: float = MISSING
    replicates: int = MISSING
    order: str = MISSING
    resume: bool | None = None
    retry: bool = MISSING
    max_error: float | None = None


CHOICES = {
    "mode.grad": ("enabled", "no_grad", "inference_mode", "natural"),
    "mode.compile": (
        "none",
        "default",
        "reduce-overhead",
        "max-autotune",
        "max-autotune-no-cudagraphs",
    ),
    "phase": ("inference", "train"),
    "dtype": ("auto", "fp32", "tf32", "bf16", "fp16"),
    "baseline.dtype": (None, "fp32", "tf32", "bf16", "fp16"),
    "compile_cache": ("cold", "warm"),
    "order": ("random", "given"),
    "train.optimizer": tuple(OPTIMIZERS),
    "train.implementation": tuple(IMPLEMENTATIONS),
    "train.capture": ("step", "forward_backward"),
    "train.checkpoint": ("none", "children", "model"),
}

SECTIONS: dict[str, type] = {
    "model": ModelConfig,
    "mode": ModeConfig,
    "budget": BudgetConfig,
    "baseline": BaselineConfig,
    "train": TrainConfig,
}

LEAST = {
    "threads": 1,
    "seed": 0,
    "timeout_s": 1,
    "replicates": 1,
    "max_error": 1e-12,
    "trace_max_mb": 0,
    "traces_max_mb": 0,
    "train.lr": 1e-12,
    "train.activation_memory_budget": 0,
    "budget.warmup_min_s": 0,
    "budget.warmup_max_s": 0,
    "budget.block_s": 1e-6,
    "budget.pilot_rounds": 1,
    "budget.min_rounds": 1,
    "budget.max_rounds": 1,
    "budget.half_width": 1e-6,
    "budget.timed_max_s": 1e-3,
    "budget.clock_rounds": 1,
}

MOST = 2**31 - 1
"""Largest number that any setting takes: torch, the system and the files can still hold it."""

AT_MOST = {"train.activation_memory_budget": 1}
"""Those that end earlier."""


def register() -> None:
    """Makes the schema known to Hydra; it rejects unknown keys and wrong types."""
    ConfigStore.instance().store(name="schema", node=Config)


def check(config: DictConfig) -> None:
    """Raises UsageError for a key or value that means nothing, or a folder that cannot be used."""
    for key in sorted(OmegaConf.missing_keys(config)):
        raise UsageError(f"{key}: nothing is chosen; name a value, as in {key}=...")
    _check_keys(config)
    for key, allowed in CHOICES.items():
        value = OmegaConf.select(config, key)
        if value not in allowed:
            names = [str(choice) for choice in allowed if choice is not None]
            meant = nearest(key, str(value), names)
            hint = f" did you mean {meant}? Allowed" if meant else " allowed"
            raise UsageError(f"{key}={value}:{hint} are {', '.join(names)}")
    for key, least in LEAST.items():
        value, most = OmegaConf.select(config, key), AT_MOST.get(key, MOST)
        if value is not None and not least <= value <= most:
            raise UsageError(f"{key}={value}: must be from {least} to {most}")
    _check_results_dir(Path(config.results_dir), config.study)


def _check_keys(config: DictConfig) -> None:
    """Raises UsageError for keys added with + that mean nothing, and for keys taken away with ~."""
    nodes = [("", Config, config), *((f"{k}.", c, config.get(k)) for k, c in SECTIONS.items())]
    for prefix, schema, node in nodes:
        known = [f.name for f in fields(schema)]
        for key in set(node) - set(known):
            raise UsageError(f"{prefix}{key}: no such key; known are {', '.join(known)}")


def _check_results_dir(folder: Path, study: str) -> None:
    """Raises UsageError unless files can be created under `folder`, in a folder called `study`."""
    if study != Path(study).name or study in ("", ".."):
        raise UsageError(f"study={study}: must be the plain name of a folder in results_dir")
    nearest = next(p for p in (folder.absolute(), *folder.absolute().parents) if p.exists())
    if not nearest.is_dir():
        raise UsageError(f"results_dir={folder}: {nearest} is a file; name a folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise UsageError(f"results_dir={folder}: {nearest} cannot be written; name another folder")
