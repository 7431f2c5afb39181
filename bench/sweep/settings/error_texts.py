"""Exceptions of Hydra, OmegaConf and the system as one sentence that names the wrong argument."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields

from hydra.errors import HydraException, MissingConfigException
from omegaconf.errors import OmegaConfBaseException

from modescope.bench.records.paths import runner
from modescope.bench.sweep.settings import suggestions
from modescope.bench.sweep.settings.schema import SECTIONS
from modescope.bench.sweep.settings.spelling import nearest

CONFIGURATION_ERRORS = (HydraException, OmegaConfBaseException, ValueError)
"""What composing a configuration raises."""

KINDS = {
    "Integer": "must be a whole number",
    "Float": "must be a number",
    "Boolean": "must be true or false",
    "bool": "must be true or false",
    "string": "must be a single text",
}
"""What a value must be, by OmegaConf's name of its type."""

ADVICE = {
    "is not Optional": "null is not allowed; give a value",
    "does not support deletion": "a setting cannot be removed; change its value",
}
"""What to say instead of some of OmegaConf's messages."""

OWN_TARGET = "model.target=my_package.my_module:build"


def explain(error: BaseException, arguments: Sequence[str]) -> str:
    """The argument at fault, what is allowed and what to do, on at most two lines."""
    if isinstance(error, MissingConfigException):
        return _missing(error)
    cause = error.__cause__ if isinstance(error.__cause__, OmegaConfBaseException) else None
    message = str(cause or error)
    match = re.search(r"full_key: (\S+)", message)
    if match is None:
        return " ".join(message.split())
    key = match[1]
    if re.search(r"Key '[^']+' (?:is not in struct|not in '[^']+')", message):
        return _unknown(key, arguments)
    if below := _below(key, arguments):  # a text, so it has no keys
        return _unknown(below, arguments)
    return f"{_typed(key, arguments)}: {_refused(key, message)}"


def _refused(key: str, message: str) -> str:
    """What is wrong with the value of `key`, which exists."""
    kind = re.search(r"(?:could not be converted|Cannot convert '\w+') to (\w+)", message)
    kind = kind or re.search(r"is not a valid (bool)", message)
    if kind:
        return KINDS.get(kind[1], f"must be {kind[1]}")
    for pattern, what_to_do in ADVICE.items():
        if re.search(pattern, message):
            return what_to_do
    if "Invalid type assigned" in message and key in SECTIONS:
        return keys_of_section(key)
    return message.splitlines()[0]


def os_error_text(error: OSError) -> str:
    """The file and the system's message about it."""
    return f"{error.filename}: {error.strerror}" if error.filename else str(error)


def keys_of_section(section: str) -> str:
    """What to set instead of a section as a whole."""
    keys = ", ".join(f"{section}.{each.name}" for each in fields(SECTIONS[section]))
    return f"a section takes no value; its keys are {keys}"


def _missing(error: MissingConfigException) -> str:
    """The error for a missing option of a group, or a missing configuration."""
    file = error.missing_cfg_file or ""
    if error.options is None:
        return f"{file}: no such configuration; leave out --config-name and --config-path"
    group, _, option = file.rpartition("/") if file.startswith("hydra/") else file.partition("/")
    if group == "model" and (own := suggestions.own_model(option)):
        return f"model={option}: name your own model by the function that builds it: {own}"
    known = ", ".join(error.options)
    meant = nearest(group, option, error.options)
    hint = f", did you mean {meant}? Known are {known}" if meant else f"; known are {known}"
    own = f"; for your own, use model=custom {OWN_TARGET}" if group == "model" else ""
    return f"{group}={option}: no such option{hint}{own}"


def _unknown(key: str, arguments: Sequence[str]) -> str:
    """The error for an unknown key, with the one that was probably meant."""
    typed = _typed(key, arguments)
    for section in ("model.kwargs", "model.inputs"):
        if key.startswith(f"{section}."):
            return f"{key}: no such key yet; put a + before {section} to add it"
    if key.startswith("shape.") and (sizes := _sizes(key, typed, arguments)):
        return sizes
    meant = suggestions.key_for(key)
    if meant:
        value = typed.partition("=")[2] if "=" in typed else "..."
        return f"{key}: no such key, did you mean {meant}={value}?"
    return f"{key}: no such key; {runner()} --cfg job lists the keys"


def _sizes(key: str, typed: str, arguments: Sequence[str]) -> str | None:
    """The sizes that the chosen model has, or how to add one to a model of the user's."""
    chosen = _typed("model", arguments).partition("=")[2] or "mlp"
    for model in chosen.split(","):
        sizes = suggestions.sizes(model)
        if model == "custom" or not sizes:
            if key == "shape.scale":
                return f"{typed}: model={model} has no size to scale; set a size by its name"
            return f"{key}: no such key yet; put a + before shape to add it"
        if key.removeprefix("shape.") not in sizes:
            name = nearest("shape", key.removeprefix("shape."), sizes)
            hint = f", did you mean shape.{name}? The" if name else "; the"
            return f"{key}: no such key{hint} sizes of model={model} are {', '.join(sizes)}"
    return None


def _below(key: str, arguments: Sequence[str]) -> str | None:
    """A key of `key` itself, such as phase.optimizer, that an argument sets."""
    setters = (each.lstrip("+~").partition("=")[0] for each in arguments)
    texts = (each for each in setters if each.startswith(f"{key}."))
    return next(texts, None) if key not in SECTIONS else None


def _typed(key: str, arguments: Sequence[str]) -> str:
    """The argument that sets `key`, or the key alone."""
    setters = (each.lstrip("+~") for each in arguments)
    return next((each for each in setters if each.partition("=")[0] == key), key)
