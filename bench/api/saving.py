"""Writes a model of the caller's process to a file that a fresh process can load.

cloudpickle saves the code of what is defined in a notebook or script, and only the name of what can
be imported. The file's name ends in a hash of its content.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import pickle
import pickletools
import re
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cloudpickle
import torch
from torch._library.custom_ops import CustomOpDef

from modescope.bench.model import geometry, trees, witness
from modescope.bench.model.pickled_model import names_of_main, operator_of
from modescope.bench.records.cases import INPUTS, MODEL, PICKLE_FOLDER, PICKLE_SUFFIX
from modescope.bench.records.errors import UsageError, one_line
from modescope.bench.records.files import atomic_write

ID_DIGITS = 16

_OF_PROCESS = (
    (re.compile(r"^[0-9a-f]{32}$"), ""),  # cloudpickle's random id of a class
    (re.compile(r"ipykernel_\d+"), "ipykernel"),  # the process, in the file name of a notebook cell
)
"""Patterns of texts in a pickle that differ between processes, each with its replacement before
hashing."""


class _MainNames(dict[str, Any]):
    """A stand-in for the globals of `__main__`, which unpickling replaces by those of a module.

    The module is importable (`pickled_model.names_of_main`), which torch's compiler needs. So the
    functions of a notebook can be compiled.
    """

    def __reduce__(self) -> tuple[Callable[..., dict[str, Any]], tuple[dict[str, Any]]]:
        main = vars(sys.modules["__main__"])
        keys = [key for key in ("__package__", "__file__") if key in main]
        place: dict[str, Any] = {key: main[key] for key in keys}
        return names_of_main, (place,)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """cloudpickle's pickler, except that it saves the globals of `__main__` as `_MainNames`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.globals_ref[id(vars(sys.modules["__main__"]))] = _MainNames(__name__="__main__")

    def reducer_override(self, value: Any) -> Any:
        """Saves an operator (`torch.library.custom_op`) as its name and its module's.

        Raises UsageError if it is defined in a notebook or script: only an import registers it.
        """
        if not isinstance(value, CustomOpDef):
            return super().reducer_override(value)
        made_in = value._init_fn.__module__
        if made_in == "__main__":
            raise UsageError(
                f"operator {value._qualname} is defined in __main__, which a fresh process cannot "
                "import; move it into a module that can be imported"
            )
        return operator_of, (made_in, value._qualname)


def save(model: Any, inputs: Any, name: str, study: Path) -> str:
    """Writes `model` and `inputs` to a file in the folder `study`; returns the name of the file.

    The name, without suffix, is `<name>.<hash>`, the value for the setting model.pickle. A number
    follows `<name>` if the study has another model of that name. The caller's objects do not
    change. Raises UsageError if something cannot be pickled.
    """
    folder = study / PICKLE_FOLDER
    # copies, because a file would hold all of the storage of which a tensor shows a part
    detached = trees.map_tensors(lambda tensor: geometry.leaf(tensor, tensor), inputs)
    copy = geometry.copier(trees.tensors(detached), torch.clone)
    compact = trees.map_tensors(lambda tensor: geometry.leaf(copy(tensor), tensor), detached)
    content = {MODEL: model, INPUTS: compact}
    with atomic_write(folder / f"{name}{PICKLE_SUFFIX}") as written:
        try:
            torch.save(
                content,
                written,
                pickle_module=SimpleNamespace(Pickler=_Pickler, __name__="cloudpickle"),
                pickle_protocol=pickle.DEFAULT_PROTOCOL,
            )
        except (OSError, UsageError):
            raise
        except Exception as error:
            raise UsageError(
                f"{name} cannot be sent to a fresh process ({one_line(error)}); give a function "
                "that builds the model and its inputs instead"
            ) from error
        named = _file_name(folder, name, _hash(written, model))
        written.replace(folder / f"{named}{PICKLE_SUFFIX}")
    if isinstance(model, torch.nn.Module):
        known = witness.seen_in_fork(model, inputs)
        with atomic_write(folder / f"{named}.json") as written:
            written.write_text(json.dumps(known), encoding="utf-8")
    return named


def _file_name(folder: Path, name: str, content: str) -> str:
    """Returns the name `<name>.<content>`, without suffix, for a file with this hash `content`.

    It is `<name>-2.<content>` and so on if `folder` has a model called `<name>` with another hash.
    """
    files = (path.stem.partition(".") for path in folder.glob(f"*{PICKLE_SUFFIX}"))
    known = {taken: its_content for taken, _, its_content in files}
    numbered = (f"{name}-{number}" for number in itertools.count(2))
    free_or_same = (
        file_name
        for file_name in itertools.chain([name], numbered)
        if known.get(file_name, content) == content
    )
    return f"{next(free_or_same)}.{content}"


def _hash(file: Path, model: Any) -> str:
    """Hashes a file of torch.save so that equal code and weights have equal hashes.

    The hash covers the versions of packages that define the model's modules, because the file has
    only the names of their classes.
    """
    parts = model.modules() if isinstance(model, torch.nn.Module) else [model]
    owners = {(getattr(part, "__module__", None) or "").partition(".")[0] for part in parts}
    versions = {
        name: str(getattr(sys.modules.get(name), "__version__", "")) for name in sorted(owners)
    }
    digest = hashlib.sha256(repr(versions).encode())
    with zipfile.ZipFile(file) as packed:
        for entry in packed.namelist():
            inside = entry.partition("/")[2]
            if inside == "data.pkl":
                digest.update("".join(_stable_instructions(packed.read(entry))).encode())
            elif inside.startswith("data/"):
                digest.update(packed.read(entry))
    return digest.hexdigest()[:ID_DIGITS]


def _stable_instructions(pickled: bytes) -> Iterator[str]:
    """Yields the instructions of a pickle as texts, without what differs between processes."""
    for instruction, argument, _ in pickletools.genops(pickled):
        if isinstance(argument, str):
            for pattern, replacement in _OF_PROCESS:
                argument = pattern.sub(replacement, argument)
        if instruction.name != "FRAME":  # a length in bytes
            yield f"{instruction.name} {argument!r}\n"
