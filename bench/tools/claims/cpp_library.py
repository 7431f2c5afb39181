"""An operator that is registered from C++. It is compiled once and kept."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import torch
from torch.utils import cpp_extension

from modescope.bench.records import files

SOURCE = """
#include <torch/library.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>

namespace {
at::Tensor scale(const at::Tensor& x, double s) { return at::mul(x, s); }
at::Tensor scale_meta(const at::Tensor& x, double s) { return at::empty_like(x); }
}

TORCH_LIBRARY(modescope_cpp, m) { m.def("scale(Tensor x, float s) -> Tensor"); }
TORCH_LIBRARY_IMPL(modescope_cpp, CPU, m) { m.impl("scale", scale); }
TORCH_LIBRARY_IMPL(modescope_cpp, Meta, m) { m.impl("scale", scale_meta); }
"""


def load() -> None:
    """Makes `torch.ops.modescope_cpp.scale(x, s)` callable.

    Compiles it with CXX, or else g++, in about ten seconds, unless the same command has already
    built it for this torch. The library is kept with torch's extensions (TORCH_EXTENSIONS_DIR).
    """
    command = [
        *(*(os.environ.get("CXX") or "g++").split(), "-shared", "-fPIC", "-O2", "-std=c++20"),
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
        *(f"-I{path}" for path in cpp_extension.include_paths()),
        *(f"-L{path}" for path in cpp_extension.library_paths()),
        *("-x", "c++", "-", "-ltorch_cpu", "-lc10"),
    ]
    recipe = "\n".join((SOURCE, *command, torch.__version__, str(torch.version.git_version)))
    root = os.environ.get("TORCH_EXTENSIONS_DIR") or cpp_extension.get_default_build_root()
    name = f"modescope_cpp-{hashlib.sha256(recipe.encode()).hexdigest()[:16]}"
    library = Path(root, name, "scale.so")
    if not library.exists():
        with files.atomic_write(library) as partial:
            built = [*command, "-o", str(partial)]
            subprocess.run(built, input=SOURCE, text=True, timeout=150, check=True)
    torch.ops.load_library(library)
