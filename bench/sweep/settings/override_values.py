"""Reads one override: its values, and whether they are a list."""

from __future__ import annotations

import re
from typing import Any

from hydra.core.override_parser.types import ChoiceSweep, Override, QuotedString

from modescope.bench.sweep.settings.schema import TEXTS

LIST_KEYS = ("model.kwargs.", "model.kwargs/", "model.inputs", "hydra.", "hydra/")
"""Prefixes of keys that take a list as one value."""

PLAIN = re.compile(r"[\w.:/+-]+", re.ASCII)
"""A text that needs no quotes."""


def text_of(override: Override) -> str:
    """The override as it was typed."""
    return str(override.input_line)


def choices(override: Override) -> list[Any]:
    """Its values: several in a sweep, otherwise one."""
    value = override._value
    return list(value.list) if isinstance(value, ChoiceSweep) else [value]


def is_list(override: Override) -> bool:
    """Whether it gives a list, quoted or not, where one value is expected."""
    key = override.key_or_group
    return not key.startswith(LIST_KEYS) and any(
        isinstance(value, list) or (_is_quoted_list(value) and key not in TEXTS)
        for value in choices(override)
    )


def _is_quoted_list(value: Any) -> bool:
    return isinstance(value, QuotedString) and ("," in value.text or value.text.startswith("["))


def values_of(override: Override) -> list[str]:
    """Each value, as it is written in a sweep."""
    if override.is_sweep_override() and not isinstance(override._value, ChoiceSweep):
        return [text_of(override).partition("=")[2]]
    return _written(choices(override))


def _written(value: Any) -> list[str]:
    if isinstance(value, list):
        return [text for each in value for text in _written(each)]
    if _is_quoted_list(value):
        words = value.text.strip("[]").split(",")
        return [word.strip().strip("'\"") for word in words if word.strip()]
    if isinstance(value, QuotedString) and PLAIN.fullmatch(value.text):
        return [value.text]
    text = Override._get_value_element_as_str(value)
    return [text.lower() if isinstance(value, bool) else text]


def rewritten(override: Override) -> str:
    """The override, with a list of values written as a sweep over them."""
    if not is_list(override):
        return text_of(override)
    return f"{override.key_or_group}={','.join(values_of(override))}"
