"""Turns a Request into a Case and a Plan. Imports no torch, to keep the command line fast."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from modescope.bench.records import cases, input_descriptions
from modescope.bench.records.cases import Case, CompileOptions, Mode, Plan, Variant
from modescope.bench.records.environment import DeviceFacts
from modescope.bench.records.errors import UsageError
from modescope.bench.records.ids import canonical_json
from modescope.bench.records.paths import ROOT
from modescope.bench.records.pickled_models import PICKLE_FOLDER, PICKLE_SUFFIX, PICKLED_TARGET
from modescope.bench.records.training_options import LOSSES
from modescope.bench.sweep.settings import suggestions
from modescope.bench.sweep.settings.error_texts import OWN_TARGET
from modescope.bench.sweep.settings.phase_settings import PHASE_SETTINGS
from modescope.bench.sweep.settings.request import Request, option, other_phase_error
from modescope.bench.sweep.settings.schema import MOST

TARGET = re.compile(r"\w+(\.\w+)*:\w+")

PICKLE = re.compile(r"[\w-]+\.[0-9a-f]+")
"""A value of model.pickle: name and hash."""

PLANNED = [field.name for field in fields(Plan)]
"""Settings with these names go into the plan unchanged."""


def resolve(request: Request, describe: Callable[[str], DeviceFacts]) -> tuple[Case, Plan]:
    """The case and plan of a request. Raises UsageError, also through `describe`."""
    config = request.config
    device = config["device"]
    if device == "auto":
        device = "cuda" if describe("auto").type == "cuda" else "cpu"
    facts = describe(device)
    phase = config["phase"]
    mode = _mode(config["mode"], request.preset, phase)
    dtype = config["dtype"]
    if dtype == "auto":
        dtype = "bf16" if mode.autocast else "fp32"
    study = Path(_results_dir(config["results_dir"])) / config["study"]
    model = _model(config["model"], study)
    shape = _shape(config["shape"], config["model"], facts.type)
    case = Case(
        model=replace(model, inputs_json=_inputs(config["model"]["inputs"], shape)),
        shape_json=canonical_json(shape),
        variant=Variant(mode, dtype),
        baseline=_baseline(request, mode, dtype, phase),
        device=device,
        threads=config["threads"],
        options=_options(config),
    )
    same = {key: config[key] for key in PLANNED if key in config}
    changed = {
        "budget": request.budget,
        "replicate": 0,
        "results_dir": _results_dir(config["results_dir"]),
        "trace_max_bytes": round(config["trace_max_mb"] * 1e6),
        "traces_max_bytes": round(config["traces_max_mb"] * 1e6),
    }
    return case, Plan(**{**same, **changed})


def _options(config: dict[str, Any]) -> cases.PhaseOptions:
    """The options of the case's phase; raises UsageError where another phase's are set."""
    loss = config["model"]["loss"]
    if loss not in LOSSES and not TARGET.fullmatch(loss):
        raise UsageError(
            f"model.loss={loss}: allowed are {', '.join(LOSSES)}, or a function as "
            "model.loss=my_package.my_module:loss"
        )
    sections = {
        name: config[settings.section] if settings.section else {}
        for name, settings in PHASE_SETTINGS.items()
    }
    own = sections.pop(config["phase"])
    for name, section in sections.items():
        other = PHASE_SETTINGS[name]
        for key, value in section.items():
            if value != getattr(other.options(), key):
                raise UsageError(other_phase_error(f"{other.section}.{key}", value, config, name))
    settings = PHASE_SETTINGS[config["phase"]]
    return settings.options(**own, **{key: config["model"][key] for key in settings.model_keys})


def _results_dir(folder: str) -> str:
    """The folder as a path that also holds in the checkout, where the next command runs."""
    return folder if Path.cwd() == ROOT else str(Path(folder).resolve())


def _mode(config: dict[str, Any], preset_config: dict[str, Any], phase: str) -> Mode:
    axes, usual = _axes(config, phase), _axes(preset_config, phase)
    changed = [
        f"{key}={'null' if value is None else str(value).lower()}"
        for key, value in axes.items()
        if value != usual[key]
    ]
    name = config["name"] + (f"[{','.join(changed)}]" if changed else "")
    options = {each.name: axes.pop(each.name) for each in fields(CompileOptions)}
    return Mode(name=name, **axes, options=CompileOptions(**options))


def _axes(config: dict[str, Any], phase: str) -> dict[str, Any]:
    """Axes and options by key. Presets state only options that differ from their defaults."""
    grad = PHASE_SETTINGS[phase].natural_grad if config["grad"] == "natural" else config["grad"]
    axes = {key: config[key] for key in ("autocast", "compile", "graph")}
    options = {each.name: config.get(each.name, each.default) for each in fields(CompileOptions)}
    return {"grad": grad, **axes, **options}


def _baseline(request: Request, mode: Mode, dtype: str, phase: str) -> Variant | None:
    axes = request.baseline_preset
    if axes is None:
        return None
    default = "fp32" if mode.autocast and not axes["autocast"] else dtype
    return Variant(_mode(axes, axes, phase), request.config["baseline"]["dtype"] or default)


def _model(config: dict[str, Any], study: Path) -> cases.Model:
    """The model without its inputs, which need the shape; `study`: the folder of results."""
    name, target, library = config["name"], config["target"], config["library"]
    pickled = _pickled(config["pickle"], study) if config["pickle"] else None
    if pickled:
        name, target = config["pickle"].partition(".")[0], PICKLED_TARGET
    if not target:
        raise UsageError(f"model={option(config)} has no target; name a function as {OWN_TARGET}")
    if not TARGET.fullmatch(target) or target.partition(":")[0].endswith(".py"):
        meant = suggestions.own_model(target) if re.search(r"\.py\b|/", target) else None
        hint = f": name the module, not its file; did you mean {meant}?"
        raise UsageError(
            f"model.target={target}{hint if meant else f'; name a function as {OWN_TARGET}'}"
        )
    if library:
        shown = f"{library}:{name}"
    else:
        known = pickled or target.startswith(cases.BUILT_IN)
        shown = name if known else f"custom:{target}"
    return cases.Model(
        name=shown,
        target=target,
        args_json=canonical_json(config["kwargs"]),
        fullgraph=config["fullgraph"],
        batch_dim=config["batch_dim"],
        architecture=name if library else None,
        pickled=pickled,
    )


def _pickled(named: str, study: Path) -> cases.Pickled:
    """The file `<name>.<hash>` of the study; raises UsageError where there is none."""
    file = study / PICKLE_FOLDER / f"{named}{PICKLE_SUFFIX}"
    if not PICKLE.fullmatch(named) or not file.is_file():
        known = [each.stem for each in sorted(file.parent.glob(f"*{PICKLE_SUFFIX}"))]
        there = f"; there are {', '.join(known)}" if known else ""
        raise UsageError(
            f"model.pickle={named}: modescope.compare has saved no such model in "
            f"{study / PICKLE_FOLDER}{there}"
        )
    return cases.Pickled(str(file), named.partition(".")[2])


def _inputs(described: Any, shape: dict[str, int]) -> str | None:
    """Described inputs as canonical JSON; raises UsageError for a mistake, or an unknown size."""
    if described is None:
        return None
    for name, place in input_descriptions.size_names(input_descriptions.parse(described)).items():
        if name not in shape:
            plus = "" if name in suggestions.sizes("custom") else "+"
            raise UsageError(
                f"{place}: no size is called {name}; set it, as in {plus}shape.{name}=8"
            )
    return canonical_json(described)


def _shape(shape: dict[str, Any], model: dict[str, Any], device_type: str) -> dict[str, int]:
    size, name = shape["size"], option(model)
    shape = {key: _number(value) for key, value in shape.items()}
    overrides = {k: v for k, v in shape.items() if k not in ("size", "scale") and v is not None}
    if shape.get("scale") is not None:
        scaled = model["scale"]
        if scaled is None:
            raise UsageError(f"shape.scale={shape['scale']}: model={name} has no size to scale")
        if scaled in overrides:
            raise UsageError(f"shape.scale and shape.{scaled} both set {scaled}; give one of them")
        overrides[scaled] = shape["scale"]
    if model["sizes"] and size not in model["sizes"]:
        raise UsageError(f"shape={size}: the sizes of model={name} are {', '.join(model['sizes'])}")
    if not model["sizes"] and size != "default":
        raise UsageError(
            f"shape={size}: model={name} has no named sizes; set single ones, as in shape.batch=8"
        )
    sizes = dict(model["sizes"][size][device_type]) if model["sizes"] else {}
    for key in sorted({*sizes} & {*model["kwargs"]}):
        typed = model["kwargs"][key]
        raise UsageError(
            f"model.kwargs.{key}={typed}: {key} is a size of model={name}; set shape.{key}={typed}"
        )
    for key, value in overrides.items():
        if key in model["kwargs"]:
            raise UsageError(f"shape.{key} and model.kwargs.{key} both set {key}; give one of them")
        if model["sizes"] and key not in sizes:
            known = f"the sizes of model={name} are {', '.join(sizes)}"
            raise UsageError(f"shape.{key}={value}: {known}")
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST:
            raise UsageError(f"shape.{key}={value}: must be a whole number from 1 to {MOST}")
        sizes[key] = value
    return sizes


def _number(value: Any) -> Any:
    """A quoted whole number as an int, as Hydra converts it for keys with a type."""
    return int(value) if isinstance(value, str) and value.strip().isdecimal() else value
