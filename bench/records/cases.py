"""`Case`: the work that is measured; `Plan`: how it is measured. Standard library only.

Also what they are made of: the optimizers and losses of training, the errors that are normal at
each dtype, the files of pickled models, and the canonical JSON that ids are hashes of.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar


@dataclass(frozen=True)
class CompileOptions:
    """Arguments of torch.compile beside its mode, under the same names.

    A new option is a new field with a default. It becomes a key of `mode`; values other than the
    default enter the case id, the mode's name and the column `compile_options`. A field's metadata
    may list the allowed values: {"choices": (...)}.
    """

    dynamic: bool | None = None  # symbolic sizes; None: only for sizes that change between calls


@dataclass(frozen=True)
class Mode:
    """An execution mode: its name, four independent axes, and the options of `compile`."""

    name: str
    grad: str  # enabled | no_grad | inference_mode
    autocast: bool = False
    compile: str = "none"  # none | a mode of a backend (bench.steps.backends)
    graph: bool = False  # captured by hand in a CUDA graph
    options: CompileOptions = CompileOptions()

    @property
    def compiles(self) -> bool:
        """Whether anything is compiled."""
        return self.compile != "none"

    def eager_mode(self, grad: str | None = None) -> Mode:
        """The eager mode with the same autocast, and the same grad axis unless `grad` is given."""
        return Mode(self.name, grad or self.grad, self.autocast)


PLAIN_EAGER = {"autocast": False, "compile_mode": "none", "graph": False}
"""The axes of plain eager apart from grad: no autocast, nothing compiled or captured."""


@dataclass(frozen=True)
class Variant:
    """A mode at a precision: what is timed, as the case or as its baseline."""

    mode: Mode
    dtype: str  # fp32 | tf32 | bf16 | fp16


BUILT_IN = "modescope.models."
"""Prefix of the built-in models' targets."""


@dataclass(frozen=True)
class Pickled:
    """A module, or a function that builds one, saved by another process (`modescope.compare`)."""

    file: str
    content: str  # hash of what the file holds


@dataclass(frozen=True)
class Model:
    """Where a model comes from and how it may be compiled."""

    # mlp, transformer, ..., <library>:<architecture>, custom:<target>, or the name of a pickled one
    name: str
    target: str  # importable "module:function"
    args_json: str = "{}"  # the user's keyword arguments, canonical JSON
    fullgraph: bool = True
    batch_dim: int | None = 0
    inputs_json: str | None = None  # described inputs, canonical JSON; None: the target's own
    architecture: str | None = None  # one of the library's, which the target gets as `name`
    pickled: Pickled | None = None  # the model, in place of what the target builds

    @property
    def origin(self) -> str:
        """What builds the model, as messages name it."""
        return self.name if self.pickled else self.target


@dataclass(frozen=True)
class PhaseOptions:
    """Options of a phase; a case and its baseline share them."""

    phase: ClassVar[str]
    key: ClassVar[str]
    """Key of the options in the content that case ids are hashed from."""

    def columns(self) -> dict[str, Any]:
        """The options as columns of `Work`."""
        return {}

    def model_options(self) -> PhaseOptions:
        """Only the options that decide whether a model can be measured; others at defaults."""
        return type(self)()


@dataclass(frozen=True)
class Inference(PhaseOptions):
    """Options of a forward: a step is one call, or one pass over calls of different sizes."""

    phase: ClassVar[str] = "inference"
    key: ClassVar[str] = "calls"

    sizes_json: str | None = None  # of each call, canonical JSON: {"seq":[137,16,...]}
    pad_json: str | None = None  # what sizes are padded to, for the case alone: {"seq":[64,128]}

    def columns(self) -> dict[str, Any]:
        """The sizes of the calls; null where all have those of the case."""
        return {"calls": self.sizes_json, "calls_pad": self.pad_json}

    def calls(self, padded: bool = False) -> list[dict[str, int]]:
        """The sizes that each call sets, in order; none where calls do not vary."""
        sizes = json.loads(self.sizes_json or "{}")
        buckets = json.loads(self.pad_json or "{}") if padded else {}
        columns = {
            name: [
                min((b for b in buckets.get(name, ()) if b >= each), default=each) for each in of
            ]
            for name, of in sizes.items()
        }
        return [
            dict(zip(columns, each, strict=True)) for each in zip(*columns.values(), strict=True)
        ]


def size_name(sizes: Mapping[str, int]) -> str:
    """The name of a call by its sizes, such as `seq=137`."""
    return " ".join(f"{name}={size}" for name, size in sizes.items())


