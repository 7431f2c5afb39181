"""Reads the arguments of a run with a Hydra application that only collects configurations."""

from __future__ import annotations

import io
import math
import os
import re
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr
from itertools import takewhile
from pathlib import Path
from typing import Any, get_type_hints

import hydra
from hydra.conf import HydraConf
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

import modescope
from modescope.bench.mistakes import GROUPS, explain, usage_error
from modescope.bench.records.cpu import quota_cores, usable_cores
from modescope.bench.records.errors import UsageError
from modescope.bench.records.paths import CONF, runner
from modescope.bench.resolve import Request, request
from modescope.bench.settings import OF_COMMAND, Settings, check_study_name
from modescope.bench.settings_help import defaults_help, settings_help

OVERRIDE = re.compile(r"~|[+~]*\w[\w./@$-]*=")
"""How an override (`key=value`) begins; all other words are options of Hydra and their values."""

VALUES = get_type_hints(Settings) | dict.fromkeys(GROUPS, str)
"""Maps each setting without a dot in its name to the type of its value."""

OWN_MODEL = re.compile(r"model=([\w./-]+:\w+(?:,[\w./-]+:\w+)*)")
"""Matches a function, or several, in place of the name of a model."""

HYDRA_ENGINES = ("hydra/launcher", "hydra/sweeper")
"""Groups of Hydra that allow only `basic`, because Hydra measures nothing here."""


def collect(words: Sequence[str]) -> list[Request]:
    """Returns a request for each case of the command line `words`; none for --help and the like.

    Raises UsageError, with a message of one line, for a mistake.
    """
    if "--version" in words:
        print(f"modescope {modescope.__version__}")
        return []
    composed: list[tuple[DictConfig, HydraConf]] = []

    @hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")
    def task(config: DictConfig) -> None:
        composed.append((config, HydraConfig.get()))

    words = [part for word in words for part in _settings_of(word)]
    _check(words)
    # Hydra adds keys only where a + allows it, and these are the compiler's, not ours
    words = [f"+{word}" if word.startswith("mode.options={") else word for word in words]
    ConfigStore.instance().store(name="schema", node=Settings)
    # for the text of --help
    OmegaConf.register_new_resolver("runner", runner, replace=True)
    OmegaConf.register_new_resolver("defaults", defaults_help, replace=True)
    OmegaConf.register_new_resolver("settings", settings_help, replace=True)
    OmegaConf.register_new_resolver("thread_counts", thread_counts, replace=True)
    os.environ["HYDRA_FULL_ERROR"] = "1"  # else it prints its exceptions and exits with 1
    said, argv = io.StringIO(), sys.argv
    try:
        # argparse wants options before the first override
        sys.argv = [*argv[:1], *sorted(words, key=lambda word: bool(OVERRIDE.match(word)))]
        with redirect_stderr(said):
            task()
    except SystemExit as end:
        if end.code:  # of argparse, which has printed its reason last
            reason = said.getvalue().splitlines()[-1].rpartition("error: ")[2]
            if reason.startswith("unrecognized"):
                reason += "; settings are written key=value, without dashes"
            raise UsageError(reason) from None
    except BrokenPipeError:
        raise
    except Exception as error:
        raise explain(error, words) from error
    finally:
        sys.argv = argv
    sys.stderr.write(said.getvalue())
    requests = [_request(config, job) for config, job in composed]
    for key in OF_COMMAND:
        if len({str(getattr(request.settings, key)) for request in requests}) > 1:
            raise usage_error(key, "takes one value per command")
    if requests and not words:
        default = requests[0].settings
        print(
            f"no settings: measures model={default.model.option} mode={default.mode.name} against "
            f"{default.baseline.mode}; {runner()} -m experiment=modes measures every mode, and "
            f"{runner()} --help lists the settings"
        )
    return requests


def collect_in_child(progress: object, words: Sequence[str]) -> list[Request]:
    """Returns `collect(words)`; is called in a child process, which passes `progress` (not used).

    The parent cannot do it if it is a Hydra application itself.
    """
    return collect(words)


