"""Turns the command line into requests. Hydra only composes them here; it launches nothing."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import hydra
from hydra._internal.core_plugins.basic_launcher import BasicLauncher
from hydra._internal.hydra import Hydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import RunMode
from omegaconf import DictConfig

from modescope.bench.records.errors import UsageError
from modescope.bench.records.paths import CONF
from modescope.bench.sweep.settings import command_line, launchers, overrides, sweeps
from modescope.bench.sweep.settings.error_texts import CONFIGURATION_ERRORS, explain, os_error_text
from modescope.bench.sweep.settings.request import Request, request
from modescope.bench.sweep.settings.schema import OF_SWEEP, register

register()
sweeps.register()
launchers.register()

# Hydra composes each job of a sweep twice, first to validate it, which takes 0.1 s. Here nothing is
# measured before all jobs are composed, so once is enough. Hydra divides by the time taken, not 0.
Sweeper.validate_batch_is_legal = lambda self, batch: time.sleep(1e-6)  # type: ignore[method-assign]

_instantiate_sweeper = Plugins.instantiate_sweeper
_mode_of_files = Hydra.get_mode


def _checked_sweeper(plugins: Plugins, **parts: Any) -> Sweeper:
    """Checks launcher and sweeper here, whether a file or an override chose them."""
    overrides.check_plugins(parts["config"].hydra)
    return sweeps.with_further(_instantiate_sweeper(plugins, **parts), parts["config"])


def _mode(composer: Hydra, config_name: str | None, overrides: list[str]) -> RunMode | None:
    """The value of hydra.mode; None where -m alone decides.

    Hydra composes everything once more to read it, which takes 0.1 s. Of our files none sets it.
    """
    sources = composer.config_loader.get_sources()
    theirs = any(source.scheme() == "file" and source.path != str(CONF) for source in sources)
    if theirs or any("hydra" in override for override in overrides):
        return _mode_of_files(composer, config_name, overrides)  # type: ignore[no-any-return]
    return None


def _basic_launcher(plugins: Plugins, **parts: Any) -> Launcher:
    """Other launchers would call the task in other processes, where its requests would be lost."""
    launcher = BasicLauncher()
    launcher.setup(**parts)
    return launcher


Hydra.get_mode = _mode  # type: ignore[assignment, method-assign]
Plugins.instantiate_sweeper = _checked_sweeper  # type: ignore[assignment, method-assign]
Plugins.instantiate_launcher = _basic_launcher  # type: ignore[assignment, method-assign]


def composed() -> list[Request]:
    """The requests, none for --help and the like; raises one UsageError with all problems."""
    requests: list[Request] = []
    problems: list[str] = []

    @hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")
    def compose(config: DictConfig) -> None:
        try:
            requests.append(request(config, HydraConfig.get()))
        except UsageError as problem:
            problems.append(str(problem))
        except CONFIGURATION_ERRORS as error:
            problems.append(explain(error, sys.argv[1:]))

    is_dry = command_line.DRY_RUN in sys.argv[1:]
    sys.argv[1:] = [each for each in sys.argv[1:] if each != command_line.DRY_RUN]
    # argparse wants options before the first override
    sys.argv[1:] = sorted(sys.argv[1:], key=command_line.is_override)
    options = command_line.check(sys.argv[1:])
    os.environ["HYDRA_FULL_ERROR"] = "1"  # exceptions reach us; explain() shortens them
    try:
        compose()
    except CONFIGURATION_ERRORS as error:
        raise UsageError(explain(error, sys.argv[1:])) from error
    except BrokenPipeError:
        raise
    except OSError as error:  # Hydra makes its folders under results_dir before it calls us
        problem = f"{os_error_text(error)}; results_dir must be a folder that can be written"
        raise UsageError(problem) from error
    except NameError as error:  # Ctrl-C while Hydra opens a file: it then closes an unset name
        if isinstance(error.__context__, KeyboardInterrupt):
            raise error.__context__ from None
        raise
    if problems:
        raise UsageError("\n".join(dict.fromkeys(problems)))
    if not requests and not command_line.prints_only(options):
        raise UsageError("these settings give no case; each setting needs at least one value")
    for key in OF_SWEEP:
        values = dict.fromkeys(str(request.config[key]).lower() for request in requests)
        if len(values) > 1:
            raise UsageError(f"{key}={','.join(values)}: {key} takes one value per command")
    return _dry(requests) if is_dry else requests


def _dry(requests: Sequence[Request]) -> list[Request]:
    """The requests, of which only is said what would be submitted."""
    if any("dry_run" not in request.launcher for request in requests):
        raise UsageError(
            f"{command_line.DRY_RUN}: says what would be submitted to a scheduler; add -m and "
            "hydra/launcher=submitit_slurm, or leave it out"
        )
    return [replace(each, launcher={**each.launcher, "dry_run": True}) for each in requests]
