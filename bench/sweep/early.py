"""Starts the forkserver for a command line before that is composed, which takes a quarter second.

Only a plain command line tells so early whether torch's compiler is needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from modescope.bench.modes import backends
from modescope.bench.records.errors import UsageError
from modescope.bench.settings import preset
from modescope.bench.sweep import isolation

PLAIN = re.compile(
    r"(?P<key>mode|model|dtype|shape|budget|study|results_dir|threads|seed|resume|retry|order"
    r"|replicates|profile|memory|dry_run|timeout_s|(?:model|shape)\.[\w.]+)=(?P<value>.+)"
)
"""Matches a setting of which none but `mode` says whether something is compiled."""

SWEEPS = ("-m", "--multirun")


@contextmanager
def started(words: Sequence[str]) -> Iterator[None]:
    """Starts the forkserver if `words` plainly measure something; ends it if the block fails.

    The block reads the command line `words`. A forkserver that ran before is left as it is.
    """
    compiler = needs_compiler(words)
    begun = compiler is not None and isolation.start(compiler)
    try:
        yield
    except BaseException:
        if begun:
            isolation.end()
        raise


def needs_compiler(words: Sequence[str]) -> bool | None:
    """Returns whether what `words` measure is compiled; None if they do not plainly say so."""
    found = [PLAIN.fullmatch(word) for word in words if word not in SWEEPS]
    if not all(found):
        return None
    given = {match["key"]: match["value"] for match in found if match}
    try:
        kinds = {_compile_of(name) for name in given.get("mode", "compile").split(",")}
    except UsageError:  # which is told when the command line is read
        return None
    if any(
        backend.before and kinds.intersection(backend.modes)
        for backend in backends.BACKENDS.values()
    ):
        return None
    return kinds != {"none"}


def _compile_of(name: str) -> str:
    """Returns the `mode.compile` of a mode in conf/mode."""
    given = preset("mode", "mode", name)
    return str(given.get("mode", given)["compile"])
