"""Writes a model of the caller's process to a file that a fresh process can load.

What is defined in a notebook or a script is saved by its code (cloudpickle), everything else by
its name. The name of the file ends in a hash of what it holds.
"""

from __future__ import annotations

import hashlib
import pickle
import pickletools
import re
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from inspect import getclosurevars, isfunction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cloudpickle
import torch

from modescope.bench.records.errors import UsageError
from modescope.bench.records.files import atomic_write
from modescope.bench.records.pickled_models import INPUTS, MODEL, PICKLE_FOLDER, PICKLE_SUFFIX
from modescope.bench.records.progress import one_line
from modescope.bench.steps import geometry, trees
from modescope.bench.steps.pickled_model import names_of_main

ID_DIGITS = 16
CHUNK_BYTES = 1 << 20

_OF_PROCESS = (
    (re.compile(r"^[0-9a-f]{32}$"), ""),  # cloudpickle's random id of a class
    (re.compile(r"ipykernel_\d+"), "ipykernel"),  # the process, in the file name of a notebook cell
)
"""Texts in a pickle that differ between processes, and what the hash has in their place."""


PLACE = ("__package__", "__file__")
"""What a module knows of where it lies."""


class _OfMain(dict[str, Any]):
    """The names of `__main__`: a pickle has in their place those of the process that loads it.

    Functions of a notebook then live in a module that can be imported, which the compiler needs.
    """

    def __reduce__(self) -> tuple[Callable[..., dict[str, Any]], tuple[dict[str, Any]]]:
        main = vars(sys.modules["__main__"])
        return names_of_main, ({key: main[key] for key in PLACE if key in main},)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.globals_ref[id(vars(sys.modules["__main__"]))] = _OfMain(__name__="__main__")


def save(model: Any, inputs: Any, name: str, study: Path) -> str:
    """Writes the file unless it is there; returns the value of model.pickle, `<name>.<hash>`.

    Another model of the same name in the study gets a number after its name. The caller's objects
    stay as they are. Raises UsageError where something cannot be pickled, and names it.
    """
    folder = study / PICKLE_FOLDER
    # copies, because a file would hold all of the storage of which a tensor shows a part
    detached = trees.mapped(torch.Tensor.detach, inputs)
    compact = geometry.copier(trees.tensors(detached), torch.clone)
    content = {MODEL: model, INPUTS: trees.mapped(compact, detached)}
    with atomic_write(folder / f"{name}{PICKLE_SUFFIX}") as written:
        try:
            torch.save(
                content,
                written,
                pickle_module=SimpleNamespace(Pickler=_Pickler, __name__="cloudpickle"),
                pickle_protocol=pickle.DEFAULT_PROTOCOL,
            )
        except OSError:
            raise
        except Exception as error:
            raise UsageError(_not_picklable(content, name, error)) from error
        named = _named(folder, name, _hash(written, _versions(model)))
        written.replace(folder / f"{named}{PICKLE_SUFFIX}")
    return named


def _named(folder: Path, name: str, content: str) -> str:
    """`Net.<hash>`, or `Net-2.<hash>` if `Net` is another model of the study."""
    known = [path.stem for path in sorted(folder.glob(f"*{PICKLE_SUFFIX}"))]
    same = re.compile(rf"{re.escape(name)}(-\d+)?\.{content}")
    for each in known:
        if same.fullmatch(each):
            return each
    taken = {each.partition(".")[0] for each in known}
    number = 1
    while (numbered := name if number == 1 else f"{name}-{number}") in taken:
        number += 1
    return f"{numbered}.{content}"


def _versions(model: Any) -> dict[str, str]:
    """Versions of the packages whose classes or functions the file holds by name alone."""
    parts = model.modules() if isinstance(model, torch.nn.Module) else [model]
    owners = {(getattr(one, "__module__", None) or "").partition(".")[0] for one in parts}
    packages = {name: sys.modules.get(name) for name in owners}
    return {name: str(getattr(one, "__version__", "")) for name, one in sorted(packages.items())}


def _hash(file: Path, versions: Mapping[str, str]) -> str:
    """Hash of what torch.save wrote, the same in another process for the same code and weights."""
    digest = hashlib.sha256(repr(versions).encode())
    with zipfile.ZipFile(file) as packed:
        for entry in packed.namelist():
            inside = entry.partition("/")[2]
            if inside == "data.pkl":
                for part in _stable(packed.read(entry)):
                    digest.update(part)
            elif inside.startswith("data/"):
                with packed.open(entry) as storage:
                    while chunk := storage.read(CHUNK_BYTES):
                        digest.update(chunk)
    return digest.hexdigest()[:ID_DIGITS]


def _stable(pickled: bytes) -> Iterator[bytes]:
    """The pickle's instructions without what differs between processes."""
    for instruction, argument, _ in pickletools.genops(pickled):
        if instruction.name == "FRAME":  # a length in bytes
            continue
        if isinstance(argument, str):
            for pattern, replacement in _OF_PROCESS:
                argument = pattern.sub(replacement, argument)
        yield f"{instruction.name} {argument!r}\n".encode()


def _not_picklable(content: Mapping[str, Any], name: str, error: Exception) -> str:
    culprits = list(_culprits(content, name))
    where = f"because of {culprits[0]}" if culprits else f"({one_line(error)})"
    return (
        f"{name} cannot be sent to a fresh process {where}; give a function that builds the model "
        "and its inputs instead"
    )


def _culprits(content: Mapping[str, Any], name: str) -> Iterator[str]:
    """`Net.lock (a lock)`: parts that cannot be pickled, the innermost ones."""
    model = content[MODEL]
    if isinstance(model, torch.nn.Module):
        for path, part in model.named_modules():
            for key, value in vars(part).items():
                if key not in ("_modules", "_parameters", "_buffers"):
                    yield from _if_culprit(".".join(filter(None, (name, path, key))), value)
    elif isfunction(model):
        used = getclosurevars(model)
        for key, value in {**used.globals, **used.nonlocals}.items():
            yield from _if_culprit(f"{key} in {name}", value)
    yield from _if_culprit("inputs", content[INPUTS])


def _if_culprit(place: str, value: Any) -> Iterator[str]:
    try:
        cloudpickle.dumps(value)
    except Exception as error:
        yield f"{place} ({one_line(error)})"


def name_of(model: torch.nn.Module | Callable[..., Any]) -> str:
    """The class's or the function's name, in letters that a file's name may have."""
    if isinstance(model, torch.nn.Module):
        name = type(model).__name__
    else:
        function = getattr(model, "func", model)  # of a partial
        name = getattr(function, "__name__", type(function).__name__)
    return re.sub(r"\W+", "_", name).strip("_") or "model"
