"""Disturbs sweeps of several workers at random, and checks that no finished case is lost.

    python -m tests.torture [--rounds 20] [--seed N] [--plant NAME]

Workers and drivers are killed, stopped and restarted, the scheduler is away or forgets its jobs,
the disk is full or read-only, clocks differ. A round is repeated by its seed, which sets what
happens and when; the moments within processes differ. Exit status 1 if a round fails.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import sys
from collections.abc import Sequence

from tests.torture import disk, rounds
from tests.torture.plants import PLANTS


def main(words: Sequence[str]) -> int:
    """Exit status: 1 if a round has failed."""
    parser = argparse.ArgumentParser("python -m tests.torture")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, help="of the first round; the next ones follow")
    parser.add_argument("--plant", choices=PLANTS, help="a fault that should be found")
    given = parser.parse_args(words)
    seed = secrets.randbelow(10**6) if given.seed is None else given.seed
    without_disk = disk.own_mounts()
    for what, reason in _left_out(without_disk):
        print(f"skipped: {what} ({reason})")
    failed, number = [], -1
    for number in range(given.rounds):
        outcome = rounds.run(seed + number, without_disk is None, given.plant)
        state = "FAILED" if outcome.faults else "passed"
        print(f"round {number + 1}  seed {seed + number}  {state} in {outcome.seconds:.0f} s: "
              f"{', '.join(outcome.events)}", flush=True)  # fmt: skip
        if outcome.faults:
            failed.append(seed + number)
            print("\n".join(f"  {fault}" for fault in outcome.faults[:20]))
            plant = f" --plant {given.plant}" if given.plant else ""
            print(f"  files: {outcome.place}; again: python -m tests.torture --rounds 1 "
                  f"--seed {seed + number}{plant}", flush=True)  # fmt: skip
            if given.plant:
                break
    print(f"{number + 1 - len(failed)} of {number + 1} rounds passed")
    return 1 if failed else 0


def _left_out(without_disk: str | None) -> list[tuple[str, str]]:
    found = []
    if without_disk:
        found.append(("full disks and read-only ones", without_disk))
    if os.geteuid():
        found.append(("workers on machines of other names", "needs root"))
    if shutil.which(os.environ.get("CC", "cc")) is None:
        found.append(("clocks set apart", "needs a C compiler"))
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
