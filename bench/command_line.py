"""The arguments of run.py: an ordinary application of Hydra, whose task only collects the cases."""

from __future__ import annotations

import io
import math
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Any

import hydra
from hydra.conf import HydraConf
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from modescope.bench.records.cpu import quota_cores, usable_cores
from modescope.bench.records.errors import UsageError, os_error_text
from modescope.bench.records.paths import CONF, runner
from modescope.bench.resolve import Request, request
from modescope.bench.settings import OF_COMMAND, Settings, mistake, usage_error

OVERRIDE = re.compile(r"~|[+~]*\w[\w./@$-]*=")
"""The beginning of an override; other words are options of Hydra, or values of these."""

GROUPS = sorted(folder.name for folder in CONF.iterdir() if folder.is_dir())

FULL_ERROR = "HYDRA_FULL_ERROR"
"""A variable by which Hydra raises its exceptions, instead of printing them and exiting with 1."""

LAUNCHER = (
    "hydra/launcher={}: cases are only collected here; use cluster=slurm, cluster=ray or "
    "cluster=gpus"
)

MANY = 10
"""Cases whose composing takes seconds: Hydra needs 0.1 to 0.3 s for each."""


def collect(words: Sequence[str]) -> list[Request]:
    """The cases of a command, none for --help and the like; raises UsageError, in one line."""
    composed: list[tuple[DictConfig, HydraConf]] = []

    @hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")
    def task(config: DictConfig) -> None:
        composed.append((config, HydraConfig.get()))

    _check(words)
    ConfigStore.instance().store(name="schema", node=Settings)
    OmegaConf.register_new_resolver("runner", runner, replace=True)  # for the text of --help
    OmegaConf.register_new_resolver("thread_counts", thread_counts, replace=True)
    said = io.StringIO()
    try:
        # argparse wants options before the first override
        with _arguments(sorted(words, key=is_override)), redirect_stderr(said):
            task()
    except SystemExit as end:
        if end.code:  # of argparse, which has printed its reason last, or of `Sweep`
            reason = end.code if isinstance(end.code, str) else said.getvalue().splitlines()[-1]
            raise UsageError(reason.rpartition("error: ")[2]) from None
    except BrokenPipeError:
        raise
    except Exception as error:
        if isinstance(error.__context__, KeyboardInterrupt):  # Hydra closed a file it never opened
            raise error.__context__ from None
        if os.environ.get(FULL_ERROR) == "1":
            raise
        raise explain(error, words) from error
    sys.stderr.write(said.getvalue())
    requests = [_request(config, job) for config, job in composed]
    for key in OF_COMMAND:
        if len({str(getattr(each.settings, key)) for each in requests}) > 1:
            raise usage_error(key, "takes one value per command")
    return requests


def collect_in_child(progress: object, words: Sequence[str]) -> list[Request]:
    """`collect` for `bench.sweep.isolation`, where Hydra may be the caller's own."""
    return collect(words)


def is_override(word: str) -> bool:
    """Whether a word sets something."""
    return bool(OVERRIDE.match(word))


def _check(words: Sequence[str]) -> None:
    """Refuses what Hydra would take for something else: of a repeated key the last value."""
    seen: dict[str, str] = {}
    for word in filter(is_override, words):
        key, _, value = word.lstrip("+~").partition("=")
        if key in seen:
            raise UsageError(f"{word}: {key} is set twice, as {seen[key]} before")
        if not value and not word.startswith("~") and not key.startswith("model.kwargs"):
            raise usage_error(word, "a value is missing")
        seen[key] = word


@contextmanager
def _arguments(words: Sequence[str]) -> Iterator[None]:
    """Within it Hydra reads these arguments and raises its errors; children inherit neither."""
    argv, before = sys.argv, os.environ.get(FULL_ERROR)
    sys.argv, os.environ[FULL_ERROR] = [*argv[:1], *words], "1"
    try:
        yield
    finally:
        sys.argv = argv
        del os.environ[FULL_ERROR]
        if before is not None:
            os.environ[FULL_ERROR] = before


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


class Sweep(Callback):
    """Hydra calls this before it composes the cases of a sweep.

    Only SystemExit ends the command: Hydra makes other exceptions warnings.
    """

    def on_multirun_start(self, config: DictConfig, **further: Any) -> None:
        """Refuses what would lose cases, and says how many will be composed."""
        choices, task = config.hydra.runtime.choices, config.hydra.overrides.task
        if choices["hydra/launcher"] != "basic":
            raise SystemExit(LAUNCHER.format(choices["hydra/launcher"]))
        if choices["hydra/sweeper"] != "basic":
            raise SystemExit(
                f"hydra/sweeper={choices['hydra/sweeper']}: it needs results, and cases are "
                "measured after all are composed; leave it out"
            )
        parser = OverridesParser.create(GlobalHydra.instance().config_loader())
        params = [f"{key}={value}" for key, value in (config.hydra.sweeper.params or {}).items()]
        swept = {each.get_key_element(): each for each in parser.parse_overrides([*params, *task])}
        if "experiment" in swept and swept["experiment"].is_sweep_override():
            raise SystemExit(f"{swept['experiment'].input_line}: experiment takes one name")
        discrete = [each for each in swept.values() if each.is_discrete_sweep()]
        count = math.prod(len(list(each.sweep_iterator())) for each in discrete)
        if not count:
            raise SystemExit("no case: each setting of a sweep needs at least one value")
        if count >= MANY:
            print(f"composing {count} cases", flush=True)


def thread_counts() -> str:
    """`1,2,4,6`: powers of two, and as many threads as this process has cores.

    No more than its quota of CPU time covers, because threads beyond that wait for each other.
    """
    quota = quota_cores()
    most = usable_cores() if quota is None else max(1, min(usable_cores(), math.floor(quota)))
    below = [2**power for power in range(most.bit_length()) if 2**power < most]
    return ",".join(map(str, [*below, most]))


def explain(error: Exception, words: Sequence[str] = ()) -> UsageError:
    """An exception of Hydra, OmegaConf or the system in one line."""
    if isinstance(error, MissingConfigException) and error.options is not None:
        file = error.missing_cfg_file or ""
        if file.startswith("hydra/launcher/"):
            return UsageError(LAUNCHER.format(file.rpartition("/")[2]))
        group, _, option = (
            file.rpartition("/") if file.startswith("hydra/") else file.partition("/")
        )
        return usage_error(f"{group}={option}", "no such option", error.options)
    cause = error.__cause__ if isinstance(error, HydraException) else error
    if isinstance(cause, OmegaConfBaseException):
        return mistake(cause, words)
    if isinstance(error, OverrideParseException):
        return UsageError(f"{error.override}: cannot be read; a setting is written key=value")
    if isinstance(error, OSError) and not isinstance(error, MissingConfigException):
        return UsageError(
            f"{os_error_text(error)}; results_dir must be a folder that can be written"
        )
    text = " ".join(str(error).partition("\nSee https://")[0].split())
    if match := re.match(r"Ambiguous value for argument '(.*?)' 1\.", text):
        return usage_error(match[1], "several values make a sweep; add -m")
    return UsageError(text or type(error).__name__)
