"""Runs `python -m bench.versus`; see `bench.versus.command`."""

import sys

from modescope.bench.versus.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
