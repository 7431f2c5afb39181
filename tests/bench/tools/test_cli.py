"""Command lines of the tools: errors and exit statuses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from modescope.bench.records.errors import UsageError
from modescope.bench.tools.cli import ToolParser, check_folder, command


def parser() -> ToolParser:
    made = ToolParser("python -m bench.tool", "What it does.")
    made.add_argument("--trials", type=int, default=3, help="how many")
    return made


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--trials", "x"], "argument --trials: invalid int value: 'x'"),
        (["--trails", "1"], "unrecognized arguments: --trails 1"),
        (["--tri", "1"], "unrecognized arguments: --tri 1"),  # no abbreviations
    ],
)
def test_a_parser_raises_usage_error(words: list[str], complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parser().parse_args(words)
    assert str(caught.value) == f"{complaint}; python -m bench.tool --help lists the options"


def test_help_shows_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(["--help"])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    assert out.startswith("usage: python -m bench.tool ")
    assert "how many (default: 3)" in out


def test_a_results_folder_is_created(tmp_path: Path) -> None:
    check_folder(tmp_path / "a" / "b")
    check_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


def test_a_folder_that_cannot_be_created_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"^--results-dir: .*/file/b: Not a directory; name anoth"):
        check_folder(tmp_path / "file" / "b")


def test_a_folder_that_cannot_be_written_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)  # tests may run as root
    with pytest.raises(UsageError, match=f"^--results-dir: {tmp_path} cannot be written; name"):
        check_folder(tmp_path)


def test_a_command_passes_on_its_status_and_arguments() -> None:
    @command
    def main(words: Sequence[str]) -> int:
        """The way it ends."""
        return len(words)

    assert main(["a", "b", "c"]) == 3
    assert main.__doc__ == "The way it ends."


@pytest.mark.parametrize(
    ("raised", "status", "out", "err"),
    [
        (UsageError("--only x: allowed is y"), 2, "", "error: --only x: allowed is y\n"),
        (KeyboardInterrupt(), 130, "stopped\n", ""),
    ],
)
def test_a_usage_error_ends_a_command_with_a_line_and_a_status(
    raised: BaseException, status: int, out: str, err: str, capsys: pytest.CaptureFixture[str]
) -> None:
    @command
    def main(words: Sequence[str]) -> int:
        raise raised

    assert main([]) == status
    assert capsys.readouterr() == (out, err)


def test_a_command_hides_no_other_error() -> None:
    @command
    def main(words: Sequence[str]) -> int:
        raise RuntimeError("a fault")

    with pytest.raises(RuntimeError, match="a fault"):
        main([])
