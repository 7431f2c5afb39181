"""Computes the fingerprint of a run: machine, software, and the source code that measures.

The fingerprint covers what can change a measured time. Only rows with equal fingerprints are ranked
together or reused for each other. Imports no torch.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from modescope.bench.records.cases import canonical_json, short_hash
from modescope.bench.records.environment import FINGERPRINT, Environment
from modescope.bench.records.paths import ROOT

MEASURING = (
    *("devices", "stats", "timing", "model", "modes", "evidence", "passes", "checking", "case"),
    "sweep/isolation.py",
    *("records/cases.py", "records/plans.py", "records/tolerances.py", "records/optimizers.py"),
    *("records/caches.py", "records/input_descriptions.py", "records/cpu.py"),
)
"""Folders and files of bench/ with code that runs while a case is measured."""

VARIABLES = (
    *("TORCH", "PYTORCH", "TRITON", "CUDA_", "CUBLAS", "CUDNN", "NVIDIA_TF32"),
    *("ATEN_", "ONEDNN_", "DNNL_", "OMP_", "GOMP_", "MKL_", "KMP_", "OPENBLAS_"),
    *("LD_PRELOAD", "MALLOC_", "GLIBC_TUNABLES", "PYTHONMALLOC", "PYTHONOPTIMIZE"),
)
"""Prefixes of environment variables that change how torch runs."""

VISIBLE = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
"""Variables that choose the devices which a process sees."""

HARMLESS = {
    *("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TRITON_HOME", "TRITON_DUMP_DIR"),
    *("TORCH_HOME", "TORCH_EXTENSIONS_DIR", "TORCH_TRACE", "TORCH_LOGS_OUT"),
    *(*VISIBLE, "CUDA_CACHE_PATH", "CUDA_VERSION"),
    *("PYTORCH_VERSION", "PYTORCH_BUILD_VERSION", "PYTORCH_BUILD_NUMBER"),
}
"""Variables that start with one of VARIABLES but change no timing: file locations, and the choice
of a device, which has its own column."""

PTXAS, TORCHS_PTXAS = "TRITON_PTXAS_PATH", "/torch/bin/ptxas"
"""A variable that torch sets itself when it compiles for a GPU, and the end of the value that torch
gives it."""

OLDEST, NEWEST = (2, 11), (2, 15)
"""First and last release of torch that modescope is tested with, by `make test-oldest` and `make
test-newest`; `make test` uses the release in constraints.txt.

pyproject.toml has the same lower bound. It has no upper bound, because pip would then replace a
newer torch that the user has.
"""


def environment_id(environment: Environment) -> str:
    """Returns a hash of the columns of `environment` that are part of the fingerprint."""
    return short_hash({name: getattr(environment, name) for name in FINGERPRINT})


def source_id(root: Path = ROOT) -> str:
    """Returns a hash of the names and contents of all files in MEASURING, below `root`."""
    places = [root / "bench" / name for name in MEASURING]
    files = [file for place in places for file in ([place], place.rglob("*.py"))[place.is_dir()]]
    return short_hash(
        {
            file.relative_to(root).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
            for file in files
        }
    )


def variables() -> str:
    """Returns the environment variables that change how torch runs, and their values, as JSON."""
    return canonical_json({name: os.environ[name] for name in os.environ if changes_torch(name)})


def changes_torch(name: str) -> bool:
    """Returns whether the environment variable `name` changes how torch runs."""
    if name == PTXAS and os.environ.get(name, "").endswith(TORCHS_PTXAS):
        return False
    return name.startswith(VARIABLES) and name not in HARMLESS


def untested_warning(torch_version: str | None) -> str | None:
    """Returns a warning if modescope was not tested with this version of torch, else None.

    Pre-releases and local builds of a tested release count as tested.
    """
    release = re.match(r"(\d+)\.(\d+)", torch_version or "")
    if release and OLDEST <= (int(release[1]), int(release[2])) <= NEWEST:
        return None
    oldest, newest = (".".join(map(str, release)) for release in (OLDEST, NEWEST))
    return (
        f"warning: modescope was tested with torch {oldest} to {newest}, not with "
        f"{torch_version or 'an unknown version'}; run `make selfcheck` before you rely on it"
    )
