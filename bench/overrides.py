"""Overrides that Hydra would take and misread: lists, repetitions, packages, other launchers."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Override, OverrideType, QuotedString
from hydra.errors import HydraException

from bench import suggestions
from bench.records import UsageError

TEXTS = ("study", "results_dir")
"""Keys whose values may hold commas and brackets."""

ONE_FOR_ALL = ("experiment", "order", "resume", "retry", *TEXTS)
"""Keys that hold for a sweep as a whole."""

TAKES_LISTS = ("model.kwargs", "model.sizes", "hydra")
"""Keys that take lists, as do those below them."""

BASIC = {
    "launcher": "hydra._internal.core_plugins.basic_launcher.BasicLauncher",
    "sweeper": "hydra._internal.core_plugins.basic_sweeper.BasicSweeper",
}
"""Others call the task in processes of their own, where the requests that it collects are lost, or
choose values by a result that it does not return."""

PLAIN = re.compile(r"[\w.:/+-]+", re.ASCII)
"""A text that needs no quotes."""

PLUGIN = re.compile(r"hydra[/.](launcher|sweeper)(\._target_)?")


def problems(arguments: Sequence[str], others: Sequence[str], sweep: bool) -> list[str]:
    """What is wrong with these overrides, in sentences; `others` are the options beside them."""
    try:
        overrides = [_parsed(argument) for argument in arguments]
    except UsageError as error:
        return [str(error)]
    single = (rule(override) for override in overrides for rule in RULES)
    return [
        *filter(None, single),
        *_lists(overrides, others),
        *([] if sweep else _sweeps(overrides, others)),
        *_repeated(overrides, others),
    ]


def check_plugins(hydra: Any) -> None:
    """Raises UsageError where another launcher or sweeper than Hydra's basic one was composed."""
    for kind, basic in BASIC.items():
        target = hydra[kind]["_target_"]
        if target != basic:
            raise UsageError(_only_basic(f"hydra.{kind}._target_={target}", kind))


def _parsed(argument: str) -> Override:
    try:
        return OverridesParser.create().parse_override(argument)
    except HydraException as error:
        raise UsageError(_unreadable(argument)) from error


def _unreadable(argument: str) -> str:
    key, _, value = argument.partition("=")
    if value.startswith("~"):
        return _tilde(argument)
    if any(value.count(pair[0]) != value.count(pair[1]) for pair in ("[]", "{}", "()")):
        return f"{argument}: brackets must come in pairs"
    if any(value.count(quote) % 2 for quote in "'\""):
        return f"{argument}: quotes must come in pairs"
    quoted = shlex.quote(f'{key}="{value}"')
    return f"{argument}: cannot be read; if the value is one text, quote it: {quoted}"


def _tilde(argument: str) -> str:
    key, _, value = argument.partition("=")
    home = value.strip("'\"").replace("~", "$HOME", 1)
    return f"{argument}: the shell left ~ as it is; write {key}={home}"


# Of one override


def _other_plugin(override: Override) -> str | None:
    named = PLUGIN.fullmatch(override.key_or_group)
    if not named or override.value() in ("basic", BASIC[named[1]]):
        return None
    return _only_basic(_typed(override), named[1])


def _only_basic(typed: str, kind: str) -> str:
    return f"{typed}: cases run on this machine, one after another; leave hydra/{kind} as it is"


def _group_added(override: Override) -> str | None:
    """`+mode=`, `mode@x=`: a second option of a group, or one in another place."""
    group = override.key_or_group
    if group not in suggestions.groups() or override.type is OverrideType.DEL:
        return None
    if override.package is None and (override.type is OverrideType.CHANGE or _is_list(override)):
        return None
    return (
        f"{_typed(override)}: a group has one option; write {group}={','.join(_values(override))}"
    )


def _no_option(override: Override) -> str | None:
    """`mode=null`, `mode=8`: what no option of a group is called."""
    group, value = override.key_or_group, override.value()
    if group not in suggestions.groups() or override.type is OverrideType.DEL:
        return None
    if value is None or value == "" or isinstance(value, (bool, int, float)):
        known = ", ".join(suggestions.groups()[group])
        return f"{_typed(override)}: no such option; known are {known}"
    return None


def _endless(override: Override) -> str | None:
    """A sweep that is no list of values, or one over Hydra's own settings."""
    if override.key_or_group.startswith("hydra.sweeper.params"):
        return f"{_typed(override)}: what is swept is typed by itself, as in mode=eager,compile"
    if not override.is_sweep_override():
        return None
    if override.key_or_group.startswith("hydra"):
        return f"{_typed(override)}: a setting of Hydra's takes one value"
    if not override.is_discrete_sweep():
        return f"{_typed(override)}: an interval has no list of values; name them"
    return None


