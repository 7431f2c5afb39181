"""The words of a versus."""

from __future__ import annotations

import pytest

from modescope.bench.records.errors import UsageError
from modescope.bench.versus.arguments import Arguments, parse

BOTH = ["old=git:main", "new=dir:."]


def test_the_words_are_taken_apart() -> None:
    words = ["old=a", "--gate", "exact", "new=git:HEAD", "--github"]
    settings = ["-m", "mode=eager", "study=mine", "replicates=5"]
    assert parse([*words, "--", *settings]) == Arguments(
        {"old": "a", "new": "git:HEAD"},
        ("--gate", "exact", "--github"),
        ("-m", "mode=eager", "replicates=5"),
        "mine",
    )


def test_without_settings_the_usual_case_and_study() -> None:
    assert (
        parse(BOTH)
        == parse([*BOTH, "--"])
        == Arguments({"old": "git:main", "new": "dir:."}, (), (), "main")
    )


@pytest.mark.parametrize(
    "option",
    [("--where", "~autocast"), ("--where", "mode=='x'"), ("--json", "threads=2.json"),
     ("--json", "old=a.json"), ("--html=a=b.html",)],
)  # fmt: skip
def test_values_of_options_are_no_settings_and_no_sides(option: tuple[str, ...]) -> None:
    assert parse([*option, *BOTH]) == parse([*BOTH, *option]) == Arguments(
        {"old": "git:main", "new": "dir:."}, option, (), "main"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "old= is missing"),
        (["new=a"], "old= is missing"),
        (["old=a", "--", "-m"], "new= is missing"),
        (["old=", "new=a"], "old= names nothing"),
        (["old=a", "old=b", "new=c"], "old= is given 2 times"),
        ([*BOTH, "mode=eager"], "mode=eager stands before --"),
        ([*BOTH, "~shape.batch"], "~shape.batch stands before --"),
        ([*BOTH, "--github", "mode=eager"], "mode=eager stands before --"),
        ([*BOTH, "-m", "mode=eager"], "-m stands before --"),
        (["--", *BOTH], "old=git:main stands after --"),
        ([*BOTH, "--", "study=a", "study=b"], "study= is given 2 times"),
    ],
)
def test_mistakes(words: list[str], message: str) -> None:
    with pytest.raises(UsageError) as error:
        parse(words)
    assert str(error.value).startswith(message)
