"""`python -m bench.instructions`."""

import sys

from modescope.bench.tools.instructions.__main__ import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
