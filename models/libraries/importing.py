"""Imports a library without its hub, and says in one sentence what is missing or does not fit."""

from __future__ import annotations

import difflib
import importlib
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from types import ModuleType

OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "USE_HUB_KERNELS": "0"}
"""Variables that libraries read when they are imported; with these they ask no hub."""

UNRELATED = (ImportError, MemoryError, OSError, RuntimeError)
"""What a library raises for reasons other than sizes; torch's lack of memory is a RuntimeError."""


def library(name: str, extra: str) -> ModuleType:
    """The imported library; raises ValueError where it, or anything it imports, does not work."""
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
    """Raises ValueError unless `name` is one of the `known` architectures of the library.

    So no hub is asked for a name, and nothing is downloaded.
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
    """Turns what a library raises for sizes that do not fit into a ValueError with one sentence."""
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
