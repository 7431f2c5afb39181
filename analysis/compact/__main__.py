"""`python -m analysis.compact`."""

import sys

from modescope.analysis.compact.command import main

if __name__ == "__main__":
    sys.exit(main())
