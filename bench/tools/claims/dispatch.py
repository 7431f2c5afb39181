"""Claims about the way of a call to its kernel, and what hooks and traces see of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._C import DispatchKey, DispatchKeySet
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._python_dispatch import TorchDispatchMode

from modescope.bench.devices.devices import Hardware
from modescope.bench.tools.claims.claim import Answer, claim, holds, refuted, undecided
from modescope.bench.tools.claims.measuring import calls

AUTOGRAD = "AutogradCPU"
OPERATORS = ("aten::add.Tensor", "aten::mm", "aten::relu", "aten::view", "aten::sum")
"""Operators whose paths are compared; each has a kernel for autograd."""

_ENTRY = re.compile(r"^(\w+): (fallthrough )?registered at .* \[(.+)\]$", re.MULTILINE)
"""A line of `torch._C._dispatch_dump_table`: key, whether it is skipped, kind of kernel."""


def paths(words: str, mode: Any, made_in: Any = torch.enable_grad) -> dict[str, str]:
    """Returns, as numbers of a claim, the dispatch keys that each of OPERATORS visits in `mode`.

    `mode` and `made_in` are grad modes: that of the calls, and that in which their tensors were
    made. Labels end in `words`; a value is text, such as `AutogradCPU → CPU`.
    """
    with made_in():
        x, w = torch.ones(4, 4), torch.ones(4, 4, requires_grad=made_in is torch.enable_grad)
    with mode():
        found = {operator: visited(operator, (x, w)) for operator in OPERATORS}
    return {f"kernels of {operator} {words}": " → ".join(found[operator]) for operator in found}


@claim("no_grad removes the autograd key from the dispatch path", "002 The dispatcher")
def no_grad_removes_key(device: Hardware) -> Answer:
    """The dispatch keys that five operators visit, from the active keys and torch's tables.

    import torch
    from modescope.bench.tools.claims.dispatch import visited
    x, w = torch.ones(4, 4), torch.ones(4, 4, requires_grad=True)
    for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode):
        with mode():
            print(mode.__name__, visited("aten::mm", (x, w)))
    """
    gradients = paths("with gradients", torch.enable_grad)
    no_grad = paths("under no_grad", torch.no_grad)
    if not all(AUTOGRAD in path for path in gradients.values()):
        return undecided("not all enter autograd's kernel with gradients", gradients)
    entering = {label: path for label, path in no_grad.items() if AUTOGRAD in path}
    if entering:
        because = f"{len(entering)} of {len(no_grad)} enter autograd's kernel under no_grad"
        return refuted(because, gradients | no_grad, entering)
    return holds("none enters autograd's kernel under no_grad", gradients | no_grad)


@claim(
    "under no_grad the autograd kernel is still entered; inference_mode skips it",
    "003 §7.2, §7.3; 003 Exercise 2",
)
def no_grad_enters_kernel(device: Hardware) -> Answer:
    """The dispatch keys that five operators visit under no_grad and in inference_mode.

    Another path for tensors that were made in inference_mode only limits the claim.

    import torch
    from modescope.bench.tools.claims.dispatch import probed
    x, w = torch.ones(4, 4), torch.ones(4, 4, requires_grad=True)
    for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode):
        with mode(), probed("aten::mm", ["AutogradCPU"]) as entered:
            torch.mm(x, w)
        print(mode.__name__, entered)
    """
    no_grad = paths("under no_grad", torch.no_grad)
    inference = paths("in inference_mode", torch.inference_mode)
    of_inference = "under no_grad on tensors made in inference_mode"
    made = paths(of_inference, torch.no_grad, made_in=torch.inference_mode)
    numbers = no_grad | inference | made
    wrong = {label: path for label, path in no_grad.items() if AUTOGRAD not in path}
    wrong |= {label: path for label, path in inference.items() if AUTOGRAD in path}
    if wrong:
        return refuted("autograd's kernel is left out, or entered, otherwise", numbers, wrong)
    skipped = any(AUTOGRAD not in path for path in made.values())
    limits = [f"no kernel of autograd is entered {of_inference}"] if skipped else []
    because = "all enter autograd's kernel under no_grad, none does in inference_mode"
    return holds(because, numbers, limits)


@contextmanager
def probed(operator: str, keys: Sequence[str]) -> Iterator[list[str]]:
    """Yields a list that collects, in order, which of `keys` the calls of `operator` reach.

    `operator` is as in `aten::mm`, a key as in `AutogradCPU`. In the block the kernels at these
    keys only note the key and pass the call on, so nothing is recorded for a backward, or cast.
    """
    entered: list[str] = []
    namespace, _, name = operator.partition("::")
    op = getattr(getattr(torch.ops, namespace), name).default

    def kernel(key: str, active: DispatchKeySet, *arguments: Any, **more: Any) -> Any:
        entered.append(key)
        return op.redispatch(active.remove(getattr(DispatchKey, key)), *arguments, **more)

    library = torch.library.Library(namespace, "IMPL")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a kernel is replaced, which is meant
            for key in keys:
                library.impl(name, partial(kernel, key), key, with_keyset=True, allow_override=True)
        yield entered
    finally:
        library._destroy()


def visited(operator: str, tensors: Sequence[Tensor]) -> tuple[str, ...]:
    """Returns the dispatch keys whose kernels `operator` on `tensors` would run, in order.

    A call goes to the highest active key that does not fall through; its kernel calls the keys
    below. The path ends at a backend or a composite kernel. Other operators that a kernel calls,
    such as the casts of autocast, are not part of it.
    Source: c10/core/DispatchKeySet.h and aten/src/ATen/core/dispatch/OperatorEntry.cpp.
    """
    found = _ENTRY.findall(torch._C._dispatch_dump_table(operator))
    kernels = {key: "fallthrough" if skips else kind for key, skips, kind in found}
    active = torch._C._dispatch_tls_local_include_set()
    for tensor in tensors:
        active = active | torch._C._dispatch_keys(tensor)
    active = active - torch._C._dispatch_tls_local_exclude_set()
    path: list[str] = []
    while (key := active.highestPriorityTypeId()) != DispatchKey.Undefined:
        active = active.remove(key)
        if kernels[key.name] == "fallthrough":
            continue
        path.append(key.name)
        if kernels[key.name] == "math kernel":  # composite: it calls other operators
            break
    return tuple(path)


class Functions(TorchFunctionMode):
    """Notes the name of every function that `__torch_function__` gets."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        self.names.append(str(resolve_name(func)))
        return func(*args, **(kwargs or {}))


