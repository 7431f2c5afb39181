"""Whether the GPU is a pretended one. Imports no torch.

The seam of the steps is `modescope.bench.devices.cuda.find`: with the folder PRETENDED on
PYTHONPATH it finds a CPU with emulated CUDA graphs, by the same name and with the same methods.
"""

from __future__ import annotations

import os

from tests.helpers.paths import ROOT

VARIABLE = "MODESCOPE_PRETENDED_GPU"
PRETENDED = ROOT / "tests" / "gpu" / "pretended"
NOTE = "pretended GPU: shows that the steps run, nothing about CUDA"


def pretends() -> bool:
    """Whether this process runs on the pretended GPU."""
    return os.environ.get(VARIABLE) == "1"


def variables() -> dict[str, str]:
    """What makes a process that is started find the pretended GPU."""
    path = (str(PRETENDED), str(ROOT), os.environ.get("PYTHONPATH"))
    return {
        VARIABLE: "1",
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
        "OMP_NUM_THREADS": "1",
    }
