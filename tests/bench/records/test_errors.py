"""An error as the reason of a record, and printing where letters are missing."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from contextlib import suppress

import pytest

from modescope.analysis import cli
from modescope.bench import run
from modescope.bench.records.errors import note_place, one_line
from modescope.bench.tools import cli as tools


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("a\n  b"), "ValueError: a b"),
        (ValueError(), "ValueError"),
        (ValueError("x" * 400), f"ValueError: {'x' * 287}…"),
    ],
)
def test_an_exception_is_shown_on_one_line(error: Exception, text: str) -> None:
    assert one_line(error) == text


def _measure() -> int:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(run, "collect", lambda words: [])
        status = run.main()
    print("1.02× → no_grad")
    return status


COMMANDS = {
    "run": _measure,
    "analysis": lambda: cli.exit_status(lambda: print("1.02× → no_grad")),
    "tools": lambda: tools.command(lambda words: print("1.02× → no_grad") or 0)([]),
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_commands_print_where_letters_are_missing(
    command: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="latin-1"))
    assert command() == 0
    sys.stdout.flush()
    assert written.getvalue().strip() == b"1.02\xd7 ? no_grad"


def test_an_error_has_its_places() -> None:
    error = ValueError("no room")
    with suppress(ValueError), note_place("call 9"), note_place("seq=277"):
        raise error
    assert one_line(error) == "seq=277: call 9: ValueError: no room"
