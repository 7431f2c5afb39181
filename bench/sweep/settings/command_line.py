"""Checks the arguments of run.py before Hydra composes them; refuses what Hydra would misread."""

from __future__ import annotations

import difflib
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from hydra._internal.utils import get_args_parser

from modescope.bench.records.errors import UsageError
from modescope.bench.records.paths import runner
from modescope.bench.sweep.settings import suggestions
from modescope.bench.sweep.settings.overrides import problems

OVERRIDE = re.compile(r"~|[+~]*\w[\w./@$-]*=")
"""The beginning of an override."""

COMMANDS = ("run", "multirun", "cfg", "shell_completion", "info")
"""Options of Hydra that exclude each other."""

BOOLEANS = ("true", "false", "yes", "no", "on", "off", "1", "0")
"""Values that Hydra takes for a boolean setting."""

SWEEP = ("-m", "--multirun")

DRY_RUN = "--dry-run"
"""An option of ours: hydra.launcher.dry_run=true."""


def check(arguments: Sequence[str]) -> Namespace:
    """Hydra's options among `arguments`; raises UsageError for what Hydra would misread."""
    options = _options(arguments)
    if options.help or options.hydra_help or options.shell_completion:
        return options
    sweep = options.multirun or "hydra.mode=MULTIRUN" in options.overrides
    others = [word for word in arguments if word not in options.overrides and word not in SWEEP]
    wrong = problems(options.overrides, others, sweep)
    if wrong:
        raise UsageError("\n".join(dict.fromkeys(wrong)))
    return options


def is_override(argument: str) -> bool:
    """Whether `argument` sets something; others are Hydra's options or values of these."""
    return bool(OVERRIDE.match(argument))


def prints_only(options: Namespace) -> bool:
    """Whether Hydra only prints something, so that no case is composed."""
    names = ("help", "hydra_help", "cfg", "info", "shell_completion")
    return any(getattr(options, name) for name in names)


def _options(arguments: Sequence[str]) -> Namespace:
    parser = get_args_parser()

    def refuse(message: str) -> NoReturn:
        raise UsageError(_misused(parser, arguments, message))

    parser.error = refuse  # type: ignore[method-assign]
    options, unknown = parser.parse_known_args(arguments)
    strangers = [word for word in unknown if word.startswith("-")]
    if strangers:
        refuse(f"{strangers[0]}: no such option")
    bare = [word for word in [*options.overrides, *unknown] if not is_override(word)]
    if bare:
        raise UsageError("\n".join(_bare(bare)))
    given = [name for name in COMMANDS if getattr(options, name)]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(f'--{name}' for name in given)}: give one of them")
    if options.experimental_rerun:
        raise UsageError(
            "--experimental-rerun: not supported; a report gives the command that measures a case "
            "again"
        )
    if options.config_dir and not Path(options.config_dir).is_dir():
        raise UsageError(f"--config-dir {options.config_dir}: no such folder")
    if options.hydra_help and options.overrides:
        raise UsageError(f"--hydra-help: takes no settings; {runner()} --help lists settings")
    if options.resolve and not options.cfg:
        raise UsageError("--resolve: needs --cfg job")
    return options


def _misused(parser: ArgumentParser, arguments: Sequence[str], message: str) -> str:
    """The error for wrong options; recognises a setting that is written as an option."""
    known = {text for action in parser._actions for text in action.option_strings}
    for argument, after in zip(arguments, [*arguments[1:], ""], strict=True):
        option, equals, value = argument.partition("=")
        if not option.startswith("-") or option in known:
            continue
        if not (equals or after.startswith("-") or is_override(after)):
            value = after
        meant = _setting(option.lstrip("-"), value)
        if meant:
            return f"{argument}: a setting is written without dashes{meant}"
    for argument in arguments:
        option = argument.partition("=")[0]
        close = difflib.get_close_matches(option, known, n=1, cutoff=0.7)
        if option.startswith("--") and option not in known and close:
            return f"{argument}: no such option, did you mean {close[0]}?"
    return f"{message}; {runner()} --hydra-help lists the options"


def _setting(word: str, value: str) -> str | None:
    """Suggests the setting that `--word value` was probably meant to be, or its values."""
    if not (value and suggestions.known_key(word)) and (setting := suggestions.setting_for(word)):
        return f", did you mean {setting}?"
    key = suggestions.key_for(word)
    return _assigned(key, value) if key else None


def _assigned(key: str, value: str = "") -> str:
    """Suggests `key` with this value, or lists its values if this one is missing or wrong."""
    values = suggestions.values(key)
    if value and (values != suggestions.SWITCH or value.lower() in BOOLEANS):
        return f", did you mean {key}={value}?"
    return f"; {key} is one of {', '.join(values)}" if values else f", did you mean {key}=...?"


def _bare(words: Sequence[str]) -> list[str]:
    """What to do about words that are neither settings nor options."""
    rest, sentences = [word for word in words if word != "="], []
    while rest:
        word = rest.pop(0)
        key = suggestions.known_key(word)
        if key and rest and _is_value(rest[0], of=word):
            value = rest.pop(0)
            meant = _assigned(key, value.lstrip("="))
            word = f"{word} {value}"
        elif setting := suggestions.setting_for(word):
            meant = f", did you mean {setting}?"
        elif key:
            meant = _assigned(key)
        elif setting := suggestions.close_option(word):
            meant = f", did you mean {setting}?"
        else:
            meant = f"; {runner()} --cfg job lists the keys"
        sentences.append(f"{word or repr(word)}: a setting is written key=value{meant}")
    return sentences or ["=: a setting is written key=value, without spaces"]


def _is_value(word: str, of: str) -> bool:
    """Whether `word` belongs to the key `of` before it: `mode eager`, but not `compile bf16`."""
    if suggestions.is_option(word):
        return not suggestions.is_option(of)
    return suggestions.known_key(word) is None
