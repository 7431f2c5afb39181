"""`Case`: the work that is measured. Standard library only.

The module also has its parts, the names of files with pickled models, and the canonical JSON that
ids are hashed from.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, ClassVar

KERNELS = "kernels"
"""The axis of a mode (`bench.modes.axes`) that chooses among implementations of its model."""

TORCH = "torch"
"""The implementation that a model's own target builds."""

QUANTIZE = "quantize"
"""The axis of a mode that gives weights fewer bits (`bench.modes.quantizing`)."""


@dataclass(frozen=True)
class Mode:
    """An execution mode: its name, its independent axes, and what its backend is told."""

    name: str
    grad: str  # enabled | no_grad | inference_mode
    autocast: bool = False
    compile: str = "none"  # none | a mode of a backend (bench.modes.backends)
    graph: bool = False  # captured by hand in a CUDA graph
    dynamic: bool | None = None  # symbolic sizes; None: only for sizes that change between calls
    options: str = "{}"  # of the compiler (Inductor), canonical JSON; they add to those of its mode
    axes: tuple[tuple[str, str | bool], ...] = ()  # further ones that are set (bench.modes.axes)
    backend: str | None = None  # of torch.compile; None: Inductor

    @property
    def compiles(self) -> bool:
        """Whether torch.compile or another compiler is used."""
        return self.compile != "none"

    @property
    def compile_options(self) -> dict[str, Any]:
        """The arguments of torch.compile, other than `mode`, that are not at their defaults."""
        given = {
            "backend": self.backend,
            "dynamic": self.dynamic,
            "options": json.loads(self.options) or None,
        }
        return {name: value for name, value in given.items() if value is not None}

    @property
    def kernels(self) -> str:
        """The implementation of the model that is called: `TORCH`, or one of `Model.kernels`."""
        return str(dict(self.axes).get(KERNELS, TORCH))

    @property
    def quantize(self) -> str | None:
        """How weights have fewer bits: a name of `quantizing.QUANTIZERS`; None: they have all."""
        found = dict(self.axes).get(QUANTIZE)
        return None if found is None else str(found)

    def of_torch(self) -> Mode:
        """Returns this mode with the implementation of the model's own target."""
        return self.without(KERNELS)

    def without(self, name: str) -> Mode:
        """Returns this mode with the axis `name` at its default."""
        return replace(self, axes=tuple(axis for axis in self.axes if axis[0] != name))

    def eager_mode(self, grad: str | None = None) -> Mode:
        """Returns this mode neither compiled nor captured, with `grad` unless that is None."""
        return Mode(self.name, grad or self.grad, self.autocast, axes=self.axes)


PLAIN_EAGER = {"autocast": False, "compile_mode": "none", "graph": False, "axes": None}
"""The columns of plain eager's axes, except grad: no autocast, nothing compiled or captured, and no
further axis set."""


@dataclass(frozen=True)
class Variant:
    """A mode at a precision. A case has one variant, and its baseline has another."""

    mode: Mode
    dtype: str  # fp32 | tf32 | bf32 | bf16 | fp16


BUILT_IN = "modescope.models."
"""The beginning of the target of every model that comes with modescope."""


@dataclass(frozen=True)
class Pickled:
    """A module, or a function that builds one, saved by another process (`modescope.compare`)."""

    file: str
    content: str  # hash of the file's content


@dataclass(frozen=True)
class Kernels:
    """Another implementation of a model, which `mode.kernels` chooses by its name."""

    name: str
    target: str  # importable "module:function", which takes the arguments of the model's own
    pickled: Pickled | None = None  # the file that the target loads, if it is a saved model


@dataclass(frozen=True)
class Model:
    """Where a model comes from and how it may be compiled."""

    # mlp, ..., fused:<op>, <library>:<architecture>, custom:<target>, or the name of a pickled one
    name: str
    target: str  # importable "module:function"
    args_json: str = "{}"  # the user's keyword arguments, canonical JSON
    fullgraph: bool = True
    batch_dim: int | None = 0
    inputs_json: str | None = None  # model.inputs, canonical JSON; None: the target returns inputs
    architecture: str | None = None  # of a library, or model.op; the target gets it as `name`
    pickled: Pickled | None = None  # the file that the target loads, if it is a saved model
    kernels: tuple[Kernels, ...] = ()  # further implementations, with the same state_dict

    def implementation(self, name: str) -> Model:
        """Returns the model that the implementation `name` of `kernels` builds."""
        [found] = (kernels for kernels in self.kernels if kernels.name == name)
        own = replace(self, target=found.target, pickled=found.pickled, kernels=())
        return replace(own, name=found.name) if found.pickled else own

    @property
    def origin(self) -> str:
        """What messages call the model: its target, or the name of a pickled model."""
        return self.name if self.pickled else self.target


