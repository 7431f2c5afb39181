"""The studies that a GPU measures, as one table: what is swept, in order of weight.

Further studies follow, for those who have more time; each is a study of its own, so that what they
add never mixes with what was measured first.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

SMALL, LARGE = "small", "default"
"""The two sizes of a model; `shape=default` is the one of the kept rows."""

EAGER = ("eager", "no_grad", "inference_mode")
GRAPHS = ("reduce-overhead", "cuda-graph", "compile-cuda-graph")
COMPILED = (
    *("compile", "compile-dynamic", "compile-static", "amp-compile", "reduce-overhead"),
    "compile-cuda-graph",
)
TUNED = ("max-autotune", "max-autotune-no-cudagraphs")

SMOKE = ("budget=smoke", "compile_cache=warm", "memory=false", "trace_max_mb=0")
SMOKE_SHAPES = {
    "mlp": ("shape.width=32",),
    "transformer": ("shape.width=32", "shape.heads=2", "shape.seq=8"),
    "decode": ("shape.width=32", "shape.heads=2", "shape.seq=8", "shape.vocab=64"),
    "pointwise": ("shape.ops=4",),
    "resnet": ("shape.pixels=32", "shape.width=8", "shape.depth=1"),
    "fused": ("shape.width=32", "shape.seq=8"),
}
"""Sizes that a CPU measures in a second; every model of a study has some."""

OPERATORS = "model.op=rmsnorm,swiglu,rope,layernorm_gelu,cross_entropy"
TRITON = "mode.kernels=torch,triton"

NOT_EMULATED = ("compile-cuda-graph", "reduce-overhead")
"""Modes that the pretended GPU cannot run: it emulates no graphs of compiled code."""


@dataclass(frozen=True)
class CaseKind:
    """A case, as far as its duration depends on it."""

    model: str
    mode: str
    dtype: str
    shape: str
    phase: str

    @property
    def work(self) -> str:
        """What is done before timing: uncompiled, compiled or tuned."""
        name = self.mode.rpartition("/")[2]
        return "tuned" if name in TUNED else "compiled" if name in COMPILED else "uncompiled"


@dataclass(frozen=True)
class Sweep:
    """All combinations of models, sizes, dtypes and modes, with the same further settings."""

    models: tuple[str, ...]
    modes: tuple[str, ...]
    dtypes: tuple[str, ...] = ("fp32",)
    shapes: tuple[str, ...] = (SMALL,)
    phase: str = "inference"
    replicates: int = 1
    settings: tuple[str, ...] = ()
    times: int = 1  # cases of each combination, if `settings` sweep something, too

    def cases(self) -> Iterator[CaseKind]:
        """Yields every case, once for each replicate."""
        for model, shape, dtype, mode in itertools.product(
            self.models, self.shapes, self.dtypes, self.modes
        ):
            yield from [CaseKind(model, mode, dtype, shape, self.phase)] * (
                self.replicates * self.times
            )

    def words(self) -> list[str]:
        """The settings for `run.py -m`."""
        swept = {
            "model": self.models, "shape": self.shapes, "dtype": self.dtypes, "mode": self.modes,
        }  # fmt: skip
        words = [f"{key}={','.join(values)}" for key, values in swept.items()]
        if self.phase != "inference":
            words.append(f"phase={self.phase}")
        if self.replicates > 1:
            words.append(f"replicates={self.replicates}")
        return [*words, *self.settings]

    def smoke(self) -> Sweep:
        """As much of it as a pretended GPU can run within seconds: one model in one mode."""
        modes = [mode for mode in self.modes if mode not in NOT_EMULATED and mode not in TUNED]
        uncompiled = [mode for mode in modes if mode not in COMPILED]
        # kernels in Triton need a GPU
        settings = [word for word in self.settings if word not in (OPERATORS, TRITON)]
        # without CUDA torch's GradScaler of fp16 is switched off
        dtypes = ["bf16" if dtype == "fp16" else dtype for dtype in self.dtypes]
        return replace(
            self,
            models=self.models[:1],
            modes=tuple((uncompiled or modes or ["eager"])[:1]),
            shapes=self.shapes[:1],
            dtypes=tuple(dtypes[:2]),
            settings=(*settings, *SMOKE_SHAPES[self.models[0]]),
            times=1,
        )


@dataclass(frozen=True)
class Study:
    """Sweeps whose rows lie in one folder."""

    name: str
    sweeps: tuple[Sweep, ...]
    further: bool = False  # only where time is left


ADAMW = ("train.optimizer=adamw",)
BLOCKS = ("mlp", "transformer")
PRECISIONS = ("tf32", "bf16", "fp32")
ALL_MODES = (*EAGER, "compile", *GRAPHS)

STUDIES = (
    Study(
        "graphs",  # many short kernels: the only models for which graphs matter
        (
            Sweep(("decode",), ("cuda-graph", "compile", *GRAPHS[::2]), ("bf16",)),
            Sweep(("pointwise",), ("cuda-graph",)),
            Sweep(("resnet",), ("cuda-graph",), ("tf32",)),
        ),
    ),
    Study(
        "precisions",
        (
            Sweep(BLOCKS, ("inference_mode",), ("bf16", "fp32")),
            Sweep(BLOCKS, ("inference_mode",), ("tf32", "bf16"), (LARGE,)),
            Sweep(BLOCKS, ("tf32/eager",), ("tf32",), (LARGE,)),  # the link to fp32
            Sweep(BLOCKS, ("cuda-graph",), ("bf16",)),
            Sweep(("transformer",), ("compile-cuda-graph",), ("bf16",)),
        ),
    ),
    Study(
        "replicates",
        (Sweep(("transformer",), ("cuda-graph",), ("bf16",), (LARGE,), replicates=3),),
    ),
    Study(
        "training",
        (
            Sweep(("mlp",), ("cuda-graph",), phase="train", settings=ADAMW),
            Sweep(
                ("mlp",), ("amp",), ("fp16",), phase="train",
                settings=(*ADAMW, "mode.graph=true", "train.implementation=fused"),
            ),
            Sweep(
                ("mlp",), ("cuda-graph",), phase="train",
                settings=(*ADAMW, "train.capture=forward_backward"),
            ),
        ),
    ),
    Study(
        "varied",
        (
            Sweep(
                ("mlp",), ("cuda-graph", "compile-dynamic"),
                settings=("calls=mix", "calls.sizes={batch: [1, 32]}", "model.fullgraph=false"),
            ),
        ),
    ),
    Study(
        "kernels",  # by hand in Triton, beside what Inductor generates
        (
            Sweep(
                ("fused",), ("inference_mode", "compile", "cuda-graph"), ("bf16",), (LARGE,),
                settings=(OPERATORS, TRITON), times=10,
            ),
            Sweep(
                ("fused",), ("eager", "compile"), ("fp32",), (LARGE,), phase="train",
                settings=(OPERATORS, TRITON), times=10,
            ),
        ),
        further=True,
    ),
    Study("all-modes-small", (Sweep(BLOCKS, ALL_MODES, PRECISIONS),), further=True),
    Study(
        "all-modes-large", (Sweep(BLOCKS, ALL_MODES, PRECISIONS, (LARGE,)),), further=True,
    ),
    Study(
        "replicates-compiled",
        (Sweep(("transformer",), GRAPHS[::2], ("bf16",), (LARGE,), replicates=3),),
        further=True,
    ),
    Study(
        "training-compiled",
        (
            Sweep(
                BLOCKS, ("amp", "compile", "reduce-overhead", "compile-cuda-graph"), ("bf16",),
                phase="train", settings=ADAMW,
            ),
            Sweep(
                ("transformer",), ("cuda-graph",), phase="train",
                settings=(*ADAMW, "train.capture=forward_backward"),
            ),
        ),
        further=True,
    ),
    Study(
        "tuned",
        (Sweep(BLOCKS, TUNED[:1], ("bf16",), (SMALL,)),),
        further=True,
    ),
)  # fmt: skip


def named(name: str) -> Study:
    """Returns the study of that name; raises KeyError if there is none."""
    return {study.name: study for study in STUDIES}[name]
