"""What command lines of tools beside run.py share: values, complaints and exit statuses."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from bench import arguments
from bench.arguments import Parser, check_folder, check_threads, command
from bench.records import UsageError


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (arguments.count, "0", 0),
        (arguments.count, "12", 12),
        (arguments.positive, "1", 1),
        (arguments.seconds, "0.25", 0.25),
        (arguments.seconds, "1e-3", 1e-3),
    ],
)
def test_values_that_are_taken(read: Callable[[str], float], text: str, value: float) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "wrong", "asked"),
    [
        (arguments.count, ["-1", "1.5", "", "many"], "a whole number of 0 or more"),
        (arguments.positive, ["0", "00", "-1", "1.5", ""], "a whole number above 0"),
        (arguments.seconds, ["0", "-1", "nan", "inf", "1s", ""], "a number of seconds above 0"),
    ],
)
def test_values_that_are_refused(
    read: Callable[[str], float], wrong: Sequence[str], asked: str
) -> None:
    for text in wrong:
        with pytest.raises(argparse.ArgumentTypeError, match=f"^{text} is not {asked}$"):
            read(text)


def parser() -> Parser:
    made = Parser("python -m bench.tool", "What it does.")
    made.add_argument("--trials", type=arguments.count, default=3, help="how many")
    return made


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--trials", "x"], "argument --trials: x is not a whole number of 0 or more"),
        (["--trails", "1"], "unrecognized arguments: --trails 1"),
        (["--tri", "1"], "unrecognized arguments: --tri 1"),  # no abbreviations
    ],
)
def test_a_parser_complains_as_an_exception(words: list[str], complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parser().parse_args(words)
    assert str(caught.value) == f"{complaint}; python -m bench.tool --help says what is allowed"


def test_help_shows_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(["--help"])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    assert out.startswith("usage: python -m bench.tool ")
    assert "how many (default: 3)" in out


def test_threads_are_at_most_the_cores_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0, 5})
    check_threads(2)
    with pytest.raises(UsageError, match=r"^--threads 3: this process may use 2 cores$"):
        check_threads(3)


def test_a_folder_is_made(tmp_path: Path) -> None:
    check_folder(tmp_path / "a" / "b")
    check_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"^--results-dir: .*/file/b: Not a directory; name anoth"):
        check_folder(tmp_path / "file" / "b")


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)  # tests may run as root
    with pytest.raises(UsageError, match=f"^--results-dir: {tmp_path} cannot be written; name"):
        check_folder(tmp_path)


def test_a_command_passes_its_status_and_arguments_on() -> None:
    @command
    def main(words: Sequence[str]) -> int:
        """What it ends with."""
        return len(words)

    assert main(["a", "b", "c"]) == 3
    assert main.__doc__ == "What it ends with."


@pytest.mark.parametrize(
    ("raised", "status", "out", "err"),
    [
        (UsageError("--only x: allowed is y"), 2, "", "error: --only x: allowed is y\n"),
        (KeyboardInterrupt(), 130, "stopped\n", ""),
    ],
)
def test_a_command_ends_with_a_line_and_a_status(
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
