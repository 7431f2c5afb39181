"""The command line: `python run.py mode=reduce-overhead dtype=bf16`, with -m for sweeps."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

from modescope.bench.run import main

# All of modescope is imported as modescope.*. This folder on the path would hide a user's own
# packages called models, bench, analysis or conf.
if sys.path[0] == str(Path(__file__).resolve().parent):
    del sys.path[0]

if __name__ == "__main__":
    status = main()
    gc.freeze()  # else the interpreter looks for garbage in all imports before it ends
    sys.exit(status)
