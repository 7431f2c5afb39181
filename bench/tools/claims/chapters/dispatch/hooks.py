"""What Python's two hooks, and a terminal, get to see of a call."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._python_dispatch import TorchDispatchMode

from modescope.bench.tools.claims import lab


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
        self.recorded = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """See torch.utils._python_dispatch."""
        result = func(*args, **(kwargs or {}))
        self.names.append(str(func))
        self.recorded |= any(
            isinstance(each, Tensor) and each.requires_grad
            for each in (result if isinstance(result, tuple) else (result,))
        )
        return result


SPELLINGS = ("x + w", "x.add(w)", "torch.add(x, w)")
"""Of one operator."""
OTHERS = {
    "w.T": "w.T",
    "linear(x, w, b)": "functional.linear(x, w, b)",
    "softmax(w, -1)": "functional.softmax(w, -1)",
    "layer_norm(w, (4,))": "functional.layer_norm(w, (4,))",
}
CALLS = lab.functions("x, w, b", dict(zip(SPELLINGS, SPELLINGS, strict=True)) | OTHERS)


def each_at_its_level(o: lab.Observed) -> lab.Rule:
    """Refuted if `__torch_dispatch__` tells apart three spellings of one operator.

    A limit if it gets other operators in inference_mode.
    """
    spelled = o.operators.only(lambda call, _: call in SPELLINGS)
    yield lab.require(
        f"{', '.join(SPELLINGS)} are one operator to it",
        len(set(spelled.values())) == 1,
        spelled.say_all(),
    )
    whole = o.in_inference.only(lambda call, names: names != o.operators[call])
    clause = "in inference_mode it gets other operators: "
    yield lab.limit_if(bool(whole), clause + lab.Cases(whole).say_all())


@lab.claim(
    "`__torch_dispatch__` sees canonical ops below autograd, `__torch_function__` the API calls",
    "003 §4.7",
    rule=each_at_its_level,
    figures={
        "functions": lab.must(
            "__torch_function__ got of",
            lambda names: names.startswith("torch.") and "," not in names,
            "__torch_function__ gets one function of the API",
        ),
        "operators": lab.must(
            "__torch_dispatch__ got of",
            lambda names: all(re.fullmatch(r"aten\.\w+\.\w+", n) for n in names.split(", ")),
            "__torch_dispatch__ gets resolved overloads of aten",
        ),
        "in_inference": "__torch_dispatch__ got in inference_mode of",
        "none_below": lab.must("results have no history inside __torch_dispatch__", True),
        "recorded_after": lab.must("results have a history once the call is over", True),
    },
    snippet="""
        import torch
        from modescope.bench.tools.claims.chapters.dispatch.hooks import Dispatched, Functions

        x, w, b = torch.ones(4, 4), torch.ones(4, 4, requires_grad=True), torch.ones(4)
        for mode in (torch.enable_grad, torch.inference_mode):
            with mode(), Functions() as api, Dispatched() as below:
                torch.nn.functional.linear(x, w, b)
            print(mode.__name__, api.names, below.names)
    """,
)
def dispatch_mode_sees(device: lab.Hardware) -> lab.Values:
    """What modes with `__torch_function__` and with `__torch_dispatch__` get of seven calls."""
    x, w, b = torch.ones(4, 4), torch.nn.Parameter(torch.ones(4, 4)), torch.ones(4)
    api = {name: Functions() for name in CALLS}
    below, whole = ({name: Dispatched() for name in CALLS} for _ in range(2))
    recorded = []
    for name, call in CALLS.items():
        with api[name]:
            call(x, w, b)
        with below[name]:
            recorded.append(call(x, w, b).grad_fn is not None)
        with torch.inference_mode(), whole[name]:
            call(x, w, b)
    for each in (api, below, whole):
        yield {name: ", ".join(mode.names) for name, mode in each.items()}
    yield not any(mode.recorded for mode in below.values())
    yield all(recorded)


VARIABLE = "TORCH_SHOW_DISPATCH_TRACE"
TRACED = """
import torch
a = torch.ones(2, requires_grad=True)
(torch.mul(a, a) + a).sum().backward()
"""
OPERATORS = ("aten::mul.Tensor", "aten::add.Tensor", "aten::sum")


@lab.claim(
    "TORCH_SHOW_DISPATCH_TRACE=1 prints the kernel choice per op",
    "003 Appendix B",
    figures={
        "named": lab.must(
            "named:",
            True,
            "each operator is printed with the key of its kernel",
            "printing takes a debug build of torch, or one with HAS_TORCH_SHOW_DISPATCH_TRACE; "
            "operators are not named",
        ),
        "without": lab.must("lines that name an operator without the variable", 0),
        "debug_build": "torch is a debug build",
    },
    snippet="""
        import os, subprocess, sys

        code = "import torch; torch.ones(2) + torch.ones(2); print(torch.version.debug)"
        variables = {**os.environ, "TORCH_SHOW_DISPATCH_TRACE": "1"}
        done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True)
        print("debug build:", done.stdout.decode().strip())
        print("aten::add was named:", b"aten::add" in done.stdout + done.stderr)
    """,
)
def dispatch_trace(device: lab.Hardware) -> lab.Values:
    """What a program that calls three operators and a backward prints with the variable set.

    And, if something is printed, without it.
    """
    lines = _tracing({VARIABLE: "1"})
    yield {name: any(name in line for line in lines) for name in OPERATORS}
    yield len(_tracing({})) if lines else 0
    yield bool(torch.version.debug)


def _tracing(variables: Mapping[str, str]) -> list[str]:
    """The printed lines that name a key."""
    done = subprocess.run(
        [sys.executable, "-c", TRACED],
        env={k: v for k, v in os.environ.items() if k != VARIABLE} | dict(variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    return [line for line in done.stdout.splitlines() if re.search(r"key=\[\w+\]", line)]
