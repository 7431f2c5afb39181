"""The engine `gpus`: measures chunks in processes of this machine, one for each of its GPUs."""

from __future__ import annotations

import os
import pickle
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

from modescope.bench.cluster.chunk import Chunk, measure_chunk
from modescope.bench.cluster.distribute import States, distribute, require_gpus
from modescope.bench.records.cpu import physical_cores, which_cores
from modescope.bench.records.errors import UsageError, terminate
from modescope.bench.resolve import Request
from modescope.bench.sweep.isolation import describe_exit
from modescope.bench.sweep.sweep import Submission


class Gpus:
    """The `Engine` (bench.cluster.distribute) that starts a process for each GPU.

    `gpus` lists UUIDs of GPUs, as in CUDA_VISIBLE_DEVICES.
    """

    name = "gpus"
    detaches = False

    def __init__(self, gpus: Sequence[str]) -> None:
        self._gpus = gpus
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def submit(self, chunks: Sequence[Chunk], folder: Path, path: str) -> list[str]:
        """Starts a process for each chunk; a job's id is the UUID of its GPU. See `Engine`."""
        parts = share_cores(len(self._gpus))
        for chunk, gpu, part in zip(chunks, self._gpus, parts, strict=False):
            with (folder / f"{gpu.replace('/', '_')}.log").open("ab") as log:
                process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "modescope.bench.cluster.gpus"],
                    env={**os.environ, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": gpu},
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # Ctrl-C reaches this process, which ends them
                )
            assert process.stdin
            with suppress(BrokenPipeError):  # it has ended, as `states` will tell
                process.stdin.write(pickle.dumps((chunk, gpu, part)))
                process.stdin.flush()
            self._processes[gpu] = process
        return [*self._processes]

    def states(self, jobs: Sequence[str]) -> States:
        """Returns how each process ended; None for a process that runs. See `Engine`."""
        codes = {job: self._processes[job].poll() for job in jobs}
        return {job: None if code is None else describe_exit(code) for job, code in codes.items()}


def submit(requests: Sequence[Request]) -> Submission | None:
    """Measures a sweep on the GPUs of this machine; see `bench.sweep.sweep.ENGINES`."""
    gpus = visible_gpus()
    if not gpus:
        raise UsageError("cluster=gpus: nvidia-smi names no GPU; leave out cluster=gpus")
    return distribute(require_gpus(requests), Gpus(gpus), len(gpus))


def visible_gpus() -> list[str]:
    """Returns UUIDs of the GPUs or parts (MIG) in CUDA_VISIBLE_DEVICES; of all GPUs if unset."""
    try:
        command = ["nvidia-smi", "-L"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    found = re.findall(r"UUID: (GPU-[\w-]+)\)", done.stdout)
    uuids: list[str] = []
    for word in os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(found)).split(","):
        word = word.strip()
        if word.isdecimal() and int(word) < len(found):
            word = found[int(word)]
        if not word.startswith(("GPU-", "MIG-")):
            break  # CUDA ignores the rest, too
        uuids.append(word)
    return uuids


def share_cores(count: int) -> list[tuple[int, ...]]:
    """Returns the numbers of the cores that each of `count` processes shall use.

    If there are enough physical cores, no two processes share one and slow each other down.
    """
    usable = which_cores()
    whole = physical_cores(usable)
    dealt = whole if len(whole) >= count else [[core] for core in usable]
    share = max(1, len(dealt) // count)
    parts = [tuple(chain(*dealt[n * share : (n + 1) * share])) for n in range(count)]
    return [part or tuple(usable) for part in parts]


def main() -> None:
    """Measures the chunk that the parent sends to stdin as a pickle; ends when the parent ends."""
    chunk, gpu, part = pickle.load(sys.stdin.buffer)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, part)
    signal.signal(signal.SIGTERM, terminate)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    measure_chunk(chunk, gpu)


def _end_with_parent() -> None:
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
