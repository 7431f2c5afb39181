"""Waits until the process that started it has ended, then kills what carries the mark.

The mark is the first line of its input, not an argument, by which it would find itself.
"""

from __future__ import annotations

import signal
import sys

from tests.gpu.running import end_all


def main() -> None:
    """Returns once no process with the mark is left."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    mark = sys.stdin.readline().strip()
    sys.stdin.read()  # ends when the other end is closed, by whatever death
    if mark:
        end_all(mark)


if __name__ == "__main__":
    main()
