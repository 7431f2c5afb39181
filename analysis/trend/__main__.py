"""`python -m analysis.trend`."""

import sys

from modescope.analysis.trend.command import main

if __name__ == "__main__":
    sys.exit(main())
