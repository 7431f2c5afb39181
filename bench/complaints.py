"""Hydra's and OmegaConf's exceptions as one sentence that names the culprit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields

from hydra.errors import HydraException, MissingConfigException
from omegaconf.errors import OmegaConfBaseException

from bench import suggestions
from bench.schema import SECTIONS
from bench.spelling import nearest

CONFIGURATION_ERRORS = (HydraException, OmegaConfBaseException, ValueError)
"""What composing a configuration raises."""

KINDS = {
    "Integer": "must be a whole number",
    "Float": "must be a number",
    "Boolean": "must be true or false",
    "string": "must be one text",
}
"""OmegaConf's names of types."""

ANSWERS = {
    "is not Optional": "null means nothing here; name a value",
    "does not support deletion": "a setting cannot be taken away; change its value",
}
"""What to do about some of OmegaConf's messages."""

OWN_TARGET = "model.target=my_package.my_module:build"


def explain(error: BaseException, arguments: Sequence[str]) -> str:
    """What came (among `arguments`), what is allowed, and what to do, on at most two lines."""
    if isinstance(error, MissingConfigException):
        return _missing(error, arguments)
    cause = error.__cause__ if isinstance(error.__cause__, OmegaConfBaseException) else None
    message = str(cause or error)
    key = re.search(r"full_key: (\S+)", message)
    if key and re.search(r"Key '[^']+' (?:is not in struct|not in '[^']+')", message):
        return _unknown(key[1], arguments)
    kind = re.search(r"could not be converted to (\w+)|Cannot convert '\w+' to (\w+)", message)
    kind = kind or re.search(r"is not a valid (bool)", message)
    if key and kind:
        name = "Boolean" if kind[1] == "bool" else str(kind[1] or kind[2])
        return f"{_typed(key[1], arguments)}: {KINDS.get(name, f'must be {name}')}"
    for pattern, what_to_do in ANSWERS.items():
        if key and re.search(pattern, message):
            return f"{_typed(key[1], arguments)}: {what_to_do}"
    section = key[1] if key else ""
    if "Invalid type assigned" in message and section in SECTIONS:
        return f"{_typed(section, arguments)}: {keys_of_section(section)}"
    first = message.splitlines()[0] if message else type(error).__name__
    return f"{_typed(key[1], arguments)}: {first}" if key else " ".join(message.split())


def keys_of_section(section: str) -> str:
    """What to set instead of a section as a whole."""
    keys = ", ".join(f"{section}.{each.name}" for each in fields(SECTIONS[section]))
    return f"a section takes no value; its keys are {keys}"


def _missing(error: MissingConfigException, arguments: Sequence[str]) -> str:
    """A group without this option, or a configuration that is not there."""
    file = error.missing_cfg_file or ""
    if error.options is None:
        return f"{file}: no such configuration; leave --config-name and --config-path as they are"
    group, _, option = file.partition("/")
    if group == "hydra":
        group, _, option = file.rpartition("/")
    if group == "model":
        own = suggestions.own_model(option)
        if own:
            return (
                f"model={option}: a model of your own is named by the function that builds it: "
                f"{own}"
            )
    known = ", ".join(error.options)
    meant = nearest(group, option, error.options)
    hint = f", did you mean {meant}? Known are {known}" if meant else f"; known are {known}"
    own = f"; one of your own is model=custom {OWN_TARGET}" if group == "model" else ""
    return f"{group}={option}: no such option{hint}{own}"


def _unknown(key: str, arguments: Sequence[str]) -> str:
    """A key that is not there, and the one that was probably meant."""
    typed = _typed(key, arguments)
    if key.startswith("model.kwargs."):
        return f"{key}: no such key yet; put a + before model.kwargs to add it"
    if key.startswith("shape.") and (sizes := _sizes(key, typed, arguments)):
        return sizes
    meant = suggestions.key_for(key)
    if meant:
        value = typed.partition("=")[2] if "=" in typed else "..."
        return f"{key}: no such key, did you mean {meant}={value}?"
    return f"{key}: no such key; python run.py --cfg job lists the keys"


def _sizes(key: str, typed: str, arguments: Sequence[str]) -> str | None:
    """Which sizes the chosen model has; None where it is none of ours."""
    chosen = _typed("model", arguments).partition("=")[2] or "mlp"
    for model in chosen.split(","):
        if model == "custom":
            return f"{typed}: {sizes_are_arguments(key, typed.partition('=')[2])}"
        sizes = suggestions.sizes(model)
        if sizes and key.removeprefix("shape.") not in sizes:
            name = nearest("shape", key.removeprefix("shape."), sizes)
            hint = f", did you mean shape.{name}? The" if name else "; the"
            return f"{key}: no such key{hint} sizes of model={model} are {', '.join(sizes)}"
    return None


def sizes_are_arguments(key: str, value: object) -> str:
    """What to write instead of a size of a model of one's own."""
    size = f"{key.removeprefix('shape.')}: {value}"
    return f"the sizes of a custom model are its arguments, '+model.kwargs={{{size}}}'"


def _typed(key: str, arguments: Sequence[str]) -> str:
    """The argument that sets `key`, or the key alone."""
    setters = (each.lstrip("+~") for each in arguments)
    return next((each for each in setters if each.partition("=")[0] == key), key)