WARM, COLD, COLD_WEIGHTS = DATA = ("warm", "cold", "cold_weights")
"""What is evicted from caches before each timed call: nothing, all that it reads, or parameters and
buffers alone, as activations are just written in a network."""


@dataclass(frozen=True)
class PhaseOptions:
    """Options of a phase (inference or train), which a case and its baseline share."""

    phase: ClassVar[str]
    key: ClassVar[str]
    """The key of the options in the JSON that case ids are hashed from."""

    @property
    def data(self) -> str:
        """What is evicted from caches before each timed step, one of `DATA`."""
        return WARM

    def columns(self) -> dict[str, Any]:
        """Returns the options as columns of `results.Work`."""
        return {}

    @property
    def compiles(self) -> bool:
        """Whether something beside the model is compiled."""
        return False

    def of_baseline(self) -> PhaseOptions:
        """Returns the options of the baseline of a case with these."""
        return self

    def model_options(self) -> PhaseOptions:
        """Returns a copy that keeps only the options on which it depends whether the model can run.

        By default none; `Training` keeps the loss. All others are at their defaults.
        """
        return type(self)()


@dataclass(frozen=True)
class Inference(PhaseOptions):
    """Options of inference. A step is a call, or a pass over calls of different sizes."""

    phase: ClassVar[str] = "inference"
    key: ClassVar[str] = "calls"

    sizes_json: str | None = None  # sizes of each call, canonical JSON: {"seq":[137,16,...]}
    pad_json: str | None = None  # sizes that the case (not its baseline) pads to: {"seq":[64,128]}
    data: str = WARM  # what a call finds in no cache: warm (nothing) | cold | cold_weights

    def columns(self) -> dict[str, Any]:
        """Returns sizes and data as columns; null if all calls have the case's shape, and warm."""
        data = None if self.data == WARM else self.data
        return {"calls": self.sizes_json, "calls_pad": self.pad_json, "data": data}

    def calls(self, padded: bool = False) -> list[dict[str, int]]:
        """Returns for each call the sizes that differ between calls, by name; empty if none differ.

        With `padded`, these are the sizes after padding.
        """
        sizes = json.loads(self.sizes_json or "{}")
        buckets = json.loads(self.pad_json or "{}") if padded else {}
        columns = {
            name: [
                min((b for b in buckets.get(name, ()) if b >= size), default=size)
                for size in listed
            ]
            for name, listed in sizes.items()
        }
        return [
            dict(zip(columns, values, strict=True))
            for values in zip(*columns.values(), strict=True)
        ]


def size_name(sizes: Mapping[str, int]) -> str:
    """Returns the name of a call with these sizes, such as `seq=137`."""
    return " ".join(f"{name}={size}" for name, size in sizes.items())


@dataclass(frozen=True)
class Training(PhaseOptions):
    """Options of a training step."""

    phase: ClassVar[str] = "train"
    key: ClassVar[str] = "training"

    optimizer: str = "sgd"  # sgd | adamw
    implementation: str = "default"  # torch's own choice | for_loop | foreach | fused
    capturable: bool | None = None  # the optimizer's; None: true where the step is captured
    lr: float = 1e-3
    scaler: bool | None = None  # whether a GradScaler scales the loss; None: for autocast to fp16
    loss: str = "mse"  # mse | output | importable "module:function"
    capture: str = "step"  # step | forward_backward: what mode.graph captures
    checkpoint: str = "none"  # none | children | model: modules whose activations are recomputed
    activation_memory_budget: float | None = None  # the compiler's; None: torch's default
    compile_optimizer: bool = False  # whether torch.compile compiles the step of the case's

    def columns(self) -> dict[str, Any]:
        """Returns the optimizer, and the options that are not at their defaults, as columns."""
        return {"optimizer": self.optimizer, "training": canonical_json(non_defaults(self))}

    @property
    def compiles(self) -> bool:
        """Whether the optimizer's step is compiled."""
        return self.compile_optimizer

    def of_baseline(self) -> Training:
        """Returns these options without compiling the optimizer, so that its gain shows."""
        return replace(self, compile_optimizer=False)

    def model_options(self) -> Training:
        """Returns a copy with only the loss set, because a loss has to fit the model."""
        return Training(loss=self.loss)

    def scales(self, variant: Variant) -> bool:
        """Whether a GradScaler scales the loss of `variant`."""
        usual = variant.mode.autocast and variant.dtype == "fp16"
        return usual if self.scaler is None else self.scaler

    def captures_step(self, mode: Mode) -> bool:
        """Whether the whole step, optimizer included, is captured in one CUDA graph."""
        return mode.graph and self.capture == "step"