class Dispatched(TorchDispatchMode):
    """Notes the operators that `__torch_dispatch__` gets, and whether a result requires grad."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: list[str] = []
        self.recorded = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        self.names.append(str(func))
        self.recorded |= isinstance(result, Tensor) and result.requires_grad
        return result


@claim(
    "`__torch_dispatch__` sees canonical ops below autograd, `__torch_function__` the API calls",
    "003 §4.7",
)
def dispatch_mode_sees(device: Hardware) -> Answer:
    """What modes with `__torch_function__` and with `__torch_dispatch__` see of six calls.

    Canonical: three spellings of an addition give the same aten overload. Different operators in
    inference_mode only limit the claim.

    import torch
    from modescope.bench.tools.claims.dispatch import Dispatched, Functions
    x, w, b = torch.ones(4, 4), torch.ones(4, 4, requires_grad=True), torch.ones(4)
    for mode in (torch.enable_grad, torch.inference_mode):
        with mode(), Functions() as api, Dispatched() as below:
            torch.nn.functional.linear(x, w, b)
        print(mode.__name__, api.names, below.names)
    """
    x, w, b = torch.ones(4, 4), torch.nn.Parameter(torch.ones(4, 4)), torch.ones(4)
    spellings = "x + w", "x.add(w)", "torch.add(x, w)"
    others = "w.T", "functional.linear(x, w, b)", "functional.layer_norm(w, (4,))"
    numbers: dict[str, str] = {}
    wrong, limits = {}, []
    for code, call in calls(*spellings, *others, x=x, w=w, b=b).items():
        with Functions() as api, Dispatched() as below:
            call()
        with torch.inference_mode(), Dispatched() as inference:
            call()
        numbers[code] = got = f"{', '.join(api.names)}; {', '.join(below.names)}"
        is_stated = re.fullmatch(r"torch\.[\w.]+; aten\.\w+\.\w+(, aten\.\w+\.\w+)*", got)
        is_addition = below.names == ["aten.add.Tensor"]
        if not is_stated or is_addition != (code in spellings) or below.recorded:
            wrong[code] = got
        if inference.names != below.names:
            limits.append(f"in inference_mode it gets of {code}: {', '.join(inference.names)}")
    if wrong:
        return refuted("one of them gets something else", numbers, wrong)
    return holds("each gets what is stated", numbers, limits)


@claim("TORCH_SHOW_DISPATCH_TRACE=1 prints the kernel choice per op", "003 Appendix B")
def dispatch_trace(device: Hardware) -> Answer:
    """Whether a program's operators are printed, with the key of their kernels.

    import os, subprocess, sys
    code = "import torch; torch.ones(2) + torch.ones(2); print(torch.version.debug)"
    variables = {**os.environ, "TORCH_SHOW_DISPATCH_TRACE": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True)
    print("debug build:", done.stdout.decode().strip())
    print("aten::add was named:", b"aten::add" in done.stdout + done.stderr)
    """
    code = "import torch; a = torch.ones(2, requires_grad=True); (a * a + a).sum().backward()"
    variables = {**os.environ, "TORCH_SHOW_DISPATCH_TRACE": "1"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    text = done.stdout + done.stderr
    numbers = {
        f"{name} is printed": bool(re.search(rf"{name}.*key=\[\w+\]", text))
        for name in ("aten::mul", "aten::add")
    }
    numbers["torch is a debug build"] = bool(torch.version.debug)
    if not all(list(numbers.values())[:2]):
        return refuted("an operator is not printed", numbers)
    return holds("each operator is printed with the key of its kernel", numbers)
