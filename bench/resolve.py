"""Turns settings into a `Case` and a `Plan`. Imports no torch, to keep the command line fast."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from modescope.bench.calls import options_of, refuse_unused
from modescope.bench.mistakes import mistake, usage_error
from modescope.bench.modes import backends, freezing, regions
from modescope.bench.records import cases, input_descriptions
from modescope.bench.records.caches import CACHES
from modescope.bench.records.cases import (
    PICKLE_FOLDER,
    PICKLE_SUFFIX,
    PICKLED_TARGET,
    TORCH,
    WARM,
    Case,
    Inference,
    Kernels,
    Mode,
    Variant,
    canonical_json,
)
from modescope.bench.records.environment import DeviceFacts
from modescope.bench.records.errors import UsageError
from modescope.bench.records.optimizers import LOSSES
from modescope.bench.records.paths import CONF, ROOT
from modescope.bench.records.plans import Budget, Plan
from modescope.bench.settings import (
    OF_COMMAND,
    PHASE_SETTINGS,
    ModelSettings,
    ModeSettings,
    Settings,
    check,
    preset,
)

TARGET = re.compile(r"\w+(\.\w+)*:\w+")
"""Pattern of model.target: module:function."""

PICKLE = re.compile(r"[\w-]+\.[0-9a-f]+")
"""Pattern of model.pickle: name and hash."""

OWN_TARGET = "name a function as model.target=my_package.my_module:build"

FUSED = "fused"
"""The model whose operator model.op chooses."""

OURS = sorted({file.stem for file in CONF.glob("model/*.yaml")} - {"custom"})
"""Options of the group `model` that come with modescope: all but `custom`."""

NOT_OF_A_CASE = re.compile(rf"[+~]*(experiment|{'|'.join(OF_COMMAND)})\b")
"""Overrides that do not belong in the command that repeats a single case."""

PLANNED = [field.name for field in fields(Plan)]
"""Fields of a plan; a setting with the same name goes into the plan unchanged."""


@dataclass(frozen=True)
class Request:
    """The settings of one case as they were composed, before the device is known."""

    settings: Settings  # mode.name and budget.name list what was overridden, as in compile[...]
    baseline: ModeSettings | None
    overrides: tuple[str, ...]  # arguments of a command that measures this case alone
    sweep: bool  # whether the command has -m

    @property
    def resume(self) -> bool:
        """Whether earlier rows may be reused; by default only in a sweep."""
        resume = self.settings.resume
        return self.sweep if resume is None else resume


def request(
    config: DictConfig, overrides: Iterable[str], sweep: bool, folders: Iterable[Path] = (CONF,)
) -> Request:
    """Turns a composed configuration into a request; raises UsageError for a mistake.

    `folders` are searched for presets of modes and budgets, in this order.
    """
    settings, folders = check(config), list(folders)
    phase, budget, against = settings.phase, settings.budget, settings.baseline.mode
    natural = PHASE_SETTINGS[phase].natural_grad
    usual = preset("mode.name", "mode", settings.mode.name, folders)
    usual_budget = preset("budget.name", "budget", budget.name, folders)
    if budget.rank != usual_budget.get("rank"):
        raise usage_error(f"budget.rank={budget.rank}", f"the rank of {budget.name} is fixed")
    if usual.get("grad") == "natural":
        usual["grad"] = natural
    mode, baseline = _resolve_grad(settings.mode, natural), None
    if against != "none":
        content = preset("baseline.mode", "mode", against, folders)
        baseline = _resolve_grad(_typed_mode(content), natural)
    settings = replace(
        settings,
        mode=replace(mode, name=_name(mode, usual, settings.train.compile_optimizer)),
        budget=replace(budget, name=_name(budget, usual_budget)),
    )
    kept = tuple(word for word in overrides if not NOT_OF_A_CASE.match(word))
    return Request(settings, baseline, kept, sweep)


def _typed_mode(content: Mapping[str, Any]) -> ModeSettings:
    try:
        mode = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(ModeSettings), content))
    except OmegaConfBaseException as error:
        raise mistake(error) from error
    assert isinstance(mode, ModeSettings)
    return mode


def _resolve_grad(mode: ModeSettings, natural: str) -> ModeSettings:
    return replace(mode, grad=natural) if mode.grad == "natural" else mode


def _name(section: Any, usual: Mapping[str, Any], compiles_optimizer: bool = False) -> str:
    """Returns the section's name, followed by the values that differ from its preset.

    `usual` holds the values of the section's preset. Example: `compile[dynamic=true]`. A mode whose
    optimizer is compiled, unlike its baseline's, is told by that, too.
    """
    made = type(section)()
    expected = {
        option.name: usual.get(option.name, getattr(made, option.name)) for option in fields(made)
    }
    changed = [
        f"{key}={_text(getattr(section, key))}"
        for key, value in expected.items()
        if key != "name" and value not in (MISSING, getattr(section, key))  # MISSING: inherited
    ]
    changed += ["compile_optimizer=true"] if compiles_optimizer else []
    return f"{section.name}[{','.join(changed)}]" if changed else str(section.name)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, dict):
        return " ".join(f"{name}={_text(part)}" for name, part in value.items())
    return "null" if value is None else str(value).lower()


def resolve(request: Request, describe: Callable[[str], DeviceFacts]) -> tuple[Case, Plan]:
    """Returns the case and the plan of a request; raises UsageError for a mistake.

    `describe` returns the facts of a device by its name, and raises UsageError if there is none.
    """
    settings = request.settings
    device = settings.device
    if device == "auto":
        device = "cuda" if describe("auto").type == "cuda" else "cpu"
    facts = describe(device)
    mode = settings.mode.mode()
    dtype = settings.dtype
    if dtype == "auto":
        dtype = "bf16" if mode.autocast else "fp32"
    results_dir = settings.results_dir
    if Path.cwd() != ROOT:  # else it stays relative, as in the command that a row stores
        results_dir = str(Path(results_dir).resolve())
    model = _model(settings.model, Path(results_dir) / settings.study)
    for asked in (mode, request.baseline and request.baseline.mode()):
        known = [TORCH, *(kernels.name for kernels in model.kernels)]
        if asked and asked.kernels not in known:
            what = f"{model.name} has no such implementation (model.kernels)"
            raise usage_error(f"mode.kernels={asked.kernels}", what, known)
    shape = _shape(settings.shape, settings.model, facts.type)
    options = _options(settings)
    if settings.data != WARM:
        if settings.phase != Inference.phase or settings.calls.name == "mix":
            other = "calls=mix" if settings.phase == Inference.phase else f"phase={settings.phase}"
            what = f"is only for inference with calls of one size, not for {other}"
            raise usage_error(f"data={settings.data}", what, [WARM])
        options = Inference(data=settings.data)
    if settings.calls.name == "mix":
        options, shape = options_of(
            settings.calls, shape, bool(settings.model.sizes), settings.seed
        )
    case = Case(
        model=replace(model, inputs_json=_inputs(settings.model.inputs, shape)),
        shape_json=canonical_json(shape),
        variant=Variant(mode, dtype),
        baseline=_baseline(request, mode, dtype),
        device=device,
        threads=settings.threads,
        options=options,
    )
    same = {key: getattr(settings, key) for key in PLANNED if hasattr(settings, key)}
    compiles = backends.compiles_here(mode)
    cache = CACHES[settings.compile_cache]
    if compiles and cache.backend:
        _check_saved_mode(mode, settings.compile_cache)
        case = replace(case, variant=Variant(replace(mode, compile=cache.backend), dtype))
    if settings.starts and settings.replicates > 1:
        what = "these are processes themselves, so a case has them once; leave out replicates"
        raise usage_error(f"replicates={settings.replicates} with starts={settings.starts}", what)
    own = settings.starts or cache.is_saved  # what does not compile has no cache of the compiler
    changed = {
        "compile_cache": settings.compile_cache if compiles or not own else "cold",
        "budget": Budget(**asdict(settings.budget)),
        "replicate": 0,
        "explain": _text(settings.explain),
        "results_dir": results_dir,
        "trace_max_bytes": round(settings.trace_max_mb * 1e6),
        "traces_max_bytes": round(settings.traces_max_mb * 1e6),
    }
    return case, Plan(**{**same, **changed})


def _check_saved_mode(mode: Mode, cache: str) -> None:
    """Raises UsageError if `mode` is not what this state of caches saves."""
    if (
        mode.compile != "default"
        or mode.backend
        or regions.are_asked(mode)
        or freezing.is_asked(mode)
    ):
        what = f"saves what torch.compile makes of a whole model, and mode={mode.name} is another"
        raise usage_error(f"compile_cache={cache}", f"{what}; use mode=compile")


def _baseline(request: Request, mode: Mode, dtype: str) -> Variant | None:
    if request.baseline is None:
        return None
    default = "fp32" if mode.autocast and not request.baseline.autocast else dtype
    return Variant(request.baseline.mode(), request.settings.baseline.dtype or default)


def _options(settings: Settings) -> cases.PhaseOptions:
    """Returns the options of the phase; raises UsageError if options of another phase are set."""
    refuse_unused(settings.calls, settings.phase)
    loss, own = settings.model.loss, PHASE_SETTINGS[settings.phase]
    if loss not in LOSSES and not TARGET.fullmatch(loss):
        raise usage_error(
            f"model.loss={loss}", "no such loss", [*LOSSES, "my_package.my_module:loss"]
        )
    sections = {
        name: asdict(getattr(settings, phase.section)) if phase.section else {}
        for name, phase in PHASE_SETTINGS.items()
    }
    options = sections.pop(settings.phase)
    for name, section in sections.items():
        other = PHASE_SETTINGS[name]
        for key, value in section.items():
            if value != getattr(other.options(), key):
                typed = f"{other.section}.{key}={value}"
                raise usage_error(typed, f"no effect in phase={settings.phase}; add phase={name}")
    return own.options(**options, **{key: getattr(settings.model, key) for key in own.model_keys})


def _model(settings: ModelSettings, study: Path) -> cases.Model:
    name, target, library = settings.name, settings.target, settings.library
    pickled = _pickled(settings.pickle, study) if settings.pickle else None
    if settings.pickle and pickled:
        name, target = settings.pickle.partition(".")[0], PICKLED_TARGET
    if not target:
        raise UsageError(f"model={settings.option} has no target; {OWN_TARGET}")
    if not TARGET.fullmatch(target) or target.partition(":")[0].endswith(".py"):
        raise usage_error(f"model.target={target}", f"no name of a function; {_named(target)}")
    if settings.option in OURS and not target.startswith(cases.BUILT_IN):
        raise usage_error(
            f"model.target={target}", f"model={settings.option} has its own; use model=custom"
        )
    built_in = target.startswith(cases.BUILT_IN)
    if built_in and settings.option not in OURS:
        raise usage_error(f"model.name={name}", "the name of a model is fixed")
    if settings.op and settings.option != FUSED:
        raise usage_error(
            f"model.op={settings.op}", f"model={settings.option} has none; use model={FUSED}"
        )
    shown = name if pickled or built_in else f"custom:{target}"
    return cases.Model(
        name=":".join(filter(None, (library, name if library else shown, settings.op))),
        target=target,
        args_json=canonical_json(settings.kwargs),
        fullgraph=settings.fullgraph,
        batch_dim=settings.batch_dim,
        architecture=name if library else settings.op,
        pickled=pickled,
        kernels=tuple(
            _kernels(name, made, study) for name, made in sorted(settings.kernels.items())
        ),
    )


def _named(target: str) -> str:
    """Returns the function that may be meant by a path and its name, or how one is named."""
    before, _, name = target.rpartition(":" if ":" in target else ".")
    module = before.removeprefix("./").removesuffix(".py").replace("/", ".")
    meant = f"{module}:{name}"
    known = TARGET.fullmatch(meant) and name != "py"
    return f"did you mean {meant}?" if known else OWN_TARGET


def _kernels(name: str, made: Any, study: Path) -> Kernels:
    """Returns the implementation `name`; `made` is its target, or a file like model.pickle."""
    typed = f"model.kernels.{name}={made}"
    if name == TORCH:
        raise usage_error(typed, f"{TORCH} is the model itself; choose another name")
    if PICKLE.fullmatch(str(made)):
        return Kernels(name, PICKLED_TARGET, _pickled(made, study))
    if not TARGET.fullmatch(str(made)):
        raise usage_error(typed, "no name of a function, such as my_package.my_module:build")
    return Kernels(name, made)


def _pickled(named: str, study: Path) -> cases.Pickled:
    file = study / PICKLE_FOLDER / f"{named}{PICKLE_SUFFIX}"
    if not PICKLE.fullmatch(named) or not file.is_file():
        known = [pickle.stem for pickle in sorted(file.parent.glob(f"*{PICKLE_SUFFIX}"))]
        raise usage_error(
            f"model.pickle={named}", f"no such model in {study / PICKLE_FOLDER}", known
        )
    return cases.Pickled(str(file), named.partition(".")[2])


def _inputs(described: Any, shape: dict[str, int]) -> str | None:
    if described is None:
        return None
    for name in input_descriptions.size_names(input_descriptions.parse(described)):
        if name not in shape:
            raise UsageError(
                f"{input_descriptions.KEY}: no size is called {name}; set it, as in "
                f"++shape.{name}=8"
            )
    return canonical_json(described)


def _shape(shape: dict[str, Any], model: ModelSettings, device_type: str) -> dict[str, int]:
    size, name = shape["size"], model.option
    if size not in (model.sizes or ["default"]):
        raise usage_error(
            f"shape={size}", f"model={name} has no such size", model.sizes or ["default"]
        )
    sizes = dict(model.sizes[size][device_type]) if model.sizes else {}
    typed = {key: value for key, value in shape.items() if key != "size" and value is not None}
    if "scale" in typed:
        if model.scale is None:
            raise usage_error(f"shape.scale={typed['scale']}", f"model={name} has no size to scale")
        if model.scale in typed:
            raise UsageError(f"shape.scale and shape.{model.scale} set the same size; give one")
        typed[model.scale] = typed.pop("scale")
    for key, value in typed.items():
        if model.sizes and key not in sizes:
            raise usage_error(f"shape.{key}={value}", f"no size of model={name}", sizes)
        sizes[key] = int(value)
    for key in sorted({*sizes} & {*model.kwargs}):
        raise UsageError(f"model.kwargs.{key}: shape.{key} sets it; give one of them")
    return sizes
