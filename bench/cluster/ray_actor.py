"""The actor of Ray that starts a worker. Ray gets it by value, so its nodes need not import it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence


class Starter:
    """Owns one worker, which ends in an orderly way when the process of this actor ends."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None

    def start(self, command: Sequence[str], variables: Mapping[str, str | None], log: str) -> None:
        """Starts the worker; variables that are None are not set."""
        merged = {**os.environ, **variables}
        with open(log, "ab") as output:
            self._child = subprocess.Popen(
                command,
                env={name: value for name, value in merged.items() if value is not None},
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def exit_status(self) -> int | None:
        """As `Popen.returncode`; None while the worker lives."""
        return self._child.poll() if self._child else None

    def end(self, seconds: float) -> None:
        """Ends the worker, which has so much time to end its case and itself."""
        if self._child is None:
            return
        self._child.terminate()
        try:
            self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
