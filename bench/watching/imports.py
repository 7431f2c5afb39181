"""Acts when the program imports a module, since hooks must not import it first."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any


class OnImport(MetaPathFinder):
    """Calls `act` with a function that imports the module `name`, where the program imports it."""

    def __init__(self, name: str, act: Callable[[Callable[[], None]], None]) -> None:
        self._name, self._act = name, act

    def begin(self) -> None:
        """Waits for the import; only once until `end`."""
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def end(self) -> None:
        """Waits no more."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Finds the module as Python does, with a loader that acts."""
        if name != self._name:
            return None
        self.end()
        spec = find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def load_and_act(module: ModuleType) -> None:
            self._act(lambda: load(module))

        spec.loader.exec_module = load_and_act  # type: ignore[method-assign]
        return spec
