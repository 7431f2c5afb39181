"""`python -m analysis.why`."""

import sys

from modescope.analysis.why.command import main

if __name__ == "__main__":
    sys.exit(main())
