"""What was probably meant: the nearest option, key or setting for what somebody typed."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path, PurePosixPath

from omegaconf import DictConfig, OmegaConf

from bench.schema import SECTIONS, Config
from bench.spelling import VALUES, nearest, plain

CONF = Path(__file__).resolve().parents[1] / "conf"

KEYS = {
    "precision": "dtype",
    "batch_size": "shape.batch",
    "bs": "shape.batch",
    "seq_len": "shape.seq",
    "sequence_length": "shape.seq",
    "num_threads": "threads",
    "cores": "threads",
    "timeout": "timeout_s",
    "repeat": "replicates",
    "repeats": "replicates",
    "runs": "replicates",
    "out": "results_dir",
    "output": "results_dir",
    "output_dir": "results_dir",
    "learning_rate": "train.lr",
    "tolerance": "max_error",
    "rtol": "max_error",
}
"""Other people's words for keys."""

_NAMELESS = {"name", "rank", "sizes", "experiment"}
"""Last parts of keys that nobody sets by themselves."""


def key_for(key: str) -> str | None:
    """The setting that an unknown key was probably meant to be."""
    known = settings()
    word = key.strip().lower().replace("-", "_")
    if word in known:
        return word
    last = word.rpartition(".")[2]
    if last in KEYS:
        return KEYS[last]
    by_last: dict[str, str] = {}
    for each in known:
        by_last.setdefault(each.rpartition(".")[2], each)
    if last in by_last and by_last[last] != word:
        return by_last[last]
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.75)
    close = close or [by_last[each] for each in difflib.get_close_matches(last, by_last, n=1)]
    return close[0] if close else None


def setting_for(word: str) -> str | None:
    """`mode=eager` for `eager`: the setting that a word alone was probably meant to be."""
    key, separator, value = word.partition(":")
    if separator and key in settings():
        return f"{key}={value}"
    for group, options in groups().items():
        if word in options:
            return f"{group}={word}"
    for group, words in VALUES.items():
        if plain(word) in words:
            return f"{group}={words[plain(word)]}"
    if _is_file(word) or ":" in word:
        return own_model(word)
    for group, options in groups().items():
        close = nearest(group, word, options)
        if close:
            return f"{group}={close}"
    return None


def own_model(word: str) -> str | None:
    """The overrides for a model that is named by its file or function; None for another word."""
    if _is_file(word):
        return f"model=custom model.target={PurePosixPath(word).stem}:build"
    return f"model=custom model.target={word}" if ":" in word else None


def _is_file(word: str) -> bool:
    return word.endswith(".py") or "/" in word


def groups() -> dict[str, list[str]]:
    """Our groups and their options."""
    order = ("mode", "model", "dtype", "phase", "budget", "experiment", "shape")
    return {group: sorted(file.stem for file in CONF.glob(f"{group}/*.yaml")) for group in order}


def settings() -> list[str]:
    """Every key with a use of its own; those at the top come first."""
    top = [each.name for each in fields(Config) if each.name not in _NAMELESS]
    below = [
        f"{section}.{each.name}" for section, kind in SECTIONS.items() for each in fields(kind)
    ]
    shapes = dict.fromkeys(f"shape.{size}" for model in groups()["model"] for size in sizes(model))
    return [*top, *shapes, *(key for key in below if key.rpartition(".")[2] not in _NAMELESS)]


def sizes(model: str) -> Sequence[str]:
    """The sizes that shape.* of one of our models sets; none for any other."""
    file = CONF / "model" / f"{model}.yaml"
    content = OmegaConf.load(file) if file.exists() else OmegaConf.create()
    assert isinstance(content, DictConfig)
    return [str(size) for size in content.get("shape", ())]
