"""What ends a tool's command is a line and an exit status."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from modescope.bench.records.errors import UsageError
from modescope.bench.tools.cli import command


@pytest.mark.parametrize(
    ("raised", "status", "out", "err"),
    [
        (None, 2, "", ""),
        (UsageError("--only x: allowed is y"), 2, "", "error: --only x: allowed is y\n"),
        (NotADirectoryError(20, "Not a directory", "a/b"), 2, "", "error: a/b: Not a directory\n"),
        (KeyboardInterrupt(), 130, "stopped\n", ""),
    ],
)
def test_a_command_ends_with_a_line_and_a_status(
    raised: BaseException | None, status: int, out: str, err: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    @command
    def main(words: Sequence[str]) -> int:
        if raised:
            raise raised
        return len(words)

    assert main(["a", "b"]) == status
    assert capsys.readouterr() == (out, err)
