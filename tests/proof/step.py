"""A step of the proof, and its commands."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PYTHON, FOLDER = "{python}", "{folder}"
"""Stand for the interpreter and the folder of everything that the steps write."""


@dataclass(frozen=True)
class Setting:
    """How the commands of a call run."""

    python: str
    folder: Path
    rehearsal: bool = False
    machine: str = ""  # on another one, tests that passed do not count


@dataclass(frozen=True)
class Command:
    """The words of a command, which continues where it was stopped, and those of its rehearsal.

    `rehearsed` is None where they are the same; without words it is left out of a rehearsal.
    `judges` says that status 1 is a verdict on figures, which mean nothing in a rehearsal.
    """

    words: tuple[str, ...]
    rehearsed: tuple[str, ...] | None = None
    judges: bool = False

    def chosen(self, setting: Setting) -> tuple[str, ...]:
        """The words that the setting asks for, with placeholders."""
        return self.words if self.rehearsed is None or not setting.rehearsal else self.rehearsed

    def name(self, setting: Setting) -> str:
        """The command as it is recorded: the same in every folder, and with every interpreter."""
        return shlex.join(self.chosen(setting)).replace(f"'{PYTHON}'", "python")

    def is_fine(self, status: int, setting: Setting) -> bool:
        """Whether the command ended well."""
        return status == 0 or (status == 1 and self.judges and setting.rehearsal)

    def line(self, setting: Setting) -> list[str]:
        """What is started."""
        filled = (word.replace(FOLDER, str(setting.folder)) for word in self.chosen(setting))
        return [word.replace(PYTHON, setting.python) for word in filled]


def _nothing(folder: Path) -> str:
    return ""


def _at_once(folder: Path) -> str | None:
    return None


@dataclass(frozen=True)
class Step:
    """Commands that belong together, in at most `minutes`.

    It is finished when each command has ended with status 0. What it has reached is counted in the
    folder, so that a step that was stopped says how far it came.
    """

    name: str
    title: str
    commands: tuple[Command, ...]
    minutes: float = 9.0
    needs_gpu: bool = True
    reached: Callable[[Path], str] = _nothing
    lacks: Callable[[Path], str | None] = _at_once  # what earlier steps have to measure first
    repeats: bool = False  # cheap, and depends on everything before it
