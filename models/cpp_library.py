"""Compiles C++ that registers operators with torch. A library is compiled once and kept."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from torch.utils import cpp_extension

TIMEOUT_S = 300


def load(name: str, source: str, headers: Sequence[Path] = (), flags: Sequence[str] = ()) -> None:
    """Makes the operators callable that the C++ program `source` registers.

    Compiles it with CXX, or else g++, unless the same command has already built it for this torch
    from the same text. `headers` are files that it includes by name; `flags` are further options
    of the compiler. The library is kept with torch's extensions (TORCH_EXTENSIONS_DIR).

    Raises:
        ValueError: there is no compiler, or it cannot build the library.
    """
    compiler, *words = (os.environ.get("CXX") or "g++").split()
    command = [
        *(compiler, *words, "-shared", "-fPIC", "-O3", "-std=c++20", *flags),
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
        *(f"-I{path}" for path in cpp_extension.include_paths()),
        *(f"-L{path}" for path in cpp_extension.library_paths()),
        *("-x", "c++", "-", "-ltorch_cpu", "-lc10"),
    ]
    versions = torch.__version__, str(torch.version.git_version)
    recipe = "\n".join((source, *(path.read_text() for path in headers), *command, *versions))
    root = os.environ.get("TORCH_EXTENSIONS_DIR") or cpp_extension.get_default_build_root()
    library = Path(root, f"{name}-{hashlib.sha256(recipe.encode()).hexdigest()[:16]}", f"{name}.so")
    if not library.exists():
        if shutil.which(compiler) is None:
            raise ValueError(
                f"{name} needs a C++ compiler, and there is no {compiler}: install g++, or name "
                "another in the environment variable CXX"
            )
        command += [f"-I{folder}" for folder in {path.parent for path in headers}]
        _build(name, source, command, library)
    torch.ops.load_library(library)


def _build(name: str, source: str, command: Sequence[str], library: Path) -> None:
    """Gives the library its name only once it is complete: another process may build it, too."""
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        built = Path(folder, library.name)
        try:
            subprocess.run(
                [*command, "-o", str(built)],
                input=source,
                text=True,
                capture_output=True,
                timeout=TIMEOUT_S,
                check=True,
            )
        except subprocess.CalledProcessError as error:
            lines = error.stderr.splitlines()
            said = next((line for line in lines if "error" in line), "; ".join(lines[-1:]))
            raise ValueError(f"{command[0]} cannot build {name}: {said.strip()}") from error
        except subprocess.TimeoutExpired as error:
            raise ValueError(f"{command[0]} built {name} for {TIMEOUT_S} s in vain") from error
        built.replace(library)
