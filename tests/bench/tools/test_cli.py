"""Command lines of the tools: errors and exit statuses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from modescope.bench.records.errors import UsageError
from modescope.bench.tools.cli import ToolParser, check_folder, command


def test_a_parser_raises_usage_error() -> None:
    parser = ToolParser("python -m bench.tool", "What it does.")
    parser.add_argument("--trials", type=int)
    for words in (["--trials", "x"], ["--trails", "1"], ["--tri", "1"]):  # no abbreviations
        with pytest.raises(UsageError, match=r"; python -m bench\.tool --help lists the options$"):
            parser.parse_args(words)


def test_a_results_folder_is_created_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        check_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"^--results-dir: .*/file/b: Not a directory"):
        check_folder(tmp_path / "file" / "b")
    monkeypatch.setattr("os.access", lambda path, mode: False)  # tests may run as root
    with pytest.raises(UsageError, match=f"^--results-dir: {tmp_path} cannot be written"):
        check_folder(tmp_path)


@pytest.mark.parametrize(
    ("raised", "status", "out", "err"),
    [
        (None, 2, "", ""),
        (UsageError("--only x: allowed is y"), 2, "", "error: --only x: allowed is y\n"),
        (KeyboardInterrupt(), 130, "stopped\n", ""),
    ],
)
def test_a_usage_error_ends_a_command_with_a_line_and_a_status(
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
