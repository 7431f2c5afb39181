"""Architectures of published libraries, with random weights and sizes of the user's choice.

Each file has `build(name, **sizes)`, which works like the `build` of other models (see `models`);
`name` is the architecture. Nothing is downloaded: a name that a library would look up in a hub is
refused. `library` imports a library only when one of its models is built; what is missing or wrong
is said in one sentence.
"""

from __future__ import annotations

import difflib
import importlib
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from types import ModuleType

OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "USE_HUB_KERNELS": "0"}
"""Environment variables that keep libraries from asking a hub, if set before they are imported."""

UNRELATED = (ImportError, MemoryError, OSError, RuntimeError)
"""Errors that do not come from wrong sizes; torch raises RuntimeError when it has no memory."""


def library(name: str, extra: str) -> ModuleType:
    """Imports and returns the package `name`; raises ValueError if that fails.

    `extra` is the extra of modescope that installs it.
    """
    os.environ.update(OFFLINE)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ValueError(
            f"model={name} needs the package {error.name}, which is not installed: "
            f"pip install 'modescope[{extra}]', or in a checkout "
            f".venv/bin/pip install -e '.[{extra}]' -c constraints.txt"
        ) from error
    except Exception as error:
        reason = " ".join(str(error).split())
        raise ValueError(
            f"model={name}: importing {name} fails ({type(error).__name__}: {reason}); install it "
            "again, for the installed torch"
        ) from error


def check_name(library: str, name: str, known: Collection[str]) -> None:
    """Raises ValueError unless `name` is one of the library's `known` architectures.

    The library might look an unknown name up in a hub and download it.
    """
    if name not in known:
        meant = difflib.get_close_matches(name, known, n=3) or sorted(known)[:12]
        raise ValueError(
            f"model.name={name}: no architecture of {library} that takes such inputs; there are "
            f"{len(known)}, such as {', '.join(meant)}"
        )


def check_heads(width: int, heads: int) -> None:
    """Raises ValueError unless `width` can be split evenly over `heads`.

    Some libraries build a narrower model instead.
    """
    if width % heads:
        raise ValueError(
            f"shape.width={width} cannot be split evenly over shape.heads={heads}: "
            f"choose a width that is a multiple of {heads}, or another number of heads"
        )


@contextmanager
def refusals(library: str, name: str, sizes: dict[str, int]) -> Iterator[None]:
    """Turns an error that the library raises in the block, for unfit `sizes`, into a ValueError."""
    try:
        yield
    except UNRELATED:
        raise
    except Exception as error:
        words = " ".join(f"shape.{key}={value}" for key, value in sizes.items())
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(
            f"{library} does not build {name} with {words}: {reason}; choose other sizes"
        ) from error
