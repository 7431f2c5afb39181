"""Settings as Hydra would compose them, by OmegaConf alone: nothing of Hydra starts here.

So a process that is itself an application of Hydra is not disturbed. A test holds both ways
against each other.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from modescope.bench.records.errors import UsageError
from modescope.bench.records.paths import CONF
from modescope.bench.resolve import Request, request
from modescope.bench.settings import Settings, mistake, usage_error

GLOBAL = "# @package _global_"
"""The first line of a file whose keys are not those of its group's section."""


def requests(words: Sequence[str]) -> list[Request]:
    """The cases of `python run.py -m` with these settings; raises UsageError."""
    try:
        return [request(_config(job), job, sweep=True) for job in _jobs(words)]
    except HydraException as error:
        raise UsageError(str(error).partition("\n")[0]) from error


def _jobs(words: Sequence[str]) -> Iterator[list[str]]:
    """The product of all values of settings; raises UsageError for a key that is set twice."""
    values: dict[str, list[str]] = {}
    for each in OverridesParser.create().parse_overrides(list(words)):
        if each.key_or_group in values:
            raise UsageError(f"{each.input_line}: {each.key_or_group} is set twice")
        if each.is_delete() or each.is_hydra_override() or each.key_or_group == "experiment":
            raise UsageError(f"{each.input_line}: settings of cases alone can be given here")
        swept = each.is_sweep_override()
        every = each.sweep_string_iterator() if swept else [each.get_value_string()]
        values[each.key_or_group] = [f"{each.get_key_element()}={value}" for value in every]
    return (list(job) for job in itertools.product(*values.values()))


def _config(job: Sequence[str]) -> DictConfig:
    overrides = OverridesParser.create().parse_overrides(list(job))
    chosen = {each.key_or_group: str(each.value()) for each in overrides}
    config = compose({key: option for key, option in chosen.items() if (CONF / key).is_dir()})
    for each in overrides:
        if (CONF / each.key_or_group).is_dir():
            continue
        try:
            adds = each.is_add() or each.is_force_add()
            OmegaConf.update(config, each.key_or_group, each.value(), force_add=adds)
        except OmegaConfBaseException as error:
            raise mistake(error, job) from error
    return config


def compose(options: Mapping[str, str]) -> DictConfig:
    """The settings of conf/config.yaml with these options of groups."""
    main, usual = _main()
    files = [
        _file(group, option)
        for group, option in {**usual, **options}.items()
        if option is not None and not group.startswith("override ")
    ]
    config = OmegaConf.merge(main, *files)  # one copy for all
    assert isinstance(config, DictConfig)
    OmegaConf.set_struct(config, True)
    return config


@cache
def _main() -> tuple[DictConfig, dict[str, Any]]:
    """Settings by the schema and conf/config.yaml, and the usual option of each group."""
    main = OmegaConf.load(CONF / "config.yaml")
    assert isinstance(main, DictConfig)
    groups = [dict(each) for each in main.defaults if not isinstance(each, str)]
    usual = {str(key): value for group in groups for key, value in group.items()}
    del main["defaults"], main["hydra"]
    config = OmegaConf.merge(OmegaConf.structured(Settings), main)
    assert isinstance(config, DictConfig)
    return config, usual


@cache
def _file(group: str, option: str) -> DictConfig:
    """An option of a group, with its keys below those of the whole configuration."""
    file = CONF / group / f"{option}.yaml"
    if not file.is_file():
        known = sorted(path.stem for path in file.parent.glob("*.yaml"))
        raise usage_error(f"{group}={option}", "no such option", known)
    text = file.read_text(encoding="utf-8")
    content = OmegaConf.create(text)
    return content if text.startswith(GLOBAL) else OmegaConf.create({group: content})  # type: ignore[return-value]
