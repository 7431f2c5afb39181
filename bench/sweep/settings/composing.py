"""Turns the command line into requests. Hydra only composes them here; it launches nothing."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from modescope.bench.records.errors import UsageError
from modescope.bench.records.paths import CONF
from modescope.bench.sweep.settings import command_line
from modescope.bench.sweep.settings.error_texts import CONFIGURATION_ERRORS, explain, os_error_text
from modescope.bench.sweep.settings.hydra_apart import apart
from modescope.bench.sweep.settings.request import Request, request
from modescope.bench.sweep.settings.schema import OF_SWEEP


def composed(arguments: Sequence[str] | None = None) -> list[Request]:
    """The requests, none for --help and the like; raises one UsageError with all problems.

    `arguments`: by default those of this process. Nothing of the process is changed, also where it
    is itself an application of Hydra.
    """
    # argparse wants options before the first override
    typed = sys.argv[1:] if arguments is None else arguments
    is_dry = command_line.DRY_RUN in typed
    settings = [each for each in typed if each != command_line.DRY_RUN]
    words = sorted(settings, key=command_line.is_override)
    options = command_line.check(words)
    with apart(words):
        requests, problems = _composed(words)
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


def _composed(words: Sequence[str]) -> tuple[list[Request], list[str]]:
    """The requests that Hydra composes of sys.argv, and what is wrong with the others."""
    requests: list[Request] = []
    problems: list[str] = []

    @hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")
    def compose(config: DictConfig) -> None:
        try:
            requests.append(request(config, HydraConfig.get()))
        except UsageError as problem:
            problems.append(str(problem))
        except CONFIGURATION_ERRORS as error:
            problems.append(explain(error, words))

    try:
        compose()
    except CONFIGURATION_ERRORS as error:
        raise UsageError(explain(error, words)) from error
    except BrokenPipeError:
        raise
    except OSError as error:  # Hydra makes its folders under results_dir before it calls us
        problem = f"{os_error_text(error)}; results_dir must be a folder that can be written"
        raise UsageError(problem) from error
    except NameError as error:  # Ctrl-C while Hydra opens a file: it then closes an unset name
        if isinstance(error.__context__, KeyboardInterrupt):
            raise error.__context__ from None
        raise
    return requests, problems
