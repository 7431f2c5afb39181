"""The program that a user writes to start with what another process compiled. Imports no torch.

The first process fills a folder or a file, which it finds missing, and all others start with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from textwrap import indent

from modescope.bench.records.cases import Mode

FOLDER = """\
# before anything is compiled: a folder that lasts, which the first process fills
import os
from pathlib import Path

kept = Path("compiler-cache").absolute()
is_filled = kept.exists()
os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(kept)"""
PRECOMPILING = f"""\
{FOLDER}
# as TORCH_CACHING_PRECOMPILE=1
import torch._dynamo.config

torch._dynamo.config.caching_precompile = True"""
LOAD = """\
# the file that the first process writes, to be shipped to others
from pathlib import Path

kept = Path("compiler-cache.bin")
is_filled = kept.exists()
if is_filled:
    torch.compiler.load_cache_artifacts(kept.read_bytes())"""
SAVE = """\
if not is_filled:  # once, after the first call
    kept.write_bytes(torch.compiler.save_cache_artifacts()[0])"""
SAVE_FUNCTIONS = """\
if not is_filled:  # once, after the first call: writes what Dynamo made
    torch.compiler.save_cache_artifacts()"""
FUNCTION = """\
from functools import partial
from pathlib import Path

kept = Path("model.bin")
"""
SAVE_FUNCTION = """\
if not kept.exists():  # ahead of time, once: for inputs of these shapes and dtypes
    compiled = torch.compile(model, fullgraph=True{options}).forward
    compiled.aot_compile({inputs}).save_compiled_function(str(kept))
with kept.open("rb") as file:
    run_saved = torch.compiler.load_compiled_function(file)"""


@dataclass(frozen=True)
class Lines:
    """Lines before and after a program's first call; `within`: it compiles in the calls' contexts.

    Dynamo's work of one context does not fit another.
    """

    before: str = ""
    after: str = ""
    within: bool = False


OF_CACHES = {
    "warm": Lines(FOLDER.replace("is_filled = kept.exists()\n", "")),
    "shipped": Lines(LOAD, SAVE),
    "precompiled": Lines(PRECOMPILING, SAVE_FUNCTIONS, within=True),
}
"""By the state of the compiler's caches (`records.caches`)."""


def within(contexts: str, lines: str) -> str:
    """Returns `lines` in a with statement of the expression `contexts`, if there is any."""
    return f"with {contexts}:\n{indent(lines, '    ')}" if contexts else lines


def saving(
    mode: Mode, named: bool, contexts: str, options: Callable[[Mode], str]
) -> tuple[str, ...]:
    """Returns the lines before a call of `run_saved`, as `Backend.program` has them.

    `options` writes those of torch.compile.
    """
    inputs = "((), dict(inputs))" if named else "(tuple(inputs), {})"
    lines = SAVE_FUNCTION.format(options=options(mode), inputs=inputs)
    return (FUNCTION + within(contexts, lines),)
