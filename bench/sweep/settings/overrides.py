"""Refuses overrides that Hydra would misread: lists, repetitions, packages, other launchers."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from hydra.errors import HydraException

from modescope.bench.records.errors import UsageError
from modescope.bench.records.paths import runner
from modescope.bench.sweep.executors import EXECUTORS
from modescope.bench.sweep.settings import override_values, suggestions
from modescope.bench.sweep.settings.error_texts import keys_of_section
from modescope.bench.sweep.settings.override_values import choices, is_list, text_of, values_of
from modescope.bench.sweep.settings.schema import OF_SWEEP, SECTIONS, TEXTS

ONE_FOR_ALL = (*OF_SWEEP, *TEXTS)
"""Keys that take one value for a sweep as a whole."""

SWEEPERS = {"basic": "hydra._internal.core_plugins.basic_sweeper.BasicSweeper"}
"""Others choose values by the task's result, and the task here returns none."""

ONLY = {
    "launcher": "no such launcher; hydra/launcher is one of {}",
    "sweeper": "cases run in an order of their own; leave hydra/sweeper as it is",
}
"""What to do instead of choosing another one, by kind."""

PLUGIN = re.compile(r"hydra[/.](launcher|sweeper)(\._target_)?")


def problems(arguments: Sequence[str], others: Sequence[str], sweep: bool) -> list[str]:
    """What is wrong with these overrides, in sentences; `others` are the options beside them."""
    overrides, wrong, fine = [], [], []
    for argument in arguments:
        try:
            overrides.append(OverridesParser.create().parse_override(argument))
        except HydraException:
            return [f"{argument}: {_unreadable(argument)}"]
    for override in overrides:
        sentences = [f"{text_of(override)}: {each}" for rule in RULES for each in rule(override)]
        wrong += sentences
        fine += [] if sentences else [override]
    return [
        *wrong,
        *_lists(fine, overrides, others),
        *([] if sweep else _sweeps(fine, overrides, others)),
        *_repeated(overrides, others),
    ]


def check_plugins(hydra: Any) -> None:
    """Raises UsageError where a launcher without an executor or another sweeper was composed."""
    for kind in ("launcher", "sweeper"):
        target = hydra[kind]["_target_"]
        if target not in _plugins(kind).values():
            raise UsageError(f"hydra.{kind}._target_={target}: {_only(kind)}")


def _plugins(kind: str) -> dict[str, str]:
    """Names and targets of the launchers or sweepers that can be chosen."""
    if kind == "sweeper":
        return SWEEPERS
    return {name: executor.launcher for name, executor in EXECUTORS.items()}


def _only(kind: str) -> str:
    return ONLY[kind].format(", ".join(sorted(_plugins(kind))))


def _unreadable(argument: str) -> str:
    key, _, value = argument.partition("=")
    if value.startswith("~"):
        return _tilde(key, value)
    if any(value.count(pair[0]) != value.count(pair[1]) for pair in ("[]", "{}", "()")):
        return "brackets must come in pairs"
    if any(value.count(quote) % 2 for quote in "'\""):
        return "quotes must come in pairs"
    quoted = shlex.quote(f'{key}="{value}"')
    return f"cannot be read; if the value is one text, quote it: {quoted}"


def _tilde(key: str, value: str) -> str:
    home = value.strip("'\"").replace("~", "$HOME", 1)
    return f"the shell did not expand ~; write {key}={home}"


def _other_plugin(override: Override) -> Iterator[str]:
    if named := PLUGIN.fullmatch(override.key_or_group):
        known = _plugins(named[1])
        if override.value() not in (*known, *known.values()):
            yield _only(named[1])


def _group_added(override: Override) -> Iterator[str]:
    """`+mode=`, `mode@x=`: a second option of a group, or one in another place."""
    group = override.key_or_group
    if group not in suggestions.groups() or override.type is OverrideType.DEL:
        return
    changes = override.type is OverrideType.CHANGE or is_list(override)
    if not (changes and override.package is None):
        yield f"a group takes one option; write {group}={','.join(values_of(override))}"


def _no_option(override: Override) -> Iterator[str]:
    """`mode=null`, `mode=8`: values that cannot be the name of an option."""
    group, value = override.key_or_group, override.value()
    if group not in suggestions.groups() or override.type is OverrideType.DEL:
        return
    if value is None or value == "" or isinstance(value, (bool, int, float)):
        yield f"no such option; known are {', '.join(suggestions.groups()[group])}"


