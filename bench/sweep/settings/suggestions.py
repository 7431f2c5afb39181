"""Suggestions: the option, key or setting that was probably meant by what was typed."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from pathlib import PurePosixPath

from omegaconf import DictConfig, OmegaConf

from modescope.bench.records.paths import CONF, runner
from modescope.bench.sweep.settings.phase_settings import PHASE_SETTINGS
from modescope.bench.sweep.settings.schema import LIMITS, SCHEMAS, SECTIONS, Config
from modescope.bench.sweep.settings.spelling import VALUES, nearest, plain

_SYNONYMS = {
    "dtype": "precision",
    "shape.batch": "batch_size bs",
    "shape.seq": "seq_len sequence_length",
    "threads": "num_threads cores",
    "timeout_s": "timeout",
    "replicates": "repeat repeats runs",
    "results_dir": "out output output_dir",
    "train.lr": "learning_rate",
    "baseline.mode": "baseline",
    "max_error": "tolerance rtol",
}

KEYS = {word: key for key, words in _SYNONYMS.items() for word in words.split()}
"""Synonyms of keys."""

SWITCH = ["true", "false"]
"""The values of a boolean setting."""

_NAMELESS = {
    *("name", "library", "rank", "sizes", "experiment", "baseline"),
    *(phase.section for phase in PHASE_SETTINGS.values()),
}
"""Last parts of keys that are not set directly."""


def key_for(key: str) -> str | None:
    """The setting that an unknown key was probably meant to be."""
    exact = known_key(key)
    if exact:
        return exact
    word, known = _as_key(key), settings()
    by_last = _by_last(known)
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.75)
    last = word.rpartition(".")[2]
    close = close or [by_last[each] for each in difflib.get_close_matches(last, by_last, n=1)]
    return close[0] if close else None


def known_key(key: str) -> str | None:
    """The setting with this name, allowing other spellings, synonyms and a missing section."""
    word, known = _as_key(key), settings()
    last = word.rpartition(".")[2]
    return word if word in known else KEYS.get(last) or _by_last(known).get(last)


def _as_key(word: str) -> str:
    return word.strip().lower().replace("-", "_")


def _by_last(known: Sequence[str]) -> dict[str, str]:
    """Keys by their last part; of several, the first."""
    return {key.rpartition(".")[2]: key for key in reversed(known)}


def values(key: str) -> Sequence[str]:
    """All values of a setting; [] where it takes a number or a text."""
    if key in groups():
        return groups()[key]
    if key in LIMITS and (choices := LIMITS[key].choices):
        return [str(value) for value in choices if value is not None]
    section, _, name = key.rpartition(".")
    schema = SCHEMAS.get(section)
    kinds = {each.name: str(each.type) for each in fields(schema)} if schema else {}
    return SWITCH if "bool" in kinds.get(name, "") else []


def switch(word: str) -> str | None:
    """`profile=false` for `no-profile`; None for a key that is not switched on or off."""
    name = _as_key(word)
    key = known_key(name.removeprefix("no_"))
    allowed, off = values(key) if key else [], name.startswith("no_")
    if allowed == SWITCH:
        return f"{key}={str(not off).lower()}"
    return f"{key}=none" if off and "none" in allowed else None


def setting_for(word: str) -> str | None:
    """`mode=eager` for `eager`: the setting that a single word stands for."""
    key, separator, value = word.partition(":")
    if separator and key in settings():
        return f"{key}={value}"
    if setting := switch(word):
        return setting
    if _as_key(word) in settings():  # threads, which is an experiment, too
        return None
    for group, options in groups().items():
        for option in options:
            if plain(word) == plain(option):
                return f"{group}={option}"
    for key, words in VALUES.items():
        if plain(word) in words:
            return f"{key}={words[plain(word)]}"
    return own_model(word)


def close_option(word: str) -> str | None:
    """`mode=compile` for `complie`: the option that a single word was probably meant to be."""
    for group, options in groups().items():
        if close := nearest(group, word, options):
            return f"{group}={close}"
    return None


def is_option(word: str) -> bool:
    """Whether a group has this option."""
    return any(word in options for options in groups().values())


def own_model(word: str) -> str | None:
    """The command for a model that is named by its file or function; None for another word."""
    file, _, function = word.partition(":")
    if not (function or _is_file(file)):
        return None
    path = PurePosixPath(file)
    module = path.stem if _is_file(file) else file
    target = f"model=custom model.target={module}:{function or 'build'}"
    folder = "" if str(path.parent) == "." else f"PYTHONPATH={shlex.quote(str(path.parent))} "
    return f"{folder}{runner()} {target}"


def _is_file(word: str) -> bool:
    return word.endswith(".py") or "/" in word


@cache
def groups() -> dict[str, list[str]]:
    """The groups of modescope and their options."""
    order = ("mode", "model", "dtype", "phase", "budget", "experiment", "shape")
    return {group: sorted(file.stem for file in CONF.glob(f"{group}/*.yaml")) for group in order}


def settings() -> list[str]:
    """Every key that is set directly; those at the top level come first."""
    top = [each.name for each in fields(Config) if each.name not in _NAMELESS]
    below = [
        f"{section}.{each.name}" for section, kind in SECTIONS.items() for each in fields(kind)
    ]
    shapes = dict.fromkeys(f"shape.{size}" for model in groups()["model"] for size in sizes(model))
    return [*top, *shapes, *(key for key in below if key.rpartition(".")[2] not in _NAMELESS)]


def sizes(model: str) -> Sequence[str]:
    """The sizes of a built-in model, which shape.* sets; none for any other model."""
    return [str(size) for size in _built_in(model).get("shape", ())]


def libraries() -> list[str]:
    """The options of `model` that are libraries, whose architectures model.name chooses."""
    return [model for model in groups()["model"] if "library" in _built_in(model).model]


def _built_in(model: str) -> DictConfig:
    """The file of a built-in model; empty for any other model."""
    file = CONF / "model" / f"{model}.yaml"
    content = OmegaConf.load(file) if file.exists() else OmegaConf.create()
    assert isinstance(content, DictConfig)
    return content
