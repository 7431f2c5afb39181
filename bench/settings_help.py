"""The settings as `--help` lists them: what conf/config.yaml says, with the limits of `SCHEMAS`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from textwrap import fill
from typing import get_args, get_type_hints

from omegaconf import DictConfig, OmegaConf

from modescope.bench.mistakes import GROUPS
from modescope.bench.records.paths import CONF
from modescope.bench.settings import LIMITS, MOST, SCHEMAS

WIDTH = 80

_LINE = re.compile(r"( *)(\w+):(?: (.*?))?(?: +# (.*))?")
"""Matches a key of the file: its indentation, name, default and comment."""

_KEY = 32
"""Width of the first column."""


def defaults_help() -> str:
    """Returns the options that are chosen by default, as in `model=mlp mode=compile`."""
    groups = OmegaConf.load(CONF / "config.yaml").defaults
    chosen = (pair for entry in groups if isinstance(entry, DictConfig) for pair in entry.items())
    return " ".join(f"{group}={option}" for group, option in chosen if option and group in GROUPS)


def settings_help() -> str:
    """Returns each setting that is no group: its key, default, other values, and meaning.

    Headings and meanings are the comments of conf/config.yaml.
    """
    text = (CONF / "config.yaml").read_text(encoding="utf-8")
    settings = text.partition("\n\n")[2].partition("\n\nhydra:")[0]
    parts = settings.split("\n\n")[1:]  # before them, a comment to the reader of the file
    return "\n\n".join("\n".join(_lines(part.splitlines())) for part in parts)


def _lines(part: list[str]) -> Iterator[str]:
    yield f"  {part[0].removeprefix('# ')}"
    section = ""
    for line in part[1:]:
        found = _LINE.fullmatch(line)
        assert found, line
        indent, name, default, about = found.groups(default="")
        section = section if indent else ""
        if default:
            key, values = f"{section}{name}", ", ".join(_values(section, name, default))
        else:
            key, values, section = f"{name}.*", "", f"{name}."
        yield f"    {key:{_KEY}}{values}".rstrip()
        if about:
            yield fill(about, WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 8)


def _values(section: str, name: str, default: str) -> Iterator[str]:
    """Yields the default, then the other choices, or the limits of a number."""
    kind = get_type_hints(SCHEMAS[section.rstrip(".")])[name]
    limits = LIMITS.get(f"{section}{name}", {"choices": (), "least": None})
    switch = (True, False) if bool in (kind, *get_args(kind)) else ()
    texts = [str(choice).lower() for choice in limits["choices"] or switch if choice is not None]
    yield default
    yield from (text for text in texts if text != default)
    if limits["least"] is not None:
        upto = f" to {limits['most']:g}" if limits["most"] < MOST else ""
        yield f"from {limits['least']:g}{upto}"
