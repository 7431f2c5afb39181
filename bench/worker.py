"""`python -m bench.worker`."""

import sys

from modescope.bench.cluster.worker_process import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