@dataclass(frozen=True)
class Training(PhaseOptions):
    """Options of a training step."""

    phase: ClassVar[str] = "train"
    key: ClassVar[str] = "training"

    optimizer: str = "sgd"  # sgd | adamw
    implementation: str = "default"  # torch's own choice | for_loop | foreach | fused
    capturable: bool | None = None  # None: where the step is captured
    lr: float = 1e-3
    scaler: bool | None = None  # whether a GradScaler scales the loss; None: for autocast to fp16
    loss: str = "mse"  # mse | output | importable "module:function"
    capture: str = "step"  # step | forward_backward: what mode.graph captures
    checkpoint: str = "none"  # none | children | model: modules whose activations are recomputed
    activation_memory_budget: float | None = None  # the compiler's; None: torch's default

    def columns(self) -> dict[str, Any]:
        """The optimizer, and all options that differ from their defaults."""
        return {"optimizer": self.optimizer, "training": canonical_json(non_defaults(self))}

    def model_options(self) -> Training:
        """The loss, which has to fit the model."""
        return Training(loss=self.loss)

    def scales(self, variant: Variant) -> bool:
        """Whether `variant` scales its loss."""
        usual = variant.mode.autocast and variant.dtype == "fp16"
        return usual if self.scaler is None else self.scaler

    def captures_step(self, mode: Mode) -> bool:
        """Whether the optimizer runs inside a CUDA graph."""
        return mode.graph and self.capture == "step"


@dataclass(frozen=True)
class Case:
    """The work: all that decides what is computed and how, nothing about how it is measured."""

    model: Model
    shape_json: str  # resolved sizes, canonical JSON, e.g. {"batch":8,"seq":128}
    variant: Variant
    baseline: Variant | None
    device: str  # cpu | cuda | cuda:1
    threads: int
    options: PhaseOptions = Inference()

    @property
    def phase(self) -> str:
        """`inference` or `train`."""
        return self.options.phase

    @property
    def compiles(self) -> bool:
        """Whether the variant or its baseline compiles anything."""
        return any(each.mode.compiles for each in (self.variant, self.baseline) if each)

    @property
    def shape(self) -> dict[str, int]:
        """Resolved sizes by name."""
        sizes: dict[str, int] = json.loads(self.shape_json)
        return sizes

    @property
    def largest_shape(self) -> dict[str, int]:
        """The sizes that the model is built with: `shape`, or the largest of padded calls."""
        calls = self.options.calls(padded=True) if isinstance(self.options, Inference) else []
        largest = {name: max(each[name] for each in calls) for name in (calls or [{}])[0]}
        return {**self.shape, **largest}

    @property
    def device_type(self) -> str:
        """`cpu` or `cuda`."""
        return self.device.partition(":")[0]

    @property
    def case_id(self) -> str:
        """Hash of the work. Options at their defaults are left out, so new options keep old ids.

        The names of model and mode are left out too, because target and axes identify the work.
        `fullgraph` counts only where something is compiled.
        """
        options = {self.options.key: non_defaults(self.options)}
        if self.phase == Inference.phase and self.options == Inference():
            options = {}
        model = {**non_defaults(self.model), "target": _target_in_ids(self.model.target)}
        del model["name"]
        if "args_json" in model:
            model["args"] = json.loads(model.pop("args_json"))
        if "inputs_json" in model:
            model["inputs"] = json.loads(model.pop("inputs_json"))
        if self.model.pickled is not None:
            model["pickled"] = self.model.pickled.content  # wherever the file lies
        if not self.compiles:
            model.pop("fullgraph", None)
        return short_hash(
            {
                "model": model,
                "shape": self.shape,
                "phase": self.phase,
                **options,
                "variant": _axes(self.variant),
                "baseline": _axes(self.baseline) if self.baseline else None,
                "device": self.device_type,
                "threads": self.threads,
            }
        )


def _target_in_ids(target: str) -> str:
    """Built-in models lose `modescope.`, as in older ids; a user's `models` gets `custom:`."""
    if target.startswith("models."):
        return f"custom:{target}"
    return target.removeprefix("modescope.") if target.startswith(BUILT_IN) else target


def _axes(variant: Variant) -> dict[str, Any]:
    axes = {**non_defaults(variant.mode), "dtype": variant.dtype}
    del axes["name"]
    axes.pop("options", None)
    options = non_defaults(variant.mode.options)
    return {**axes, "compile_options": options} if options else axes


