"""Gives every Python process a pretended GPU: with this folder on PYTHONPATH, device=cuda is found.

`tests.proof.pretended_gpu` takes the place of what finds devices as soon as that is imported.
"""

import importlib.util
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

FINDS_DEVICES = "modescope.bench.devices.cuda"


class Pretend(MetaPathFinder):
    """Finds that module as usual, and changes it once it is imported."""

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        """None for every other module."""
        if name != FINDS_DEVICES:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_change(module: ModuleType) -> None:
            execute(module)
            from tests.proof.pretended_gpu import pretend

            pretend(module)

        spec.loader.exec_module = execute_and_change  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, Pretend())
