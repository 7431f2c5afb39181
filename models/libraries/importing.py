"""Imports a library without its hub, and says in one sentence what is missing or does not fit."""

from __future__ import annotations

import difflib
import importlib
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

import torch

OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "USE_HUB_KERNELS": "0"}
"""Variables that libraries read when they are imported; with these they ask no hub."""

UNRELATED = (ImportError, MemoryError, OSError, RuntimeError)
"""What a library raises for reasons other than sizes; torch's lack of memory is a RuntimeError."""

OTHER_BUILD = "operator torchvision::nms does not exist"

HUB = "/:@."
"""Signs in the names of trained weights: owner/model, hf_hub:model, model@revision, model.tag."""

MOST_NAMES = 12
"""Longer lists of names do not fit into a sentence."""


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
        raise ValueError(f"model={name}: {_broken(name, error)}") from error


def _broken(name: str, error: Exception) -> str:
    """Why an installed library cannot be imported, and what to do."""
    if OTHER_BUILD not in str(error):
        reason = " ".join(str(error).split())
        return (
            f"importing {name} fails ({type(error).__name__}: {reason}); install it again, so that "
            f'python -c "import {name}" works'
        )
    return (
        f"torchvision {_version('torchvision')} was built for another torch than the installed "
        f"{torch.__version__} ({OTHER_BUILD}); "
        "install both from one index, as in pip install --force-reinstall torch torchvision "
        f"--index-url https://download.pytorch.org/whl/{_build()}"
    )


def _build() -> str:
    """The name of the installed torch's build in PyTorch's own index, such as cpu or cu130."""
    cuda = torch.version.cuda
    return f"cu{cuda.replace('.', '')}" if cuda else "cpu"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "of unknown version"


def check_name(library: str, name: str, known: Collection[str], kind: str = "architecture") -> None:
    """Raises ValueError unless `name` is one of the `known` architectures of the library."""
    if name in known:
        return
    meant = _meant(name, known)
    hint = f", did you mean {' or '.join(meant)}?" if meant else ";"
    known_are = _listed(library, known)
    if any(sign in name for sign in HUB):
        raise ValueError(
            f"model.name={name}: this names trained weights of a hub, but model={library} "
            f"downloads none{hint} {known_are}; for trained weights, use model=custom with a "
            "function that loads them"
        )
    raise ValueError(f"model.name={name}: {library} has no such {kind}{hint} {known_are}")


def check_heads(width: int, heads: int, rotary: bool = False) -> None:
    """Raises ValueError unless `width` can be split evenly over `heads`.

    Heads with `rotary` positions, which turn pairs of numbers, need an even width.
    """
    multiple = 2 * heads if rotary else heads
    if width % multiple:
        split = "into heads of an even width by" if rotary else "evenly over"
        raise ValueError(
            f"shape.width={width} cannot be split {split} shape.heads={heads}: "
            f"choose a width that is a multiple of {multiple}, or another number of heads"
        )


def check_pixels(name: str, pixels: int, multiple: int) -> None:
    """Raises ValueError unless an image of `pixels` can be cut as the architecture does it."""
    if pixels % multiple:
        raise ValueError(
            f"shape.pixels={pixels} does not fit {name}: choose a multiple of {multiple}"
        )


def _meant(name: str, known: Collection[str]) -> list[str]:
    """At most three names that were probably meant, the nearest first."""
    word = name.rpartition("/")[2].rpartition(":")[2].lower().replace("-", "_")
    stem = word.partition(".")[0]
    if stem in known:
        return [stem]
    close = difflib.get_close_matches(word, known, n=3)
    return close or sorted((each for each in known if each.startswith(word)), key=len)[:3]


def _listed(library: str, known: Collection[str]) -> str:
    if len(known) <= MOST_NAMES:
        return f"known are {', '.join(sorted(known))}"
    listing = {"timm": "timm.list_models()", "torchvision": "torchvision.models.list_models()"}
    command = f"import {library}; print(*{listing[library]})"
    return f'python -c "{command}" lists all names'


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