@dataclass(frozen=True)
class Case:
    """The work that is measured: what is computed, and in which mode.

    How it is measured is a `plans.Plan`.
    """

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
    def variants(self) -> tuple[Variant, ...]:
        """The variant, and that of the baseline if there is one."""
        return (self.variant, self.baseline) if self.baseline else (self.variant,)

    @property
    def kernels(self) -> dict[str, str]:
        """The implementations of the model that are called beside its own: what builds each.

        That is a target, or the hash of a saved model.
        """
        called = {variant.mode.kernels for variant in self.variants}
        return {
            kernels.name: kernels.pickled.content if kernels.pickled else kernels.target
            for kernels in self.model.kernels
            if kernels.name in called
        }

    @property
    def compiles(self) -> bool:
        """Whether the variant or its baseline compiles anything."""
        return self.options.compiles or any(variant.mode.compiles for variant in self.variants)

    @property
    def alternates(self) -> bool:
        """Whether case and baseline need other switches for the products of fp32 (`SWITCHED`)."""
        dtypes = {variant.dtype for variant in self.variants}
        return bool(SWITCHED & dtypes) and len(dtypes) > 1

    @property
    def shape(self) -> dict[str, int]:
        """The resolved sizes by name."""
        sizes: dict[str, int] = json.loads(self.shape_json)
        return sizes

    @property
    def largest_shape(self) -> dict[str, int]:
        """The sizes that the model is built with.

        A size that varies between calls has its largest value, after padding.
        """
        calls = self.options.calls(padded=True) if isinstance(self.options, Inference) else []
        largest = {name: max(call[name] for call in calls) for name in (calls or [{}])[0]}
        return {**self.shape, **largest}

    @property
    def device_type(self) -> str:
        """`cpu` or `cuda`."""
        return self.device.partition(":")[0]

    @property
    def case_id(self) -> str:
        """Hash of the work, without options at their defaults, so that new options keep old ids.

        The names of model and mode are left out too, because target and axes identify the work.
        `fullgraph` counts only if something is compiled.
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
        model.pop(KERNELS, None)
        if self.kernels:
            model[KERNELS] = {n: _target_in_ids(made) for n, made in self.kernels.items()}
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
    """Returns the target as case ids contain it.

    A built-in target loses `modescope.`, as in older ids. A target in a user's package called
    `models` gets the prefix `custom:`.
    """
    if target.startswith("models."):
        return f"custom:{target}"
    return target.removeprefix("modescope.") if target.startswith(BUILT_IN) else target


def _axes(variant: Variant) -> dict[str, Any]:
    axes = {**non_defaults(variant.mode), "dtype": variant.dtype}
    del axes["name"]
    for name in ("backend", "dynamic", "options"):
        axes.pop(name, None)
    options = variant.mode.compile_options
    return {**axes, "compile_options": options} if options else axes


SWITCHED = {"tf32", "bf32"}
"""The dtypes in which fp32 is multiplied otherwise, which is set for the whole process."""


PICKLE_FOLDER, PICKLE_SUFFIX = "model", ".pt"
"""Folder of a study with its pickled models, and the suffix of such a file: `Net.<hash>.pt`."""

PICKLED_TARGET = "modescope.bench.model.pickled_model:load"
"""Target of every pickled model: it loads the file."""

MODEL, INPUTS = "model", "inputs"
"""Keys of a pickled model's file. Under MODEL is a module or a function that builds one; under
INPUTS the inputs, None where that function returns them."""


def canonical_json(value: Any) -> str:
    """Returns `value` as JSON with sorted keys and no spaces: equal values have equal texts."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def short_hash(value: Any) -> str:
    """Returns the first 16 hexadecimal digits of the SHA-256 of `value` as canonical JSON."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:16]


def non_defaults(options: Any) -> dict[str, Any]:
    """Returns the fields of the dataclass instance `options` that are not at their defaults."""
    return {
        field.name: getattr(options, field.name)
        for field in fields(options)
        if field.default is MISSING or getattr(options, field.name) != field.default
    }
