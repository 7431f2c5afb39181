"""Prints, for each child, the seconds from the request to its first line of our code.

Started as a script that imports what run.py does, as a child could have to import that again.
"""

from __future__ import annotations

import sys
import time

import modescope.bench.run  # noqa: F401
from modescope.bench.sweep import isolation


def main(children: int) -> None:
    for _ in range(1 + children):  # the first waits for the forkserver to import torch
        asked = time.monotonic()
        outcome = isolation.call(
            isolation.Task("tests.helpers.child_functions:moment", float), timeout_s=300
        )
        print(outcome.value - asked)


if __name__ == "__main__":
    main(int(sys.argv[1]))
