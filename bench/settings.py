"""The settings of a case: keys, types, choices, bounds, and the presets of conf/. No torch."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from modescope.bench.records.cases import (
    IMPLEMENTATIONS,
    OPTIMIZERS,
    CompileOptions,
    Inference,
    PhaseOptions,
    Training,
)
from modescope.bench.records.errors import UsageError
from modescope.bench.records.paths import CONF
from modescope.bench.steps import backends

MOST = 2**31 - 1
"""Largest number that any setting takes: torch, the system and the files can still hold it."""

DTYPES = ("fp32", "tf32", "bf16", "fp16")

OF_COMMAND = ("order", "resume", "retry", "dry_run", "cluster")
"""Settings of a command as a whole: no part of a case, nor of the command for one."""

CLUSTER_NUMBERS = ("workers", "array_parallelism", "signal_delay_s")
"""Options of engines that are whole numbers here; the others are the scheduler's."""

OPEN = ("shape", "model.kwargs", "model.inputs")
"""Sections to which a user adds keys with a +."""


@dataclass(frozen=True)
class PhaseSettings:
    """The settings of a phase; `bench.steps.phases` implements it."""

    options: type[PhaseOptions]
    natural_grad: str  # what mode.grad=natural means
    section: str | None = None  # of the keys that set its options, as in train.lr
    model_keys: tuple[str, ...] = ()  # options that are set by keys of the model, such as loss
    imports_compiler: bool = False  # whether its steps do so in eager, as torch's optimizers do


PHASE_SETTINGS = {
    "inference": PhaseSettings(Inference, "inference_mode"),
    "train": PhaseSettings(Training, "enabled", "train", ("loss",), imports_compiler=True),
}


def setting(*choices: str | None, least: float | None = None, most: float = MOST,
            default: Any = MISSING) -> Any:  # fmt: skip
    """A field with the values that it may have, beyond its type."""
    return field(default=default, metadata={"choices": choices, "least": least, "most": most})


T = TypeVar("T")


def _with_compile_options(schema: type[T]) -> type[T]:
    """Declares `CompileOptions` in a class that will be a dataclass, after its own fields."""
    for each in fields(CompileOptions):
        schema.__annotations__[each.name] = get_type_hints(CompileOptions)[each.name]
        choices = each.metadata.get("choices", ())
        setattr(schema, each.name, setting(*choices, default=each.default))
    return schema


@dataclass
class ModelSettings:
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

    @property
    def option(self) -> str:
        """The option of the group `model` that was chosen, as in `model=mlp`."""
        return self.library or self.name


@dataclass
@_with_compile_options
class ModeSettings:
    """conf/mode/*.yaml"""

    name: str = MISSING
    grad: str = setting("enabled", "no_grad", "inference_mode", "natural")
    autocast: bool = MISSING
    compile: str = setting(*backends.modes())
    graph: bool = MISSING


@dataclass
class BudgetSettings:
    """conf/budget/*.yaml"""

    name: str = MISSING
    rank: int = MISSING
    warmup_min_s: float = setting(least=0)
    warmup_max_s: float = setting(least=0)
    block_s: float = setting(least=1e-6)
    pilot_rounds: int = setting(least=1)
    min_rounds: int = setting(least=1)
    max_rounds: int = setting(least=1)
    half_width: float = setting(least=1e-6)
    timed_max_s: float = setting(least=1e-3)
    clock_rounds: int = setting(least=1)


@dataclass
class BaselineSettings:
    """What the speedup is measured against."""

    mode: str = MISSING
    dtype: str | None = setting(None, *DTYPES, default=None)


@dataclass
class CallsSettings:
    """conf/calls/*.yaml: the sizes of the calls that are timed (bench/calls.py)."""

    name: str = setting("repeat", "mix")
    sizes: Any = None  # by name, a list of whole numbers
    draw: str = setting("uniform", "zipf", "list", default="uniform")
    count: int | None = setting(least=1, most=10_000, default=None)  # 200, or all of a file
    file: str | None = None  # in place of sizes that are drawn
    pad: Any = None  # a number of buckets, or a list of them


@dataclass
class TrainSettings:
    """How phase=train trains."""

    optimizer: str = setting(*OPTIMIZERS, default="sgd")
    implementation: str = setting(*IMPLEMENTATIONS, default="default")
    capturable: bool | None = None
    lr: float = setting(least=1e-12, default=1e-3)
    scaler: bool | None = None
    capture: str = setting("step", "forward_backward", default="step")
    checkpoint: str = setting("none", "children", "model", default="none")
    activation_memory_budget: float | None = setting(least=0, most=1, default=None)


