"""Hydra for one command inside of a process that may use Hydra itself: all is as before afterwards.

Hydra keeps its state in one place per process and a part of what we need only by replacing its
functions. Both last as long as the context.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from hydra._internal import hydra as hydra_module
from hydra._internal.core_plugins import basic_launcher
from hydra._internal.core_plugins.basic_launcher import BasicLauncher
from hydra._internal.hydra import Hydra
from hydra.core import utils
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.core.singleton import Singleton
from hydra.core.utils import JobRuntime
from hydra.plugins.config_source import ConfigSource
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import RunMode
from hydra.version import VersionBase
from omegaconf.basecontainer import BaseContainer

from modescope.bench.records.paths import CONF
from modescope.bench.sweep.settings import launchers, overrides, sweeps
from modescope.bench.sweep.settings.schema import register

OF_A_RUN = (GlobalHydra, HydraConfig, JobRuntime, VersionBase)
"""Hydra's singletons that hold the state of a run."""

_instantiate_sweeper = Plugins.instantiate_sweeper
_mode_of_files = Hydra.get_mode
_header_of = ConfigSource._get_header_dict


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


def _not_twice(sweeper: Sweeper, batch: Sequence[Any]) -> None:
    """Hydra composes each job of a sweep twice, first to validate it, which takes 0.1 s.

    Here nothing is measured before all jobs are composed, so once is enough. Hydra divides by the
    time that this takes, so it must not be 0.
    """
    time.sleep(1e-6)


def _no_logging(*settings: Any) -> None:
    """Configuring Python's logging anew closes the handlers that the process has."""


def _header(text: str) -> dict[str, str | None]:
    """The `@package` of a file, also after the byte order mark that some editors write."""
    return _header_of(text.removeprefix("\ufeff"))


REPLACED: tuple[tuple[object, str, Callable[..., Any]], ...] = (
    (Sweeper, "validate_batch_is_legal", _not_twice),
    (Hydra, "get_mode", _mode),
    (ConfigSource, "_get_header_dict", staticmethod(_header)),
    (Plugins, "instantiate_sweeper", _checked_sweeper),
    (Plugins, "instantiate_launcher", _basic_launcher),
    *((module, "configure_log", _no_logging) for module in (utils, hydra_module, basic_launcher)),
)
"""Functions of Hydra, each with its owner and name, and what stands for it."""


@contextmanager
def apart(arguments: Sequence[str]) -> Iterator[None]:
    """Within, Hydra knows our settings and reads `arguments`, and nothing of the caller's run."""
    argv, state = sys.argv, dict(Singleton._instances)
    resolvers, stored = dict(BaseContainer._resolvers), dict(ConfigStore.instance().repo)
    full_error = os.environ.get("HYDRA_FULL_ERROR")
    with ExitStack() as stack:
        for owner, name, function in REPLACED:
            stack.enter_context(patch.object(owner, name, function))
        try:
            for kind in OF_A_RUN:
                Singleton._instances.pop(kind, None)
            register()
            sweeps.register()
            launchers.register()
            os.environ["HYDRA_FULL_ERROR"] = "1"  # exceptions reach us; explain() shortens them
            sys.argv = [*argv[:1], *arguments]
            yield
        finally:
            sys.argv = argv
            Singleton._instances.clear()
            Singleton._instances.update(state)
            BaseContainer._resolvers = resolvers
            ConfigStore.instance().repo = stored
            if full_error is None:
                os.environ.pop("HYDRA_FULL_ERROR", None)
            else:
                os.environ["HYDRA_FULL_ERROR"] = full_error
