"""Overrides that Hydra would take and misread: lists, repetitions, packages, other launchers."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Override, OverrideType
from hydra.errors import HydraException

from bench import suggestions
from bench.complaints import keys_of_section
from bench.override_values import TEXTS, is_list, rewritten, takes_lists, text_of, values_of
from bench.records import UsageError
from bench.schema import SECTIONS

ONE_FOR_ALL = ("experiment", "order", "resume", "retry", *TEXTS)
"""Keys that hold for a sweep as a whole."""

BASIC = {
    "launcher": "hydra._internal.core_plugins.basic_launcher.BasicLauncher",
    "sweeper": "hydra._internal.core_plugins.basic_sweeper.BasicSweeper",
}
"""Others call the task in processes of their own, where the requests that it collects are lost, or
choose values by a result that it does not return."""

PLUGIN = re.compile(r"hydra[/.](launcher|sweeper)(\._target_)?")


def problems(arguments: Sequence[str], others: Sequence[str], sweep: bool) -> list[str]:
    """What is wrong with these overrides, in sentences; `others` are the options beside them."""
    try:
        overrides = [_parsed(argument) for argument in arguments]
    except UsageError as error:
        return [str(error)]
    wrong, fine = [], []
    for override in overrides:
        sentences = [sentence for rule in RULES if (sentence := rule(override))]
        wrong += sentences
        fine += [] if sentences else [override]
    return [
        *wrong,
        *_lists(fine, overrides, others),
        *([] if sweep else _sweeps(fine, overrides, others)),
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
    return _only_basic(text_of(override), named[1])


def _only_basic(typed: str, kind: str) -> str:
    return f"{typed}: cases run on this machine, one after another; leave hydra/{kind} as it is"


def _group_added(override: Override) -> str | None:
    """`+mode=`, `mode@x=`: a second option of a group, or one in another place."""
    group = override.key_or_group
    if group not in suggestions.groups() or override.type is OverrideType.DEL:
        return None
    if override.package is None and (override.type is OverrideType.CHANGE or is_list(override)):
        return None
    option = ",".join(values_of(override))
    return f"{text_of(override)}: a group has one option; write {group}={option}"


def _no_option(override: Override) -> str | None:
    """`mode=null`, `mode=8`: what no option of a group is called."""
    group, value = override.key_or_group, override.value()
    if group not in suggestions.groups() or override.type is OverrideType.DEL:
        return None
    if value is None or value == "" or isinstance(value, (bool, int, float)):
        known = ", ".join(suggestions.groups()[group])
        return f"{text_of(override)}: no such option; known are {known}"
    return None


def _endless(override: Override) -> str | None:
    """A sweep that is no list of values, or one over Hydra's own settings."""
    if override.key_or_group.startswith("hydra.sweeper.params"):
        return f"{text_of(override)}: what is swept is typed by itself, as in mode=eager,compile"
    if not override.is_sweep_override():
        return None
    if override.key_or_group.startswith("hydra"):
        return f"{text_of(override)}: a setting of Hydra's takes one value"
    if not override.is_discrete_sweep():
        return f"{text_of(override)}: an interval has no list of values; name them"
    return None


def _no_mapping(override: Override) -> str | None:
    """One value for what has several, each with a name."""
    key, value = override.key_or_group, override._value
    each_value = value.list if isinstance(value, ChoiceSweep) else [value]
    if override.type is OverrideType.DEL or all(isinstance(each, dict) for each in each_value):
        return None
    if key == "model.kwargs":
        return f"{text_of(override)}: arguments have names, as in '+model.kwargs={{width: 512}}'"
    if key in SECTIONS and key not in suggestions.groups():
        return f"{text_of(override)}: {keys_of_section(key)}"
    return None


def _one_for_all(override: Override) -> str | None:
    """A list of, or a sweep over, what a sweep has one of."""
    key = override.key_or_group
    if key not in ONE_FOR_ALL or not (is_list(override) or override.is_sweep_override()):
        return None
    first = next(iter(values_of(override)), "...")
    return f"{text_of(override)}: there is one {key} for the whole command, as in {key}={first}"


def _no_folder(override: Override) -> str | None:
    """A results_dir that the shell or Hydra would put somewhere else."""
    if override.key_or_group != "results_dir":
        return None
    folder = str(override.value() or "")
    if not folder:
        return f"{text_of(override)}: name a folder, as in results_dir=results"
    if folder.startswith("~"):
        return _tilde(text_of(override))
    return None


RULES: tuple[Callable[[Override], str | None], ...] = (
    _other_plugin,
    _group_added,
    _no_option,
    _endless,
    _no_mapping,
    _one_for_all,
    _no_folder,
)


# Of all together


def _lists(
    fine: Sequence[Override], overrides: Sequence[Override], others: Sequence[str]
) -> Iterator[str]:
    """Lists where one value is meant: Hydra takes the last option of a list of them."""
    lists = [each for each in fine if is_list(each)]
    for each in lists:
        if not values_of(each):
            yield f"{text_of(each)}: the list is empty; name a value"
    lists = [each for each in lists if values_of(each)]
    if not lists:
        return
    several = any(len(values_of(each)) > 1 for each in lists) or any(
        each.is_sweep_override() for each in overrides
    )
    meant = _command([rewritten(each) for each in overrides], others, several)
    culprits = " and ".join(map(text_of, lists))
    keys = " and ".join(dict.fromkeys(each.key_or_group for each in lists))
    takes = f"{keys} {'takes' if len(lists) == 1 else 'take'} one value at a time"
    yield f"{culprits}: {takes}, not a list; did you mean: {meant}"


def _sweeps(
    fine: Sequence[Override], overrides: Sequence[Override], others: Sequence[str]
) -> Iterator[str]:
    """Sweeps without -m."""
    sweeps = [each for each in fine if each.is_sweep_override() and not is_list(each)]
    if sweeps:
        meant = _command([rewritten(each) for each in overrides], others, True)
        culprits = " and ".join(map(text_of, sweeps))
        yield f"{culprits}: several values make a sweep; add -m: {meant}"


def _repeated(overrides: Sequence[Override], others: Sequence[str]) -> Iterator[str]:
    """Keys that are set twice, of which Hydra takes the last value."""
    by_key: dict[str, list[Override]] = {}
    for override in overrides:
        if override.type is not OverrideType.DEL:
            by_key.setdefault(override.key_or_group, []).append(override)
    for key, several in by_key.items():
        if len({tuple(values_of(each)) for each in several}) < 2:
            continue
        typed = dict.fromkeys(map(text_of, several))
        sentence = f"{' and '.join(typed)}: {key} is set {len(several)} times"
        if key in ONE_FOR_ALL or takes_lists(key):
            yield f"{sentence}; set it once"
            continue
        values = dict.fromkeys(value for each in several for value in values_of(each))
        rest = [rewritten(each) for each in overrides if each not in several]
        meant = _command([*rest, f"{key}={','.join(values)}"], others, True)
        yield f"{sentence}; set it once, or sweep: {meant}"


def _command(overrides: Sequence[str], others: Sequence[str], sweep: bool) -> str:
    """The command to type instead."""
    return shlex.join(["python", "run.py", *(["-m"] if sweep else []), *others, *overrides])
