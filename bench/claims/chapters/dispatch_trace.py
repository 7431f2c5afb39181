"""What the dispatcher tells a terminal."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from bench.claims.claim import Verdict, claim, holds, refuted
from bench.devices import Hardware

VARIABLE = "TORCH_SHOW_DISPATCH_TRACE"
TRACED = """
import torch
a = torch.ones(2, requires_grad=True)
(torch.mul(a, a) + a).sum().backward()
print("debug:", bool(torch.version.debug))
"""
OPERATORS = ("aten::mul.Tensor", "aten::add.Tensor", "aten::sum")
KEYS = re.compile(r"key=\[\w+\]")


@dataclass(frozen=True)
class Trace:
    """What a program prints that calls three operators."""

    lines: Annotated[int, "lines that name an operator and the key of its kernel"]
    named: Annotated[Mapping[str, bool], "named:"]
    without: Annotated[int, "such lines without the variable"]
    debug_build: Annotated[bool, "torch is a debug build"]


def kernels_named(seen: Trace) -> Verdict:
    """Holds if each operator is printed with the key of its kernel, and none without the variable.

    Refuted if one is missing.
    """
    missing = [name for name, there in seen.named.items() if not there]
    build = "a debug" if seen.debug_build else "a release"
    if missing:
        return refuted(
            f"{build} build of torch prints {seen.lines or 'no'} such lines: the tracing is "
            "compiled in only in debug builds, or with HAS_TORCH_SHOW_DISPATCH_TRACE",
            f"{VARIABLE}=1 and a call of {missing[0]} printed nothing about it",
        )
    if seen.without:
        return refuted("the variable makes no difference", f"{seen.without} lines without it")
    return holds(f"{build} build of torch printed {seen.lines} lines")


@claim(
    id="dispatch-trace",
    statement="TORCH_SHOW_DISPATCH_TRACE=1 prints the kernel choice per op",
    source=("003 Appendix B",),
    needs=("cpu",),
    decide=kernels_named,
    snippet="""
        import os, subprocess, sys

        code = "import torch; torch.ones(2) + torch.ones(2); print(torch.version.debug)"
        variables = {**os.environ, "TORCH_SHOW_DISPATCH_TRACE": "1"}
        done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True)
        print("debug build:", done.stdout.decode().strip())
        print("aten::add was named:", b"aten::add" in done.stdout + done.stderr)
    """,
)
def dispatch_trace(device: Hardware) -> Trace:
    """What a program that calls three operators and a backward prints with the variable set.

    And, if something is printed, without it.
    """
    told = _printed({VARIABLE: "1"})
    lines = _tracing(told)
    return Trace(
        lines=len(lines),
        named={name: any(name in line for line in lines) for name in OPERATORS},
        without=len(_tracing(_printed({}))) if lines else 0,
        debug_build="debug: True" in told,
    )


def _tracing(printed: str) -> list[str]:
    return [line for line in printed.splitlines() if KEYS.search(line)]


def _printed(variables: Mapping[str, str]) -> str:
    environment = {k: v for k, v in os.environ.items() if k != VARIABLE} | dict(variables)
    done = subprocess.run(
        [sys.executable, "-c", TRACED],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    return done.stdout
