"""Runs `python -m analysis.compare`, which is `modescope diff`."""

import sys

from modescope.analysis.compare.command import main

if __name__ == "__main__":
    sys.exit(main())
