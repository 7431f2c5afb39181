"""Tiny models that reveal how they were run, and short ways to make cases of them.

Each function that returns a `Built` is the `build` of a model. `model(function)` is its `Model`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from omegaconf import OmegaConf
from torch import Tensor, nn
from torch.nn.functional import batch_norm

from modescope.bench.evidence.observing import Observed
from modescope.bench.modes import axes
from modescope.bench.records.cases import Case, Mode, Model, Variant, canonical_json
from modescope.bench.records.plans import Budget, Plan
from modescope.bench.settings import ModeSettings
from tests.helpers.paths import CONF

WIDTH = 4
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)

Built = tuple[nn.Module, tuple[Tensor, ...]]


@dataclass(frozen=True)
class Inside:
    """The state in which forward ran, as read from the output of `Tells`.

    Inference mode is not part of it, because Dynamo cannot trace it: the output shows it.
    """

    grad: bool
    autocast: bool
    weight: torch.dtype
    input: torch.dtype
    product: torch.dtype  # of a matrix product, which autocast casts


class Tells(nn.Module):
    """A linear layer whose second output encodes the state in which forward ran."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.linear(x)
        state = int(torch.is_grad_enabled()), int(torch.is_autocast_enabled(x.device.type))
        dtypes = (DTYPES.index(t.dtype) for t in (self.linear.weight, x, y))
        return y, torch.tensor([*state, *dtypes])


def inside(code: Tensor) -> Inside:
    grad, autocast, *dtypes = code.tolist()
    return Inside(bool(grad), bool(autocast), *(DTYPES[i] for i in dtypes))


class Applies(nn.Module):
    """Returns a function of its weight and its input."""

    def __init__(self, function: Callable[[Tensor, Tensor], Any]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(WIDTH) + 0.5)
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(self.weight, x)


def _applied(function: Callable[[Tensor, Tensor], Any]) -> Built:
    return Applies(function), (torch.randn(2, WIDTH),)


