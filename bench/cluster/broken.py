"""Tells a machine that fails at every task from tasks that fail everywhere.

On a broken machine tasks end within a second, so one worker there would take most of a sweep.
"""

from __future__ import annotations

from collections.abc import Sequence

from modescope.bench.cluster import members
from modescope.bench.cluster.folder import Folder
from modescope.bench.cluster.members import Member

FAILURES = ("crashed", "failed")
"""Statuses by which tasks end at once where the machine is broken."""

FIRST = 3
"""So many failures after a sentinel that failed, and the machine gets no more tasks."""


class BrokenMachine(Exception):
    """A worker's machine fails at every task."""


def check(folder: Folder, member: Member, statuses: Sequence[str]) -> None:
    """Raises BrokenMachine where a worker without a sentinel has failed at all its first tasks.

    `statuses`: of its tasks so far. Nothing is raised where workers of other machines could not
    measure the sentinel either, and none could: then it is the case that fails.
    """
    first = statuses[:FIRST]
    if len(first) < FIRST or any(status not in FAILURES for status in first):
        return
    host = member.process.host
    others = members.every(folder).values()
    fails_elsewhere = any(
        other.sentinel is False and other.process.host != host for other in others
    )
    if fails_elsewhere and not any(other.sentinel for other in others):
        return
    raise BrokenMachine(
        f"on {host} the sentinel and the first {FIRST} cases crashed or failed, so this worker "
        "begins no more; their rows say why; exclude the node if it is broken"
    )