def _endless(override: Override) -> Iterator[str]:
    """A sweep that is not a list of values, or one over Hydra's own settings."""
    if override.key_or_group.startswith("hydra.sweeper.params"):
        yield "write swept settings directly, as in mode=eager,compile"
    elif override.is_sweep_override() and override.key_or_group.startswith("hydra"):
        yield "a setting of Hydra takes one value"
    elif override.is_sweep_override() and not override.is_discrete_sweep():
        yield "an interval cannot be swept; list the values"


def _no_mapping(override: Override) -> Iterator[str]:
    """A single value for a key that takes several named ones."""
    key = override.key_or_group
    if override.type is OverrideType.DEL or all(isinstance(v, dict) for v in choices(override)):
        return
    if key == "model.kwargs":
        yield "arguments need names, as in '+model.kwargs={width: 512}'"
    elif key in SECTIONS and key not in suggestions.groups():
        yield keys_of_section(key)


def _one_for_all(override: Override) -> Iterator[str]:
    """A list or a sweep for a key that takes one value per command."""
    key = override.key_or_group
    if key in ONE_FOR_ALL and (is_list(override) or override.is_sweep_override()):
        first = next(iter(values_of(override)), "...")
        yield f"{key} takes one value per command, as in {key}={first}"


def _no_folder(override: Override) -> Iterator[str]:
    """A results_dir that the shell or Hydra would put somewhere else."""
    if override.key_or_group != "results_dir":
        return
    folder = str(override.value() or "")
    if not folder:
        yield "name a folder, as in results_dir=results"
    elif folder.startswith("~"):
        yield _tilde(*text_of(override).split("=", 1))


RULES: tuple[Callable[[Override], Iterator[str]], ...] = (
    _other_plugin,
    _group_added,
    _no_option,
    _endless,
    _no_mapping,
    _one_for_all,
    _no_folder,
)


def _lists(
    fine: Sequence[Override], overrides: Sequence[Override], others: Sequence[str]
) -> Iterator[str]:
    """Lists where one value is expected: of a list of options, Hydra would take the last."""
    lists = []
    for each in filter(is_list, fine):
        if values_of(each):
            lists.append(each)
        else:
            yield f"{text_of(each)}: the list is empty; give a value"
    if not lists:
        return
    several = any(len(values_of(each)) > 1 for each in lists) or any(
        each.is_sweep_override() for each in overrides
    )
    meant = _command(overrides, others, several)
    culprits = " and ".join(map(text_of, lists))
    keys = " and ".join(dict.fromkeys(each.key_or_group for each in lists))
    takes = f"{keys} {'takes' if len(lists) == 1 else 'take'} one value at a time"
    yield f"{culprits}: {takes}, not a list; did you mean: {meant}"


def _sweeps(
    fine: Sequence[Override], overrides: Sequence[Override], others: Sequence[str]
) -> Iterator[str]:
    sweeps = [each for each in fine if each.is_sweep_override() and not is_list(each)]
    if sweeps:
        meant = _command(overrides, others, True)
        culprits = " and ".join(map(text_of, sweeps))
        yield f"{culprits}: several values make a sweep; add -m: {meant}"


def _repeated(overrides: Sequence[Override], others: Sequence[str]) -> Iterator[str]:
    """Keys that are set twice, for which Hydra would take the last value."""
    by_key: dict[str, list[Override]] = {}
    for override in overrides:
        if override.type is not OverrideType.DEL:
            by_key.setdefault(override.key_or_group, []).append(override)
    for key, several in by_key.items():
        if len({tuple(values_of(each)) for each in several}) < 2:
            continue
        typed = dict.fromkeys(map(text_of, several))
        sentence = f"{' and '.join(typed)}: {key} is set {len(several)} times"
        if key in ONE_FOR_ALL or key.startswith(override_values.LIST_KEYS):
            yield f"{sentence}; set it once"
            continue
        values = dict.fromkeys(value for each in several for value in values_of(each))
        rest = [each for each in overrides if each not in several]
        meant = _command(rest, others, True, f"{key}={','.join(values)}")
        yield f"{sentence}; set it once, or sweep: {meant}"


def _command(overrides: Sequence[Override], others: Sequence[str], sweep: bool, *added: str) -> str:
    """The command to type instead."""
    settings = (*map(override_values.rewritten, overrides), *added)
    return shlex.join([*runner().split(), *(["-m"] if sweep else []), *others, *settings])
