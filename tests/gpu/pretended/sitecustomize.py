"""Gives every Python process with this folder on PYTHONPATH a pretended GPU as device=cuda.

`tests.gpu.pretended_gpu` changes what finds devices as soon as that module is imported.
"""

import importlib.util
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

FINDS_DEVICES = "modescope.bench.devices.cuda"


class Pretend(MetaPathFinder):
    """Finds the module FINDS_DEVICES as usual, and changes it once it is imported."""

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        """The spec of FINDS_DEVICES; None for every other module."""
        if name != FINDS_DEVICES:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        assert spec
        assert spec.loader
        execute = spec.loader.exec_module

        def execute_and_change(module: ModuleType) -> None:
            execute(module)
            from tests.gpu.pretended_gpu import pretend

            pretend(module)

        spec.loader.exec_module = execute_and_change  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, Pretend())