@dataclass(frozen=True)
class Budget:
    """How much time measuring a case may take. Times in seconds."""

    name: str
    rank: int  # rows of a larger rank may be reused for a smaller one
    warmup_min_s: float
    warmup_max_s: float
    block_s: float  # length of one timed block
    pilot_rounds: int
    min_rounds: int
    max_rounds: int
    half_width: float  # target for the relative half-width of the speedup's interval
    timed_max_s: float  # cap on the paired rounds
    clock_rounds: int  # rounds in which all clocks are read
    slow_half_width: float | None = (
        None  # target where the pilot shows a clear loss; None: half_width
    )

    @property
    def settings(self) -> str:
        """The values of its file but name and rank, canonical JSON."""
        others = ("name", "rank", "slow_half_width")
        return canonical_json({k: v for k, v in asdict(self).items() if k not in others})


@dataclass(frozen=True)
class Plan:
    """How a case is measured; none of this is part of `case_id`."""

    budget: Budget
    seed: int
    replicate: int  # number of this process among the case's fresh ones, from 0
    compile_cache: str  # cold | warm
    timeout_s: float
    study: str
    results_dir: str
    profile: bool  # run the passes that profile the case and count its work
    memory: bool  # run the memory passes
    trace_max_bytes: int  # of one profiler trace or memory snapshot; 0: none is kept
    traces_max_bytes: int  # of all traces and snapshots of the study
    max_error: float | None = None  # relative error that the user accepts; None: the usual limit
    fills_cache: bool = False  # ends after a first call whose code the compiler's cache lacked
    latency_alone: bool = False  # neither the other clocks nor the first call's time matter
    untuned: str | None = None  # mode of the sweep that this case repeats if it tunes nothing

    @property
    def study_folder(self) -> Path:
        """The folder of the study's results."""
        return Path(self.results_dir) / self.study


@dataclass(frozen=True)
class Optimizer:
    """An optimizer of torch.optim whose state is made of zeros, which `Trainer.restore` writes."""

    torch_name: str
    counts_steps: bool  # on the host, unless capturable
    follows_size: bool
    """Whether small gradients make small updates; if not, a rounding error makes a full update."""


OPTIMIZERS = {
    "sgd": Optimizer("SGD", counts_steps=False, follows_size=True),
    "adamw": Optimizer("AdamW", counts_steps=True, follows_size=False),
}

IMPLEMENTATIONS: dict[str, dict[str, bool]] = {
    "default": {},  # torch chooses: foreach on a GPU, a loop over parameters on a CPU
    "for_loop": {"foreach": False, "fused": False},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
}
"""Arguments of the optimizer."""


@dataclass(frozen=True)
class Loss:
    """A built-in loss."""

    target: str  # importable "module:function"
    compares: bool  # forward's outputs with random targets


LOSSES = {
    "mse": Loss("modescope.bench.steps.training.losses:mse", compares=True),
    "output": Loss("modescope.bench.steps.training.losses:returned_loss", compares=False),
}


TOLERANCE = {"fp32": 1e-4, "tf32": 1e-3, "bf16": 2e-2, "fp16": 5e-3}
"""Relative RMS error that a healthy eager run stays well under, per dtype."""

EAGER_LIMIT = 5.0

EPS = {"fp32": 2**-23, "tf32": 2**-10, "bf16": 2**-7, "fp16": 2**-10}
"""Distance from 1 to the next number, in the dtype that products are computed in."""

ROUNDING_FACTOR = 3.0
"""Times the largest error of a few perturbed runs: the error that a correct step may have. Eager
and compiled steps of seven models had at most 1.5 times."""

SCALE_FACTOR = 5.0
"""Times the root mean square of perturbed runs: how far a correct gradient's scale may be off.
Where rounding switched ReLUs, eager steps had at most 1.1 times."""


def eager_is_sane(error: float, dtype: str) -> bool:
    """Whether plain eager's error at this dtype is small enough to compare modes with it."""
    return math.isfinite(error) and error <= EAGER_LIMIT * TOLERANCE[dtype]


PICKLE_FOLDER, PICKLE_SUFFIX = "model", ".pt"
"""Folder of a study, and the suffix of its files; before it a name and a hash: `Net.<hash>`."""

PICKLED_TARGET = "modescope.bench.steps.pickled_model:load"
"""Target of all such models."""

MODEL, INPUTS = "model", "inputs"
"""Keys of such a file. INPUTS is None where the function under MODEL returns them."""


def canonical_json(value: Any) -> str:
    """`value` as JSON that is equal whenever the value is: keys sorted, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def short_hash(value: Any) -> str:
    """16 hexadecimal digits that are equal whenever `value`, which JSON can hold, is."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:16]


def non_defaults(options: Any) -> dict[str, Any]:
    """The record's fields without those at their defaults, so that new options change no id."""
    return {
        field.name: getattr(options, field.name)
        for field in fields(options)
        if field.default is MISSING or getattr(options, field.name) != field.default
    }
