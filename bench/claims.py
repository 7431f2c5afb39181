"""`python -m bench.claims`."""

import sys

from modescope.bench.tools.claims.__main__ import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
