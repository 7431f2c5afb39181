"""Defines all settings (keys, types, choices, bounds), and reads presets. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from modescope.bench.mistakes import mistake, usage_error
from modescope.bench.modes import axes, backends, compiler_options
from modescope.bench.records.caches import CACHES
from modescope.bench.records.cases import (
    DATA,
    Inference,
    Mode,
    PhaseOptions,
    Training,
    canonical_json,
)
from modescope.bench.records.optimizers import IMPLEMENTATIONS, OPTIMIZERS
from modescope.bench.records.paths import CONF

MOST = 2**31 - 1
"""Largest number that any setting takes: torch, the system and Parquet files can all hold it."""

DTYPES = ("fp32", "tf32", "bf32", "bf16", "fp16")

OPERATORS = ("rmsnorm", "swiglu", "rope", "layernorm_gelu", "cross_entropy")
"""Values of model.op: what `modescope.models.fused` builds."""

OF_COMMAND = ("order", "resume", "retry", "dry_run", "cluster")
"""Settings with one value per command; the command that repeats a single case omits them."""

CLUSTER_NUMBERS = {
    **dict.fromkeys(("workers", "array_parallelism", "timeout_min", "cpus_per_task"), 1),
    **dict.fromkeys(("gpus_per_node", "max_num_timeout", "mem_gb", "signal_delay_s"), 0),
}
"""Maps each option of a cluster's engine that must be a number to its least value. All but `mem_gb`
are whole numbers. The scheduler checks all other options."""


@dataclass(frozen=True)
class PhaseSettings:
    """What the settings need to know of a phase (inference, train); `bench.modes.phases` runs it.

    `options` is the class that holds the options of the phase in a case.
    """

    options: type[PhaseOptions]
    natural_grad: str  # the value of mode.grad that `natural` stands for
    section: str | None = None  # the settings' section with its options: `train`, as in train.lr
    model_keys: tuple[str, ...] = ()  # options that are keys of the section `model`, such as loss
    imports_compiler: bool = False  # whether even eager steps import it, as torch's optimizers do


PHASE_SETTINGS = {
    "inference": PhaseSettings(Inference, "inference_mode"),
    "train": PhaseSettings(Training, "enabled", "train", ("loss",), imports_compiler=True),
}


def setting(*choices: str | bool | None, least: float | None = None, most: float = MOST,
            default: Any = MISSING) -> Any:  # fmt: skip
    """Returns a field whose value must be one of `choices`, if any, or from `least` to `most`."""
    return field(default=default, metadata={"choices": choices, "least": least, "most": most})


@dataclass
class ModelSettings:
    """The fields of a file in conf/model/.

    `target` is the function ("module:name") that builds the model, and `kwargs` are its arguments
    besides sizes. `kernels` are further implementations, which `mode.kernels` chooses: functions
    that take the same arguments. `fullgraph`: whether graph breaks are errors. `batch_dim` is the
    dimension of the inputs that is the batch; None if none is. `sizes` maps each value of
    shape.size to device types, and these to the model's sizes.
    """

    name: str = MISSING
    op: str | None = setting(None, *OPERATORS, default=None)  # of model=fused
    library: str | None = None  # package such as timm; `name` is then one of its architectures
    target: str | None = None
    pickle: str | None = None  # instead of target: a file that modescope.compare wrote
    kwargs: dict[str, Any] = field(default_factory=dict)
    kernels: dict[str, Any] = field(default_factory=dict)  # by name: targets, or pickle files
    inputs: Any = None  # descriptions: bench.records.input_descriptions
    fullgraph: bool = True
    batch_dim: int | None = 0
    loss: str = "mse"
    scale: str | None = None  # the size that shape.scale sets
    sizes: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)

    @property
    def option(self) -> str:
        """The value of `model=` on the command line, such as mlp."""
        return self.library or self.name


@dataclass
class CommonModeSettings:
    """The fields of a file in conf/mode/; `bench.records.cases.Mode` explains them."""

    name: str = MISSING
    grad: str = setting("enabled", "no_grad", "inference_mode", "natural")
    autocast: bool = MISSING
    compile: str = setting(*backends.modes())
    graph: bool = MISSING
    dynamic: bool | None = None
    options: dict[str, Any] = field(default_factory=dict)
    backend: str | None = None

    def __post_init__(self) -> None:
        self.options = compiler_options.flat(self.options)
        self.backend = None if self.backend == "inductor" else self.backend

    def mode(self) -> Mode:
        """Returns the mode that these settings describe."""
        values = asdict(self)
        given = {name: values.pop(name) for name in axes.settings()}
        chosen = tuple(
            (name, value) for name, value in given.items() if value != axes.settings()[name][0]
        )
        return Mode(**values | {"options": canonical_json(self.options), "axes": chosen})


if TYPE_CHECKING:
    ModeSettings = CommonModeSettings
else:  # with a setting for each further axis
    ModeSettings = make_dataclass(
        "ModeSettings",
        [
            (
                name,
                type(values[0]),
                setting(*(() if axes.AXES[name].named else values), default=values[0]),
            )
            for name, values in axes.settings().items()
        ],
        bases=(CommonModeSettings,),
    )
    ModeSettings.__module__ = __name__  # where pickle looks for it


@dataclass
class BudgetSettings:
    """The fields of a file in conf/budget/; `bench.records.plans.Budget` explains them."""

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
    """The mode and dtype that the speedup is measured against.

    `dtype` None is the dtype of the case, or fp32 if the case's mode autocasts and `mode` does not.
    """

    mode: str = MISSING
    dtype: str | None = setting(None, *DTYPES, default=None)


@dataclass
class CallsSettings:
    """The fields of a file in conf/calls/, which say what sizes the timed calls have."""

    name: str = setting("repeat", "mix")
    sizes: Any = None  # names of sizes, each with a list of whole numbers
    draw: str = setting("uniform", "zipf", "list", default="uniform")
    count: int | None = setting(least=1, most=10_000, default=None)  # None: 200, or the whole file
    file: str | None = None  # CSV file with the sizes of each call, instead of `sizes`
    pad: Any = None  # sizes to pad to, or how many such sizes to choose


@dataclass
class TrainSettings:
    """The options of a training step; `bench.records.cases.Training` explains them."""

    optimizer: str = setting(*OPTIMIZERS, default="sgd")
    implementation: str = setting(*IMPLEMENTATIONS, default="default")
    capturable: bool | None = None
    lr: float = setting(least=1e-12, default=1e-3)
    scaler: bool | None = None
    capture: str = setting("step", "forward_backward", default="step")
    checkpoint: str = setting("none", "children", "model", default="none")
    activation_memory_budget: float | None = setting(least=0, most=1, default=None)
    compile_optimizer: bool = False


@dataclass
class Settings:
    """All settings of a command."""

    model: ModelSettings = MISSING
    mode: ModeSettings = MISSING
    phase: str = setting(*PHASE_SETTINGS)
    calls: CallsSettings = MISSING
    data: str = setting(*DATA)
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
    compile_cache: str = setting(*CACHES)
    starts: int = setting(least=0, most=1000)
    profile: bool = MISSING
    memory: bool = MISSING
    explain: bool | str = setting(False, True, "best", "fusion")
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
"""Maps the key of each section to its class; the key of the top level is empty."""

LIMITS: dict[str, Mapping[str, Any]] = {
    f"{section}.{key.name}".lstrip("."): key.metadata
    for section, schema in SCHEMAS.items()
    for key in fields(schema)
    if key.metadata
}
"""Maps a key, such as `train.lr`, to its choices and bounds (the arguments of `setting`)."""


def check(config: DictConfig) -> Settings:
    """Returns the settings in `config`; raises UsageError for a wrong key or value."""
    try:
        OmegaConf.resolve(config)
        for section, schema in SCHEMAS.items():
            known = [key.name for key in fields(schema)]
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
            raise usage_error(
                f"{key}={value}",
                "no such value",
                [str(choice).lower() for choice in choices if choice is not None],
            )
        if None not in (limits["least"], value) and not limits["least"] <= value <= limits["most"]:
            raise usage_error(
                f"{key}={value}", f"must be from {limits['least']} to {limits['most']}"
            )
    for key, least in CLUSTER_NUMBERS.items():
        value, kinds = config.cluster.get(key), (int, float) if key == "mem_gb" else (int,)
        if value is not None and not (type(value) in kinds and least <= value <= MOST):
            whole = "" if float in kinds else "whole "
            raise usage_error(f"cluster.{key}={value}", f"must be a {whole}number from {least}")
    for name, value in settings.shape.items():
        number = int(value) if isinstance(value, str) and value.strip().isdecimal() else value
        wrong = isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= MOST
        if name != "size" and value is not None and wrong:
            raise usage_error(f"shape.{name}={value}", f"must be a whole number from 1 to {MOST}")
    check_study_name(config.study)
    return settings


def check_study_name(study: str) -> None:
    """Raises UsageError unless `study` is the name of a folder, without parts of a path."""
    if study != Path(study).name or study in ("", ".."):
        raise usage_error(f"study={study}", "must be the plain name of a folder in results_dir")


def preset(key: str, group: str, name: str, folders: Iterable[Path] = (CONF,)) -> dict[str, Any]:
    """Returns the content of <group>/<name>.yaml from the first of `folders` that has it.

    Raises UsageError, which names `key`, if no folder has it.
    """
    places = [folder / group for folder in folders]
    file = next((place / f"{name}.yaml" for place in places if (place / f"{name}.yaml").is_file()),
                None)  # fmt: skip
    if file is None:
        known = sorted({file.stem for place in places for file in place.glob("*.yaml")})
        raise usage_error(f"{key}={name}", f"no such {group}", known)
    content = OmegaConf.to_container(OmegaConf.load(file), resolve=True)
    assert isinstance(content, dict)
    return {str(key): value for key, value in content.items()}
