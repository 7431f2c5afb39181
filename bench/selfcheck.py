"""`python -m bench.selfcheck`."""

import sys

from modescope.bench.tools.selfcheck.__main__ import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
