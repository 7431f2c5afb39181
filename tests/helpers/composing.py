"""Composes settings as Hydra does, but by OmegaConf alone: in 10 ms per case instead of 300.

tests/bench/test_command_line.py compares both ways.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cache
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from modescope.bench.mistakes import explain, usage_error
from modescope.bench.records.errors import UsageError
from modescope.bench.records.paths import CONF
from modescope.bench.resolve import Request, request
from modescope.bench.settings import Settings

GLOBAL = "# @package _global_"
"""First line of an option's file with keys of the whole configuration, not of its group alone."""


def requests(words: Sequence[str]) -> list[Request]:
    """The cases of `python run.py -m` with these settings; raises UsageError."""
    values: dict[str, list[str]] = {}
    try:
        for each in OverridesParser.create().parse_overrides(list(words)):
            key = each.key_or_group
            if key in values:
                raise UsageError(f"{each.input_line}: {key} is set twice")
            if each.is_delete() or each.is_hydra_override() or key == "experiment":
                raise UsageError(f"{each.input_line}: only settings of cases can be given here")
            swept = each.is_sweep_override()
            every = each.sweep_string_iterator() if swept else [each.get_value_string()]
            values[key] = [f"{each.get_key_element()}={value}" for value in every]
        jobs = itertools.product(*values.values())
        return [request(_config(job), job, sweep=True) for job in jobs]
    except (HydraException, OmegaConfBaseException) as error:
        raise explain(error, words) from error


def _config(job: Sequence[str]) -> DictConfig:
    overrides = OverridesParser.create().parse_overrides(list(job))
    main, usual = _main()
    groups = {
        each.key_or_group: str(each.value())
        for each in overrides
        if (CONF / each.key_or_group).is_dir()
    }
    files = [_file(*each) for each in {**usual, **groups}.items() if each[1] is not None]
    config = OmegaConf.merge(main, *files)  # one copy for all
    assert isinstance(config, DictConfig)
    OmegaConf.set_struct(config, True)
    for each in overrides:
        if each.key_or_group not in groups:
            adds = each.is_add() or each.is_force_add()
            OmegaConf.update(config, each.key_or_group, each.value(), force_add=adds)
    return config


@cache
def _main() -> tuple[DictConfig, dict[str, Any]]:
    """conf/config.yaml merged into the schema's defaults, and the default option of each group."""
    main = OmegaConf.load(CONF / "config.yaml")
    assert isinstance(main, DictConfig)
    groups = [dict(each) for each in main.defaults if not isinstance(each, str)]
    usual = {str(key): value for group in groups for key, value in group.items()}
    del main["defaults"], main["hydra"]
    config = OmegaConf.merge(OmegaConf.structured(Settings), main)
    assert isinstance(config, DictConfig)
    return config, {key: usual[key] for key in usual if not key.startswith("override ")}


@cache
def _file(group: str, option: str) -> DictConfig:
    """The content of conf/<group>/<option>.yaml, with full keys."""
    file = CONF / group / f"{option}.yaml"
    if not file.is_file():
        known = sorted(path.stem for path in file.parent.glob("*.yaml"))
        raise usage_error(f"{group}={option}", "no such option", known)
    text = file.read_text(encoding="utf-8")
    content = OmegaConf.create(text)
    return content if text.startswith(GLOBAL) else OmegaConf.create({group: content})  # type: ignore[return-value]
