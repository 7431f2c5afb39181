"""What one override says: its values, and whether they are a list."""

from __future__ import annotations

import re
from typing import Any

from hydra.core.override_parser.types import ChoiceSweep, Override, QuotedString

TEXTS = ("study", "results_dir")
"""Keys whose values may hold commas and brackets."""

TAKES_LISTS = ("model.kwargs", "hydra")
"""Keys below which lists are values."""

PLAIN = re.compile(r"[\w.:/+-]+", re.ASCII)
"""A text that needs no quotes."""


def text_of(override: Override) -> str:
    """The override as it was typed."""
    return str(override.input_line)


def takes_lists(key: str) -> bool:
    """Whether a list is a value of `key`."""
    return key.startswith(tuple(f"{each}{separator}" for each in TAKES_LISTS for separator in "./"))


def is_list(override: Override) -> bool:
    """Whether it has a list of values, in quotes perhaps, where one is meant."""
    key, value = override.key_or_group, override._value
    if takes_lists(key):
        return False
    each_value = value.list if isinstance(value, ChoiceSweep) else [value]
    return any(_holds_list(each, key) for each in each_value)


def _holds_list(value: Any, key: str) -> bool:
    if isinstance(value, QuotedString):
        return key not in TEXTS and ("," in value.text or value.text.startswith("["))
    return isinstance(value, list)


def values_of(override: Override) -> list[str]:
    """Every single value, as it is written in a sweep."""
    value = override._value
    if isinstance(value, ChoiceSweep):
        return [text for each in value.list for text in _written(each)]
    if override.is_sweep_override():
        return [text_of(override).partition("=")[2]]
    return _written(value)


def _written(value: Any) -> list[str]:
    if isinstance(value, list):
        return [text for each in value for text in _written(each)]
    if isinstance(value, QuotedString) and ("," in value.text or value.text.startswith("[")):
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
