"""Turns Hydra's configuration into a Request. Imports no torch, to keep the command line fast."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hydra.conf import HydraConf
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from modescope.bench.records.cases import Budget
from modescope.bench.records.errors import UsageError
from modescope.bench.records.paths import runner
from modescope.bench.sweep.settings import suggestions
from modescope.bench.sweep.settings.phase_settings import PHASE_SETTINGS
from modescope.bench.sweep.settings.schema import OF_SWEEP, check

NOT_OF_A_CASE = tuple(f"{key}=" for key in OF_SWEEP)
"""Overrides that a command for a single case leaves out."""

OURS = [model for model in suggestions.groups()["model"] if model != "custom"]
"""Models that come with modescope."""


def option(model: Mapping[str, Any]) -> str:
    """The option of the group `model` that was chosen, as in `model=mlp`."""
    return str(model["library"] or model["name"])


WITHOUT_EFFECT: dict[str, tuple[Callable[[DictConfig], bool], str]] = {
    "model.name": (
        lambda config: config.model.library is None,
        "the name of a model is fixed, except with {libraries}; leave it out",
    ),
    "model.library": (lambda config: True, "choose a library as {libraries}"),
    "model.target": (
        lambda config: option(config.model) in OURS,
        "model={option} has a target of its own; add model=custom",
    ),
    "model.pickle": (
        lambda config: option(config.model) != "custom" or config.model.target is not None,
        "it stands for a target of model=custom; leave out one of them",
    ),
    "model.inputs": (
        lambda config: option(config.model) in OURS,
        "model={option} has inputs of its own; add model=custom",
    ),
    "baseline.dtype": (
        lambda config: config.baseline.mode == "none" and config.baseline.dtype is not None,
        "baseline.mode=none switches the baseline off; leave one of them out",
    ),
}
"""Keys that would have no effect: the condition, and what to do."""


def preset(group: str, name: str, key: str) -> dict[str, Any]:
    """conf/<group>/<name>.yaml, or the user's own. Raises UsageError that names `key`."""
    repository = GlobalHydra.instance().config_loader().repository  # type: ignore[attr-defined]
    file = repository.load_config(f"{group}/{name}")
    if file is None:
        known = ", ".join(sorted(repository.get_group_options(group)))
        also = ", none" if key == "baseline.mode" else ""
        raise UsageError(f"{key}={name}: no such {group}; known are {known}{also}")
    return _plain(file.config)


def _plain(config: Any) -> dict[str, Any]:
    """A configuration without OmegaConf's types, so that it can be pickled."""
    content = OmegaConf.to_container(config, resolve=True)
    assert isinstance(content, dict)
    return {str(key): value for key, value in content.items()}


@dataclass(frozen=True)
class Request:
    """One composed job, before the device is known."""

    config: dict[str, Any]
    preset: dict[str, Any]
    baseline_preset: dict[str, Any] | None
    budget: Budget
    overrides: tuple[str, ...]  # as typed, or as the sweep chose them; --config-dir before them
    sweep: bool  # under -m
    launcher: dict[str, Any]  # under -m: `_target_`, and options of the executor it chooses

    @property
    def resume(self) -> bool:
        """Whether earlier rows may be reused; by default only in a sweep."""
        resume: bool | None = self.config["resume"]
        return self.sweep if resume is None else resume


def request(config: DictConfig, job: HydraConf) -> Request:
    """A composed job as a request; raises UsageError for a value outside its choices."""
    experiment = job.runtime.choices.get("experiment")
    if job.mode == RunMode.RUN and experiment:
        raise UsageError(
            f"experiment={experiment} is a sweep: add -m ({runner()} -m experiment={experiment})"
        )
    _check_launcher(job)
    check(config)
    _check_choices(job, config)
    plain = _plain(config)
    baseline = config.baseline.mode
    sweep = job.mode == RunMode.MULTIRUN
    own = [s.path for s in job.runtime.config_sources if s.provider == "command-line"]
    of_case = [o for o in job.overrides.task if not o.lstrip("+").startswith(NOT_OF_A_CASE)]
    return Request(
        config=plain,
        preset=preset("mode", config.mode.name, "mode.name"),
        baseline_preset=None if baseline == "none" else preset("mode", baseline, "baseline.mode"),
        budget=_budget(plain["budget"]),
        overrides=(*(f"--config-dir={path}" for path in own), *of_case),
        sweep=sweep,
        launcher=_plain(job.launcher) if sweep else {},
    )


def _check_launcher(job: HydraConf) -> None:
    """Raises UsageError for a launcher of a single case."""
    chosen = job.runtime.choices.get("hydra/launcher", "basic")
    if job.mode == RunMode.RUN and chosen != "basic":
        raise UsageError(f"hydra/launcher={chosen}: a launcher is for a sweep; add -m")


def _check_choices(job: HydraConf, config: DictConfig) -> None:
    """Raises UsageError for keys without effect and lists of options: Hydra takes the last one."""
    for group in suggestions.groups():
        if group != "experiment" and group not in job.runtime.choices:
            raise UsageError(
                f"{group}: a configuration file chooses a list of options, but a case has one; "
                f"write a sweep as {group}: a,b under hydra.sweeper.params"
            )
    typed = [override.lstrip("+").partition("=")[0] for override in job.overrides.task]
    for name, settings in PHASE_SETTINGS.items():
        for key in (f"model.{key}" for key in settings.model_keys):
            if key in typed and config.phase != name:
                raise UsageError(
                    other_phase_error(key, OmegaConf.select(config, key), config, name)
                )
    for key, (ignored, why) in WITHOUT_EFFECT.items():
        if any(each == key or each.startswith(f"{key}.") for each in typed) and ignored(config):
            libraries = " or ".join(f"model={each}" for each in suggestions.libraries())
            reason = why.format(config=config, option=option(config.model), libraries=libraries)
            raise UsageError(f"{key}={OmegaConf.select(config, key)}: {reason}")


def other_phase_error(key: str, value: Any, config: Any, name: str) -> str:
    """The error for `key`, an option of the phase `name`, in a case of another phase."""
    phase, why = config["phase"], PHASE_SETTINGS[name].other_phases
    return f"{key}={value}: phase={phase} {why}; add phase={name}"


def _budget(config: dict[str, Any]) -> Budget:
    """The budget, with overridden values in brackets after its name, as its rank ignores them."""
    usual = preset("budget", config["name"], "budget.name")
    if config["rank"] != usual["rank"]:
        raise UsageError(f"budget.rank={config['rank']}: the rank of {config['name']} is fixed")
    changed = [
        f"{key}={config[key]:g}" for key in usual if key != "name" and config[key] != usual[key]
    ]
    name = config["name"] + (f"[{','.join(changed)}]" if changed else "")
    return Budget(**{**config, "name": name})