def needs_gradients() -> Built:
    """A model that computes a gradient in forward, as a force field does."""

    def forces(weight: Tensor, x: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        return torch.autograd.grad((weight * x).square().sum(), x)[0]

    return _applied(forces)


def refuses_gradients() -> Built:
    def inside(weight: Tensor, x: Tensor) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError("made for no_grad")
        return weight * x

    return _applied(inside)


def encodes_nested() -> Built:
    """A layer whose fast path, which takes no gradients, is the only one for nested tensors."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    return layer, (torch.nested.nested_tensor([torch.randn(n, 8) for n in (5, 9, 2)]),)


class Batch(nn.Module):
    def forward(self, batch: Any) -> Tensor:
        result: Tensor = batch["x"] + batch["y"]
        return result


def one_dict() -> tuple[nn.Module, Any]:
    """A dict, whose parts are passed by name, for a forward that takes one dict."""
    return Batch(), {"x": torch.randn(2, WIDTH), "y": torch.randn(2, WIDTH)}


def accumulates() -> Built:
    """A model that returns the sum of all its results so far."""
    sums: dict[str, Any] = {"so far": 0}

    def add(weight: Tensor, x: Tensor) -> Any:
        sums["so far"] = sums["so far"] + (weight * x).detach()
        return sums["so far"]

    return _applied(add)


def tells() -> Built:
    return Tells(), (torch.randn(2, WIDTH),)


def weightless() -> Built:
    return nn.ReLU(), (torch.randn(2, WIDTH),)


def linear() -> Built:
    return nn.Linear(WIDTH, WIDTH), (torch.randn(2, WIDTH),)


def linear_without_bias() -> Built:
    """A linear layer for which autotuning has no choice: with a bias, torch 2.11 has two."""
    return nn.Linear(WIDTH, WIDTH, bias=False), (torch.randn(2, WIDTH),)


LAYERS_ROWS, LAYERS_HIDDEN = 8, 64


def two_layers() -> Built:
    net = nn.Sequential(nn.Linear(WIDTH, LAYERS_HIDDEN), nn.GELU(), nn.Linear(LAYERS_HIDDEN, WIDTH))
    return net, (torch.randn(LAYERS_ROWS, WIDTH),)


def scaled() -> Built:
    return _applied(lambda weight, x: weight * x)


def too_large_for_fp16() -> Built:
    return _applied(lambda weight, x: weight * x * 3e5)


def endless_memory() -> Built:
    return _applied(lambda weight, x: weight * x + torch.ones(10**15, device=x.device))


def random() -> Built:
    return _applied(lambda weight, x: weight * x + torch.randn_like(x))


def wordless() -> Built:
    return _applied(lambda weight, x: "no tensor")


class Kept:
    """Stands for a cache: an object that torch cannot look into."""


class Nested(nn.Module):
    """A model whose arguments and results contain more than tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(
        self, x: Tensor, states: tuple[Tensor, Tensor], options: dict[str, Any], mask: None = None
    ) -> dict[str, Any]:
        shift, scale = states
        for _ in range(options["times"]):
            x = self.linear(x) * scale + shift
        return {"states": (x, [x.sum(-1)]), "kept": Kept(), "ids": x.argmax(-1), "mask": mask}


def nested() -> tuple[nn.Module, Any]:
    states = (torch.randn(2, WIDTH), torch.tensor(0.5))
    options = {"times": 2, "act": "none"}
    return Nested(), {
        "x": torch.randn(2, WIDTH),
        "states": states,
        "options": options,
        "mask": None,
    }


def _in_two(weight: Tensor, x: Tensor) -> Tensor:
    y = weight * x
    torch._dynamo.graph_break()
    return y + 1


def broken() -> Built:
    return _applied(_in_two)


@torch.library.custom_op("modescope_tests::cannot_be_traced", mutates_args=())
def _cannot_be_traced(x: Tensor) -> Tensor:
    return torch.tanh(x)


def untraceable() -> Built:
    return _applied(lambda weight, x: _cannot_be_traced(weight * x))


class InTurns(nn.Module):
    """Calls a function with two texts, each of which is a constant of its compiled code."""

    def forward(self, x: Tensor) -> Tensor:
        for text in ("one", "eleven"):
            torch._dynamo.graph_break()
            x = self.times(x, text)
        return x

    def times(self, x: Tensor, text: str) -> Tensor:
        return x * len(text)


def in_turns() -> Built:
    return InTurns(), (torch.randn(2, WIDTH),)


def _product_after_a_break(weight: Tensor, x: Tensor) -> Tensor:
    y = (weight * x).expand(4, -1, -1).contiguous()
    torch._dynamo.graph_break()
    return torch.bmm(y, y.transpose(1, 2).contiguous())


def product_after_a_break() -> Built:
    """Breaks into two graphs; the second has a batched matrix product, which can be autotuned."""
    return _applied(_product_after_a_break)


def _print_within_cond(weight: Tensor, x: Tensor) -> Any:
    def told(y: Tensor) -> Tensor:
        print("within a branch")
        return y + 1

    return torch.cond(x.sum() > 0, told, lambda y: y - 1, (weight * x,))


def prints_within_cond() -> Built:
    return _applied(_print_within_cond)


class Skipped(nn.Module):
    """A model whose forward Dynamo is told to skip."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(WIDTH) + 0.5)

    @torch._dynamo.decorators.skip
    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x


def skipped() -> Built:
    return Skipped(), (torch.randn(2, WIDTH),)


class Counts(nn.Module):
    """Each call adds a number that is one larger, kept in a buffer that is changed or replaced."""

    calls: Tensor

    def __init__(self, in_place: bool) -> None:
        super().__init__()
        self.in_place = in_place
        self.weight = nn.Parameter(torch.rand(WIDTH) + 0.5)
        self.register_buffer("calls", torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        y = self.weight * x + self.calls
        if self.in_place:
            self.calls.add_(1)
        else:
            self.calls = self.calls + 1
        return y


def counts(in_place: bool = True) -> Built:
    return Counts(in_place), (torch.randn(2, WIDTH),)


class Normalises(nn.Module):
    """Batch normalisation that updates its statistics even after eval(), and adds their mean."""

    mean: Tensor
    variance: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(WIDTH) + 0.5)
        self.register_buffer("mean", torch.zeros(WIDTH))
        self.register_buffer("variance", torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        y = batch_norm(x, self.mean, self.variance, self.weight, training=True)
        return y + self.mean


class Counter(nn.Module):
    number: int = 0


COUNTER = Counter()
"""Is found by its name in this file, so that its number is not put back before each call."""


class Remembers(nn.Module):
    """Has a Python number for which compiled code is specialised; it may grow with each call."""

    def __init__(self, counting: bool) -> None:
        super().__init__()
        self.counting = counting
        self.number = 0
        self.weight = nn.Parameter(torch.rand(WIDTH) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        if self.counting:
            COUNTER.number += 1
            return self.weight * x + 0 * COUNTER.number
        return self.weight * x + 0 * self.number


def remembers(counting: bool = False) -> Built:
    return Remembers(counting), (torch.randn(2, WIDTH),)


EAGER = Mode("eager", "enabled", autocast=False, compile="none", graph=False)
PRESETS = tuple(sorted(file.stem for file in (CONF / "mode").glob("*.yaml")))


class Fails(nn.Module):
    """A model whose forward raises in train mode or in eval mode, whichever `mode` names."""

    def __init__(self, mode: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))
        self.mode = mode

    def forward(self, x: Tensor) -> Tensor:
        if self.training is (self.mode == "train"):
            raise ValueError(f"only {self.mode} fails")
        return x * self.weight


def fails_in(name: str, batch: int) -> Built:
    """`name` is the mode, "train" or "eval", in which forward fails."""
    return Fails(name), (torch.ones(batch, WIDTH),)


def silent(phase: str, keep: object = None) -> None:
    """A `Progress` that does nothing."""


def preset(name: str) -> Mode:
    """The mode of conf/mode/<name>.yaml, as resolved for inference."""
    made = ModeSettings(**_yaml("mode", name)).mode()
    return replace(made, grad="inference_mode") if made.grad == "natural" else made


def smoke(seed: int = 0) -> Plan:
    """A plan with the smoke budget, without profiler and memory passes."""
    return Plan(
        Budget(**_yaml("budget", "smoke")),
        seed,
        replicate=0,
        compile_cache="warm",
        timeout_s=60.0,
        study="main",
        results_dir="results",
        profile=False,
        memory=False,
        explain="false",
        trace_max_bytes=5_000_000,
        traces_max_bytes=200_000_000,
    )


def _yaml(group: str, name: str) -> dict[str, Any]:
    content = OmegaConf.to_container(OmegaConf.load(CONF / group / f"{name}.yaml"))
    assert isinstance(content, dict)
    return {str(key): value for key, value in content.items()}


def model(build: Callable[..., Built], fullgraph: bool = True, **arguments: Any) -> Model:
    target = f"{build.__module__}:{build.__name__}"
    return Model(f"custom:{target}", target, canonical_json(arguments), fullgraph)


def variant(dtype: str = "fp32", **changes: Any) -> Variant:
    """A variant at `dtype` whose mode is eager but for the `changes`."""
    return Variant(replace(EAGER, name="asked", **changes), dtype)


BASELINE = Variant(EAGER, "fp32")


def case(
    of: Model, asked: Variant, baseline: Variant | None = BASELINE, device: str = "cpu"
) -> Case:
    return Case(of, "{}", asked, baseline, device, threads=1)


BEGUN: set[tuple[float, int]] = set()
"""What each call of `Consumes` got: the first number of its tensor, and the length of its list."""


class Consumes(nn.Module):
    """A model that changes its arguments: it scales a tensor in place and empties a list."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(WIDTH) + 0.5)

    def forward(self, x: Tensor, parts: list[Tensor]) -> Tensor:
        values = x.detach().numpy().ravel()  # by no operator, as an empty batch has no first number
        BEGUN.update((float(first), len(parts)) for first in values[:1])
        x.mul_(0.7)
        total = x * self.weight
        while parts:
            total = total + parts.pop()
        return total


def consumes() -> tuple[nn.Module, Any]:
    return Consumes(), (torch.randn(2, WIDTH), [torch.randn(2, WIDTH) for _ in range(3)])


REMEMBERED: dict[int, Any] = {}
PAST: list[Tensor] = []
"""What models keep where nobody looks for it."""


class Forgets(nn.Module):
    """Does less work from its `calls`-th call on.

    With 0, it does less whenever it gets the same argument as in the call before. What it remembers
    is in an attribute, or, out of sight, in a table of the process.
    """

    def __init__(self, calls: int, seen: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(WIDTH) + 0.5)
        self.calls = calls
        self.kept = {"left": calls, "x": None, "y": None}
        self.seen = seen

    def forward(self, x: Tensor) -> Tensor:
        kept: dict[str, Any] = (
            self.kept if self.seen else REMEMBERED.setdefault(id(self), dict(self.kept))
        )
        if self.calls:
            kept["left"] -= 1
            return x * self.weight if kept["left"] <= 0 else x * self.weight * 1.0 * 1.0
        if kept["x"] is not x:
            kept |= {"x": x, "y": x * self.weight}
        result: Tensor = kept["y"]
        return result


def forgets(calls: int = 0, seen: bool = False) -> Built:
    return Forgets(calls, seen), (torch.rand(2, WIDTH) + 0.5,)


class Grows(nn.Module):
    """Sums all inputs that it has had, which it keeps in a table of the process."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(WIDTH) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        PAST.append(x)
        return torch.stack(PAST).mean(0) * self.weight


def grows() -> Built:
    return Grows(), (torch.randn(2, WIDTH),)


class Tabulates(nn.Module):
    """Computes a table in its first call; later calls read it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(WIDTH) + 0.5)
        self.table: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.table is None:
            self.table = torch.arange(WIDTH, dtype=x.dtype).cos()
        return x * self.weight * self.table


def tabulates() -> Built:
    return Tabulates(), (torch.randn(2, WIDTH),)


def observed(
    grad: str, autocast: str, weight_dtype: str, products: str | None = None, **seen: Any
) -> Observed:
    """What a call of the module saw; `seen`: the further axes that were not at their defaults."""
    read = {n: axis.values[0] for n, axis in axes.AXES.items() if axis.read and not axis.asked}
    further: dict[str, Any] = {**read, **seen}
    return Observed({**further, "grad": grad, "autocast": autocast}, weight_dtype, products)
