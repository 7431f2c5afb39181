"""What Python's two hooks get to see of a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._python_dispatch import TorchDispatchMode

from bench.claims.claim import Verdict, claim, holds, refuted, within_limits
from bench.devices import Hardware


class Functions(TorchFunctionMode):
    """Notes what `__torch_function__` gets."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """See torch.overrides."""
        self.names.append(str(resolve_name(func)))
        return func(*args, **(kwargs or {}))


class Dispatched(TorchDispatchMode):
    """Notes what `__torch_dispatch__` gets, and whether results have a history yet."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: list[str] = []
        self.resolved = True
        self.recorded = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """See torch.utils._python_dispatch."""
        result = func(*args, **(kwargs or {}))
        self.names.append(str(func))
        self.resolved &= isinstance(func, torch._ops.OpOverload)
        self.recorded |= any(
            isinstance(each, Tensor) and each.requires_grad
            for each in (result if isinstance(result, tuple) else (result,))
        )
        return result


CALLS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "x + w": lambda x, w, b: x + w,
    "x.add(w)": lambda x, w, b: x.add(w),
    "torch.add(x, w)": lambda x, w, b: torch.add(x, w),
    "w.T": lambda x, w, b: w.T,
    "linear(x, w, b)": lambda x, w, b: functional.linear(x, w, b),
    "softmax(w, -1)": lambda x, w, b: functional.softmax(w, -1),
    "layer_norm(w, (4,))": lambda x, w, b: functional.layer_norm(w, (4,)),
}
SPELLINGS = ("x + w", "x.add(w)", "torch.add(x, w)")
"""Of one operator."""


@dataclass(frozen=True)
class Hooks:
    """What both hooks get of each of CALLS."""

    functions: Annotated[Mapping[str, str], "__torch_function__ got of"]
    operators: Annotated[Mapping[str, str], "__torch_dispatch__ got of"]
    in_inference: Annotated[Mapping[str, str], "__torch_dispatch__ got in inference_mode of"]
    resolved: Annotated[Mapping[str, bool], "__torch_dispatch__ got resolved overloads alone of"]
    recorded_below: Annotated[bool, "results had a history inside __torch_dispatch__"]
    recorded_after: Annotated[bool, "results had a history once the call was over"]


def each_at_its_level(seen: Hooks) -> Verdict:
    """Refuted if `__torch_function__` gets of a call anything but one function of the API.

    Refuted, too, if `__torch_dispatch__` gets what is no resolved overload of aten, gets results
    that autograd has recorded already, or tells apart three spellings of one operator. Within
    limits if it gets other operators in inference_mode; else holds.
    """
    for call, names in seen.functions.items():
        if "," in names or not names.startswith("torch."):
            return refuted("__torch_function__ got no single call of the API", f"{call}: {names}")
    for call, names in seen.operators.items():
        if not all(name.startswith("aten.") for name in names.split(", ")):
            return refuted("__torch_dispatch__ got something else", f"{call}: {names}")
    for call, resolved in seen.resolved.items():
        if not resolved:
            return refuted("overloads were not resolved", f"{call}: {seen.operators[call]}")
    if seen.recorded_below or not seen.recorded_after:
        return refuted(
            "__torch_dispatch__ does not stand below autograd",
            "a result had its history inside" if seen.recorded_below else "there was no history",
        )
    spelled = {seen.operators[call] for call in SPELLINGS}
    if len(spelled) > 1:
        return refuted("spellings of one operator were told apart", f"{sorted(spelled)}")
    told = (
        f"one function of the API each; {', '.join(SPELLINGS)} all arrived as "
        f"{seen.operators['x + w']}, before autograd had recorded it"
    )
    whole = [
        f"{call} arrives as {names} instead of {seen.operators[call]}"
        for call, names in seen.in_inference.items()
        if names != seen.operators[call]
    ]
    if not whole:
        return holds(told)
    return within_limits(
        told,
        "in inference_mode no autograd takes composite operators apart: " + "; ".join(whole),
    )


@claim(
    id="dispatch-mode-sees",
    statement="`__torch_dispatch__` sees canonical ops below autograd, `__torch_function__` the "
    "API calls",
    source=("003 §4.7",),
    needs=("cpu",),
    decide=each_at_its_level,
    snippet="""
        import torch
        from bench.claims.chapters.dispatch_hooks import Dispatched, Functions

        x, w, b = torch.ones(4, 4), torch.ones(4, 4, requires_grad=True), torch.ones(4)
        for mode in (torch.enable_grad, torch.inference_mode):
            with mode(), Functions() as api, Dispatched() as below:
                torch.nn.functional.linear(x, w, b)
            print(mode.__name__, api.names, below.names)
    """,
)
def dispatch_mode_sees(device: Hardware) -> Hooks:
    """What modes with `__torch_function__` and with `__torch_dispatch__` get of seven calls.

    And whether results have a history inside the second, and afterwards.
    """
    w = torch.nn.Parameter(torch.ones(4, 4))
    x, b = torch.ones(4, 4), torch.ones(4)
    functions, operators, in_inference, resolved = {}, {}, {}, {}
    below, recorded = [], []
    for name, call in CALLS.items():
        with Functions() as api:
            call(x, w, b)
        with Dispatched() as inside:
            recorded.append(call(x, w, b).grad_fn is not None)
        with torch.inference_mode(), Dispatched() as whole:
            call(x, w, b)
        functions[name], operators[name] = ", ".join(api.names), ", ".join(inside.names)
        in_inference[name], resolved[name] = ", ".join(whole.names), inside.resolved
        below.append(inside)
    return Hooks(
        functions,
        operators,
        in_inference,
        resolved=resolved,
        recorded_below=any(each.recorded for each in below),
        recorded_after=all(recorded),
    )