def _settings_of(word: str) -> list[str]:
    """Returns what `word` stands for: a function in place of a model is that of model=custom."""
    own = OWN_MODEL.fullmatch(word)
    return ["model=custom", f"model.target={own[1]}"] if own else [word]


def _check(words: Sequence[str]) -> None:
    """Raises UsageError for words that Hydra would silently drop or use as the name of a folder."""
    _refuse_dashes(words)
    _refuse_spaces(words)
    seen: dict[str, str] = {}
    for word in filter(OVERRIDE.match, words):
        key, _, value = word.lstrip("+~").partition("=")
        group, _, folder = key.partition("/")
        if folder and group in GROUPS:
            raise usage_error(word, "no such key", meant=[f"{group}={folder}/{value}"])
        if key in seen:
            raise UsageError(f"{word}: {key} is set twice, as {seen[key]} before")
        if not value and not word.startswith("~") and not key.startswith("model.kwargs"):
            raise usage_error(word, "a value is missing")
        if key == "experiment" and "," in value:
            raise usage_error(word, "takes one name")
        if key in HYDRA_ENGINES and value != "basic":
            raise usage_error(word, "Hydra runs no case here; use cluster=slurm, ray or gpus")
        if key == "study" and value:  # before Hydra makes a folder elsewhere
            check_study_name(value.strip("'\""))
        seen[key] = word


def _refuse_dashes(words: Sequence[str]) -> None:
    """Raises UsageError for a setting that is written as an option, such as --mode compile."""
    for word, following in zip(words, [*words[1:], ""], strict=False):
        key, _, value = word.lstrip("-").replace("-", "_").partition("=")
        name = key.partition(".")[0]
        if not word.startswith("-") or name not in VALUES:
            continue
        if not (value or following.startswith("-") or OVERRIDE.match(following)):
            value = following
        usual = "true" if VALUES[name] in (bool, bool | None) else "VALUE"
        raise UsageError(f"{word}: settings have no dashes: {key}={value or usual}")


def _refuse_spaces(words: Sequence[str]) -> None:
    """Raises UsageError for a list that is written with spaces, such as mode=eager, compile."""
    for at, word in enumerate(words):
        parts = [word, *takewhile(_continues, words[at + 1 :])]
        if OVERRIDE.match(word) and len(parts) > 1 and "," in (word[-1:], parts[1][:1]):
            raise UsageError(f"{word}: a list has no spaces: {''.join(parts)}")


def _continues(word: str) -> bool:
    return not (word.startswith("-") or OVERRIDE.match(word))


def _request(config: DictConfig, job: HydraConf) -> Request:
    choices, sweep = job.runtime.choices, job.mode == RunMode.MULTIRUN
    for group in GROUPS:
        if group not in choices:  # Hydra would take the last option
            raise usage_error(group, f"takes one option and no list; a sweep is -m {group}=a,b")
    if job.sweeper.params and not sweep:
        raise usage_error(f"experiment={choices['experiment']}", "a sweep: add -m")
    folders = [source.path for source in job.runtime.config_sources if source.schema == "file"]
    own = [f"--config-dir={path}" for path in folders if Path(path) != CONF]
    typed: Any = OmegaConf.to_container(job.overrides.task, resolve=False)
    return request(config, [*own, *map(str, typed)], sweep, map(Path, folders))


def thread_counts() -> str:
    """Returns numbers of threads to sweep, such as `1,2,4,6`: powers of two, then the core count.

    The last number is how many cores this process may use, or its quota of CPU time if that is
    smaller, because more threads than the quota covers would wait for each other.
    """
    quota = quota_cores()
    most = usable_cores() if quota is None else max(1, min(usable_cores(), math.floor(quota)))
    below = [2**power for power in range(most.bit_length()) if 2**power < most]
    return ",".join(map(str, [*below, most]))
