"""Hydra's configuration -> Case and Plan. Imports no torch: the command line stays light."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.conf import HydraConf
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from bench import suggestions
from bench.complaints import OWN_TARGET, sizes_are_arguments
from bench.records import (
    Budget,
    Case,
    DeviceFacts,
    Mode,
    Model,
    Plan,
    Training,
    UsageError,
    Variant,
    canonical_json,
)
from bench.schema import MOST, check
from bench.training.choices import LOSSES

CHECKOUT = Path(__file__).resolve().parents[1]

NOT_OF_A_CASE = ("experiment=", "resume=", "retry=", "order=")
"""Overrides that a command for a single case leaves out."""

TARGET = re.compile(r"\w+(\.\w+)*:\w+")

OURS = [model for model in suggestions.groups()["model"] if model != "custom"]
"""Models that come with modescope."""

WITHOUT_EFFECT: dict[str, tuple[Callable[[DictConfig], bool], Callable[[DictConfig], str]]] = {
    "model.loss": (
        lambda config: config.phase != "train",
        lambda config: f"phase={config.phase} trains nothing; add phase=train",
    ),
    "model.name": (
        lambda config: True,
        lambda config: "a model keeps its name; leave it out",
    ),
    "model.target": (
        lambda config: config.model.name in OURS,
        lambda config: f"model={config.model.name} has a target of its own; add model=custom",
    ),
    "baseline.dtype": (
        lambda config: config.baseline.mode == "none" and config.baseline.dtype is not None,
        lambda config: "baseline.mode=none switches the baseline off; leave one of them out",
    ),
}
"""Keys that would be typed in vain: when, and what to do."""

NATURAL_GRAD = {"inference": "inference_mode", "train": "enabled"}


def preset(group: str, name: str, key: str) -> dict[str, Any]:
    """What conf/<group>/<name>.yaml says (or the user's own, from --config-dir).

    Raises UsageError, which says that `key` named it, where there is no such file.
    """
    repository = GlobalHydra.instance().config_loader().repository  # type: ignore[attr-defined]
    found = repository.load_config(f"{group}/{name}")
    if found is None:
        known = ", ".join(sorted(repository.get_group_options(group)))
        also = ", none" if key == "baseline.mode" else ""
        raise UsageError(f"{key}={name}: no such {group}; known are {known}{also}")
    axes = OmegaConf.to_container(found.config, resolve=True)
    assert isinstance(axes, dict)
    return {str(key): value for key, value in axes.items()}


@dataclass(frozen=True)
class Request:
    """One composed job, before the device is known."""

    config: dict[str, Any]
    preset: dict[str, Any]
    baseline_preset: dict[str, Any] | None
    budget: Budget
    overrides: tuple[str, ...]  # as typed, or as the sweep chose them; --config-dir before them
    sweep: bool  # under -m

    @property
    def resume(self) -> bool:
        """Whether earlier rows may stand in."""
        asked: bool | None = self.config["resume"]
        return self.sweep if asked is None else asked

    @property
    def retry(self) -> bool:
        """Whether cases that failed before are tried again."""
        return bool(self.config["retry"])

    @property
    def order(self) -> str:
        """Order of a sweep's cases: random or given."""
        return str(self.config["order"])

    @property
    def replicates(self) -> int:
        """How many fresh processes measure the case."""
        return int(self.config["replicates"])


def request(config: DictConfig, job: HydraConf) -> Request:
    """Freezes a composed job; raises UsageError for a value outside its choices."""
    experiment = job.runtime.choices.get("experiment")
    if job.mode == RunMode.RUN and experiment:
        raise UsageError(
            f"experiment={experiment} is a sweep: add -m (python run.py -m experiment={experiment})"
        )
    check(config)
    _check_choices(job, config)
    plain = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    assert isinstance(plain, dict)
    baseline = config.baseline.mode
    return Request(
        config={str(key): value for key, value in plain.items()},
        preset=preset("mode", config.mode.name, "mode.name"),
        baseline_preset=None if baseline == "none" else preset("mode", baseline, "baseline.mode"),
        budget=_budget(plain["budget"]),
        overrides=(*_own_configuration(job), *_of_case(job.overrides.task)),
        sweep=job.mode == RunMode.MULTIRUN,
    )


def _check_choices(job: HydraConf, config: DictConfig) -> None:
    """Raises UsageError where a configuration file lists options of a group, and the last counts.

    Hydra notes no choice then.
    """
    for group in suggestions.groups():
        if group != "experiment" and group not in job.runtime.choices:
            raise UsageError(
                f"{group}: a list of options is chosen in a configuration file, where one is "
                f"meant; a sweep is written {group}: a,b under hydra.sweeper.params"
            )
    typed = [override.lstrip("+").partition("=")[0] for override in job.overrides.task]
    for key, (ignored, why) in WITHOUT_EFFECT.items():
        if key in typed and ignored(config):
            raise UsageError(f"{key}={OmegaConf.select(config, key)}: {why(config)}")


def _own_configuration(job: HydraConf) -> list[str]:
    """--config-dir, where the user gave one."""
    sources = job.runtime.config_sources
    return [f"--config-dir={s.path}" for s in sources if s.provider == "command-line"]


def _of_case(overrides: Sequence[str]) -> list[str]:
    return [o for o in overrides if not o.lstrip("+").startswith(NOT_OF_A_CASE)]


def resolve(asked: Request, describe: Callable[[str], DeviceFacts]) -> tuple[Case, Plan]:
    """The case and plan behind a request.

    `describe` reads a device's facts and raises UsageError where it does not exist.
    """
    config = asked.config
    device = config["device"]
    if device == "auto":
        device = "cuda" if describe("auto").type == "cuda" else "cpu"
    facts = describe(device)
    phase = config["phase"]
    mode = _mode(config["mode"], asked.preset, phase)
    dtype = config["dtype"]
    if dtype == "auto":
        dtype = "bf16" if mode.autocast else "fp32"
    case = Case(
        model=_model(config["model"]),
        shape_json=canonical_json(_shape(config["shape"], config["model"], facts.type)),
        variant=Variant(mode, dtype),
        baseline=_baseline(asked, mode, dtype, phase),
        device=device,
        threads=config["threads"],
        training=_training(config),
    )
    plan = Plan(
        budget=asked.budget,
        seed=config["seed"],
        replicate=0,
        compile_cache=config["compile_cache"],
        timeout_s=config["timeout_s"],
        study=config["study"],
        results_dir=_results_dir(config["results_dir"]),
        profile=config["profile"],
        memory=config["memory"],
        trace_max_bytes=_bytes(config["trace_max_mb"]),
        traces_max_bytes=_bytes(config["traces_max_mb"]),
        max_error=config["max_error"],
    )
    return case, plan


def _training(config: dict[str, Any]) -> Training | None:
    options, loss = config["train"], _loss(config["model"]["loss"])
    if config["phase"] == "train":
        return Training(loss=loss, **options)
    changed = [key for key, value in options.items() if value != getattr(Training(), key)]
    if changed:
        key = changed[0]
        raise UsageError(
            f"train.{key}={options[key]}: phase={config['phase']} trains nothing; add phase=train"
        )
    return None


def _loss(name: str) -> str:
    if name in LOSSES or TARGET.fullmatch(name):
        return name
    raise UsageError(
        f"model.loss={name}: allowed are {', '.join(LOSSES)}, or a function as "
        "model.loss=my_package.my_module:loss"
    )


def _results_dir(folder: str) -> str:
    """The folder by a path that holds in the checkout, too, where the next command is run."""
    return folder if Path.cwd() == CHECKOUT else str(Path(folder).resolve())


def _bytes(megabytes: float) -> int:
    return round(megabytes * 1e6)


def _mode(config: dict[str, Any], preset_config: dict[str, Any], phase: str) -> Mode:
    axes, usual = _axes(config, phase), _axes(preset_config, phase)
    changed = [f"{key}={str(axes[key]).lower()}" for key in axes if axes[key] != usual[key]]
    return Mode(name=config["name"] + (f"[{','.join(changed)}]" if changed else ""), **axes)


def _axes(config: dict[str, Any], phase: str) -> dict[str, Any]:
    grad = NATURAL_GRAD[phase] if config["grad"] == "natural" else config["grad"]
    return {"grad": grad, **{key: config[key] for key in ("autocast", "compile", "graph")}}


def _budget(config: dict[str, Any]) -> Budget:
    """The budget, its changes in brackets behind its name: a rank speaks for the preset alone."""
    usual = preset("budget", config["name"], "budget.name")
    if config["rank"] != usual["rank"]:
        raise UsageError(f"budget.rank={config['rank']}: the rank of {config['name']} is fixed")
    changed = [
        f"{key}={config[key]:g}" for key in usual if key != "name" and config[key] != usual[key]
    ]
    name = config["name"] + (f"[{','.join(changed)}]" if changed else "")
    return Budget(**{**config, "name": name})


def _baseline(asked: Request, mode: Mode, dtype: str, phase: str) -> Variant | None:
    axes = asked.baseline_preset
    if axes is None:
        return None
    default = "fp32" if mode.autocast and not axes["autocast"] else dtype
    return Variant(_mode(axes, axes, phase), asked.config["baseline"]["dtype"] or default)


def _no_target(name: str, target: str | None) -> str:
    if not target:
        return f"model={name} has no target; name a function as {OWN_TARGET}"
    meant = suggestions.own_model(target) if re.search(r"\.py\b|/", target) else None
    if meant:
        return f"model.target={target}: name the module, not its file; did you mean {meant}?"
    return f"model.target={target}; name a function as {OWN_TARGET}"


def _model(config: dict[str, Any]) -> Model:
    target = config["target"]
    if not TARGET.fullmatch(target or "") or target.partition(":")[0].endswith(".py"):
        raise UsageError(_no_target(config["name"], target))
    return Model(
        name=config["name"] if target.startswith("models.") else f"custom:{target}",
        target=target,
        args_json=canonical_json(config["kwargs"]),
        fullgraph=config["fullgraph"],
        batch_dim=config["batch_dim"],
    )


def _shape(shape: dict[str, Any], model: dict[str, Any], device_type: str) -> dict[str, int]:
    size, name = shape["size"], model["name"]
    shape = {key: _number(value) for key, value in shape.items()}
    overrides = {k: v for k, v in shape.items() if k not in ("size", "scale") and v is not None}
    if shape.get("scale") is not None:
        scaled = model["scale"]
        if scaled is None:
            raise UsageError(f"shape.scale={shape['scale']}: model={name} names no size to scale")
        if scaled in overrides:
            raise UsageError(f"shape.scale and shape.{scaled} both set {scaled}; give one of them")
        overrides[scaled] = shape["scale"]
    if model["sizes"] and size not in model["sizes"]:
        raise UsageError(f"shape={size}: the sizes of model={name} are {', '.join(model['sizes'])}")
    if not model["sizes"] and size != "default":
        raise UsageError(f"shape={size}: model={name} has no named sizes; set model.kwargs")
    sizes = dict(model["sizes"][size][device_type]) if model["sizes"] else {}
    for key in sorted({*sizes} & {*model["kwargs"]}):
        typed = model["kwargs"][key]
        raise UsageError(
            f"model.kwargs.{key}={typed}: {key} is a size of model={name}; set shape.{key}={typed}"
        )
    for key, value in overrides.items():
        if key not in sizes:
            known = f"the sizes of model={name} are {', '.join(sizes)}"
            raise UsageError(
                f"shape.{key}={value}: {known if sizes else sizes_are_arguments(key, value)}"
            )
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST:
            raise UsageError(f"shape.{key}={value}: must be a whole number from 1 to {MOST}")
        sizes[key] = value
    return sizes


def _number(value: Any) -> Any:
    """A whole number in quotes without them, as for keys whose type the schema knows."""
    return int(value) if isinstance(value, str) and value.strip().isdecimal() else value