@dataclass
class Settings:
    """All settings of a case."""

    model: ModelSettings = MISSING
    mode: ModeSettings = MISSING
    phase: str = setting(*PHASE_SETTINGS)
    calls: CallsSettings = MISSING
    dtype: str = setting("auto", *DTYPES)
    shape: dict[str, Any] = MISSING  # `size`, and the sizes that conf/model/*.yaml names
    budget: BudgetSettings = MISSING
    baseline: BaselineSettings = MISSING
    train: TrainSettings = MISSING
    device: str = MISSING
    threads: int = setting(least=1)
    seed: int = setting(least=0)
    results_dir: str = MISSING
    study: str = MISSING
    timeout_s: float = setting(least=1, most=1e5)
    compile_cache: str = setting("cold", "warm")
    profile: bool = MISSING
    memory: bool = MISSING
    trace_max_mb: float = setting(least=0)
    traces_max_mb: float = setting(least=0)
    replicates: int = setting(least=1)
    order: str = setting("random", "given")
    resume: bool | None = None
    retry: bool = MISSING
    dry_run: bool = MISSING
    cluster: dict[str, Any] = MISSING  # conf/cluster/*.yaml
    max_error: float | None = setting(least=1e-12, default=None)


SCHEMAS: dict[str, type] = {"": Settings} | {
    key: kind
    for key, kind in get_type_hints(Settings).items()
    if isinstance(kind, type) and is_dataclass(kind)
}
"""The sections of the settings."""

LIMITS: dict[str, Mapping[str, Any]] = {
    f"{section}.{each.name}".lstrip("."): each.metadata
    for section, schema in SCHEMAS.items()
    for each in fields(schema)
    if each.metadata
}
"""The arguments of `setting` for each key that has any."""


def usage_error(
    typed: str, what: str, allowed: Iterable[str] = (), wrong: str | None = None
) -> UsageError:
    """The error for a setting, `key=value` as it was typed, in one line.

    `wrong`: what is none of the names `allowed`; None: the value.
    """
    names = list(allowed)
    meant = difflib.get_close_matches(wrong or typed.partition("=")[2], names, n=1)
    listed = f"; allowed: {', '.join(names)}" if names else ""
    return UsageError(f"{typed}: {what}{listed}{f'; did you mean {meant[0]}?' if meant else ''}")


def mistake(error: OmegaConfBaseException, words: Sequence[str] = ()) -> UsageError:
    """An exception of OmegaConf as the error for its setting, one of `words` if it was typed."""
    key = error.full_key or ""
    typed = next((word for word in words if word.lstrip("+~").partition("=")[0] == key), key)
    if not isinstance(error, ConfigAttributeError | ConfigKeyError):
        text = str(error.msg or error).partition("\n")[0]
        return usage_error(typed, text) if key else UsageError(text)
    section = key.rpartition(".")[0]
    known = [f"{section}.{name}".lstrip(".") for name in error.parent_node or () if name != "hydra"]
    adds = f" yet, and +{key} adds it" if section in OPEN else ""
    return usage_error(typed, f"no such key{adds}", known, wrong=key)


def check(config: DictConfig) -> Settings:
    """The settings of a composed configuration; raises UsageError for what its types let pass."""
    try:
        OmegaConf.resolve(config)
        for section, schema in SCHEMAS.items():
            known = [each.name for each in fields(schema)]
            found = set(config[section] if section else config)
            for key in sorted(found ^ set(known)):  # by a + or ~
                what = "no such key" if key in found else "cannot be removed"
                raise usage_error(f"{section}.{key}".lstrip("."), what, known)
        settings = OmegaConf.to_object(config)
    except OmegaConfBaseException as error:
        raise mistake(error) from error
    assert isinstance(settings, Settings)
    for key, limits in LIMITS.items():
        value, choices = OmegaConf.select(config, key), limits["choices"]
        if choices and value not in choices:
            raise usage_error(f"{key}={value}", "no such value", [each for each in choices if each])
        if None not in (limits["least"], value) and not limits["least"] <= value <= limits["most"]:
            raise usage_error(
                f"{key}={value}", f"must be from {limits['least']} to {limits['most']}"
            )
    for key in CLUSTER_NUMBERS:
        value = config.cluster.get(key)
        if value is not None and not (isinstance(value, int) and value >= 0):
            raise usage_error(f"cluster.{key}={value}", "must be a whole number")
    if config.study != Path(config.study).name or config.study in ("", ".."):
        raise usage_error(
            f"study={config.study}", "must be the plain name of a folder in results_dir"
        )
    return settings


def preset(key: str, group: str, name: str, folders: Iterable[Path] = (CONF,)) -> dict[str, Any]:
    """<group>/<name>.yaml of the first folder that has it; UsageError that names `key`."""
    places = [folder / group for folder in folders]
    file = next((place / f"{name}.yaml" for place in places if (place / f"{name}.yaml").is_file()),
                None)  # fmt: skip
    if file is None:
        known = sorted({each.stem for place in places for each in place.glob("*.yaml")})
        raise usage_error(f"{key}={name}", f"no such {group}", known)
    content = OmegaConf.to_container(OmegaConf.load(file), resolve=True)
    assert isinstance(content, dict)
    return {str(key): value for key, value in content.items()}