def _one_for_all(override: Override) -> str | None:
    """A list of, or a sweep over, what a sweep has one of."""
    key = override.key_or_group
    if key not in ONE_FOR_ALL or not (_is_list(override) or override.is_sweep_override()):
        return None
    first = next(iter(_values(override)), "...")
    return f"{_typed(override)}: there is one {key} for the whole command, as in {key}={first}"


def _no_folder(override: Override) -> str | None:
    """A results_dir that the shell or Hydra would put somewhere else."""
    if override.key_or_group != "results_dir":
        return None
    folder = str(override.value() or "")
    if not folder:
        return f"{_typed(override)}: name a folder, as in results_dir=results"
    if folder.startswith("~"):
        return _tilde(_typed(override))
    return None


RULES: tuple[Callable[[Override], str | None], ...] = (
    _other_plugin,
    _group_added,
    _no_option,
    _endless,
    _one_for_all,
    _no_folder,
)


# Of all together


def _lists(overrides: Sequence[Override], others: Sequence[str]) -> Iterator[str]:
    """Lists where one value is meant: Hydra takes the last option of a list of them."""
    lists = [each for each in overrides if each.key_or_group not in ONE_FOR_ALL and _is_list(each)]
    for each in lists:
        if not _values(each):
            yield f"{_typed(each)}: the list is empty; name a value"
    lists = [each for each in lists if _values(each)]
    if not lists:
        return
    several = any(len(_values(each)) > 1 for each in lists) or any(
        each.is_sweep_override() for each in overrides
    )
    meant = _command([_rewritten(each) for each in overrides], others, several)
    culprits = " and ".join(map(_typed, lists))
    keys = " and ".join(dict.fromkeys(each.key_or_group for each in lists))
    takes = f"{keys} {'takes' if len(lists) == 1 else 'take'} one value at a time"
    yield f"{culprits}: {takes}, not a list; did you mean: {meant}"


def _sweeps(overrides: Sequence[Override], others: Sequence[str]) -> Iterator[str]:
    """Sweeps without -m."""
    sweeps = [each for each in overrides if each.is_sweep_override() and not _is_list(each)]
    sweeps = [each for each in sweeps if each.key_or_group not in ONE_FOR_ALL]
    if sweeps:
        meant = _command([_rewritten(each) for each in overrides], others, True)
        culprits = " and ".join(map(_typed, sweeps))
        yield f"{culprits}: several values make a sweep; add -m: {meant}"


def _repeated(overrides: Sequence[Override], others: Sequence[str]) -> Iterator[str]:
    """Keys that are set twice, of which Hydra takes the last value."""
    by_key: dict[str, list[Override]] = {}
    for override in overrides:
        if override.type is not OverrideType.DEL:
            by_key.setdefault(override.key_or_group, []).append(override)
    for key, several in by_key.items():
        if len({tuple(_values(each)) for each in several}) < 2:
            continue
        typed = dict.fromkeys(map(_typed, several))
        sentence = f"{' and '.join(typed)}: {key} is set {len(several)} times"
        if key in ONE_FOR_ALL or _takes_lists(key):
            yield f"{sentence}; set it once"
            continue
        values = dict.fromkeys(value for each in several for value in _values(each))
        rest = [_rewritten(each) for each in overrides if each not in several]
        meant = _command([*rest, f"{key}={','.join(values)}"], others, True)
        yield f"{sentence}; set it once, or sweep: {meant}"


def _command(overrides: Sequence[str], others: Sequence[str], sweep: bool) -> str:
    """The command to type instead."""
    return shlex.join(["python", "run.py", *(["-m"] if sweep else []), *others, *overrides])


# What an override says


def _typed(override: Override) -> str:
    return str(override.input_line)


def _takes_lists(key: str) -> bool:
    return any(key == each or key.startswith((f"{each}.", f"{each}/")) for each in TAKES_LISTS)


def _is_list(override: Override) -> bool:
    """Whether it has a list of values, in quotes perhaps, where one is meant."""
    key, value = override.key_or_group, override._value
    if _takes_lists(key):
        return False
    each_value = value.list if isinstance(value, ChoiceSweep) else [value]
    return any(_is_list_of(each, key) for each in each_value)


def _is_list_of(value: Any, key: str) -> bool:
    if isinstance(value, QuotedString):
        return key not in TEXTS and ("," in value.text or value.text.startswith("["))
    return isinstance(value, list)


def _values(override: Override) -> list[str]:
    """Every single value, as it is written in a sweep."""
    value = override._value
    if isinstance(value, ChoiceSweep):
        return [text for each in value.list for text in _written(each)]
    if override.is_sweep_override():
        return [_typed(override).partition("=")[2]]
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


def _rewritten(override: Override) -> str:
    """The override, with a list of values written as a sweep over them."""
    if not _is_list(override):
        return _typed(override)
    return f"{override.key_or_group}={','.join(_values(override))}"
