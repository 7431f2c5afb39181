"""Makes every Python process with this folder on PYTHONPATH believe that it has a GPU.

device=cuda is then the CPU under another name. Modes that need no CUDA run on it; the numbers mean
nothing.
"""

import importlib.util
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

FINDS_DEVICES = "modescope.bench.devices.cuda"


class Pretend(MetaPathFinder):
    """Finds the module FINDS_DEVICES as usual, and replaces its `find` once it is imported."""

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
            pretend(module)

        spec.loader.exec_module = execute_and_change  # type: ignore[method-assign]
        return spec


def pretend(module: ModuleType) -> None:
    """Makes the module's `find` return the pretended GPU for names that begin with cuda."""
    from modescope.bench.devices.devices import Cpu
    from modescope.bench.records.environment import DeviceFacts

    class PretendedGpu(Cpu):
        type = "cuda"

        def facts(self) -> DeviceFacts:
            return DeviceFacts("cuda", "a pretended GPU", (9, 0), Cpu().facts().memory_bytes)

    find = module.find

    def find_or_pretend(name: str) -> object:
        return PretendedGpu() if name.startswith("cuda") else find(name)

    module.find = find_or_pretend  # type: ignore[attr-defined]


sys.meta_path.insert(0, Pretend())
