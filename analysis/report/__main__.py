"""Runs `python -m analysis.report`."""

import sys

from modescope.analysis.report.report import main

if __name__ == "__main__":
    sys.exit(main())
