"""`python -m bench.peers`."""

import sys

from modescope.bench.tools.peers.__main__ import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
