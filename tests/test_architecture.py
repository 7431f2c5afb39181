"""Who may import whom, read from the source. A new file needs no entry here."""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from importlib.util import resolve_name
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("models", "bench", "analysis")

# What no file of a folder imports, however deep inside a function.
FORBIDDEN = {
    "models": {"run", "bench", "analysis", "hydra", "omegaconf"},
    "bench": {"run", "models", "analysis"},
    "analysis": {"run", "models", "torch"},
}
ANALYSIS_MAY_USE = {
    "bench",
    *(
        f"bench.{name}"
        for name in (
            "contention",
            "cores",
            "diagnostics",
            "findings",
            "fingerprint",
            "instruction_sets",
            "isolation",
            "markup",
            "pace",
            "ranks",
            "records",
            "roofline",
            "roofline.floor",
            "stats",
            "store",
            "tolerances",
            "training",
            "training.choices",
        )
    ),
}
SAY_TORCH_CUDA = {"bench.devices", "bench.memory.cuda"}
STANDARD_LIBRARY_ALONE = {
    "bench.records",
    "bench.findings",
    "bench.instruction_sets",
    "bench.tolerances",
}

# Lowest layer first. A file reaches files of lower layers only, be it through files that are not
# listed; those are free to sit anywhere.
LAYERS = {
    "bench": (
        ("findings",),
        ("records", "stats"),
        ("devices", "store"),
        ("modes", "timers", "profiling.capture", "environment"),
        ("memory.reading",),
        ("passes",),
        ("runner",),
    ),
    "analysis": (("load",), ("metrics",), ("plots",), ("report",)),
}

# What runs in the process that the user starts; torch is for its children.
PARENT_SIDE = [
    "run",
    *(
        f"bench.{name}"
        for name in (
            "command_line",
            "complaints",
            "config",
            "findings",
            "fingerprint",
            "instruction_sets",
            "isolation",
            "jobs",
            "leftovers",
            "objections",
            "override_values",
            "overrides",
            "records",
            "releases",
            "reuse",
            "schema",
            "spelling",
            "store",
            "suggestions",
            "sweep",
        )
    ),
]

# What a reader of results may use where torch is not installed, though no command line does yet.
TORCH_FREE = [
    *(f"bench.profiling.{name}" for name in ("events", "facts", "files", "nesting", "steps")),
    "bench.roofline.floor",
]

Graph = dict[str, set[str]]  # module -> modules of ours that it imports


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


PATHS = {
    module_name(path): path
    for path in (ROOT / "run.py", *(p for name in PACKAGES for p in (ROOT / name).rglob("*.py")))
}


def imports(source: str, package: str) -> set[str]:
    """Absolute names imported anywhere in `source`; `from a import b` gives a and a.b."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            names |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    return names


def imports_of(module: str) -> set[str]:
    path = PATHS[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    return imports(path.read_text(encoding="utf-8"), package)


def reachable(start: str, graph: Graph) -> set[str]:
    found: set[str] = set()
    frontier = {start}
    while frontier:
        frontier = {target for module in frontier for target in graph.get(module, ())} - found
        found |= frontier
    return found


def climbs(graph: Graph, package: str) -> list[str]:
    """Every "low reaches high" that the layers of `package` forbid."""
    layers = enumerate(LAYERS[package])
    height = {f"{package}.{name}": level for level, names in layers for name in names}
    return [
        f"{low} reaches {high}"
        for low in height
        for high in sorted(reachable(low, graph))
        if height.get(high, -1) >= height[low]
    ]


def torch_cuda_uses(source: str) -> list[int]:
    """Lines that say torch.cuda, be it in words, by import or through another name for torch."""
    lines = [n for n, line in enumerate(source.splitlines(), 1) if "torch.cuda" in line]
    tree = ast.parse(source)
    aliases = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == "torch"
    }
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr="cuda") if name in aliases:
                lines.append(node.lineno)
            case ast.ImportFrom(module="torch", names=names):
                lines += [node.lineno for alias in names if alias.name == "cuda"]
    return sorted(set(lines))


@pytest.fixture(scope="module")
def graph() -> Graph:
    return {module: imports_of(module) & set(PATHS) for module in PATHS}


@pytest.mark.parametrize("package", PACKAGES)
def test_folders_keep_apart(package: str) -> None:
    for module in PATHS:
        if module.partition(".")[0] == package:
            roots = {name.partition(".")[0] for name in imports_of(module)}
            assert not roots & FORBIDDEN[package], module


def test_analysis_uses_only_the_torch_free_parts_of_bench(graph: Graph) -> None:
    for module, targets in graph.items():
        if module.partition(".")[0] == "analysis":
            of_bench = {name for name in targets if name.partition(".")[0] == "bench"}
            assert of_bench <= ANALYSIS_MAY_USE, module


@pytest.mark.parametrize("module", sorted(STANDARD_LIBRARY_ALONE))
def test_records_need_only_the_standard_library(module: str) -> None:
    of_others = imports_of(module) - {"bench"} - STANDARD_LIBRARY_ALONE
    names = {name for name in of_others if name.rpartition(".")[0] not in STANDARD_LIBRARY_ALONE}
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names


@pytest.mark.parametrize("package", LAYERS)
def test_imports_run_one_way(package: str, graph: Graph) -> None:
    assert climbs(graph, package) == []


def test_no_import_goes_round_in_a_circle(graph: Graph) -> None:
    TopologicalSorter(graph).prepare()


@pytest.mark.parametrize("module", sorted(set(PATHS) - SAY_TORCH_CUDA))
def test_only_devices_and_their_memory_say_torch_cuda(module: str) -> None:
    assert torch_cuda_uses(PATHS[module].read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "modules",
    [
        PARENT_SIDE,
        sorted(m for m in PATHS if m.startswith("analysis") and "__main__" not in m),
        TORCH_FREE,
    ],
    ids=["parent", "analysis", "traces"],
)
def test_command_lines_start_without_torch(modules: list[str]) -> None:
    code = f"import sys, {', '.join(modules)}; sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr or "torch was imported"


def test_imports_are_found_wherever_they_hide() -> None:
    source = "import a.b as c\ndef f():\n from . import d\n from ..e import f\n from g import h"
    found = imports(source, package="top.sub")
    assert found == {"a.b", "top.sub", "top.sub.d", "top.e", "top.e.f", "g", "g.h"}


@pytest.mark.parametrize(
    ("chain", "found"),
    [
        (("timers", "helper", "runner"), ["bench.timers reaches bench.runner"]),
        (("modes", "timers"), ["bench.modes reaches bench.timers"]),
        (("runner", "helper", "timers"), []),
    ],
)
def test_a_climb_is_seen_through_unlisted_files(chain: tuple[str, ...], found: list[str]) -> None:
    graph = {f"bench.{low}": {f"bench.{high}"} for low, high in pairwise(chain)}
    assert climbs(graph, "bench") == found


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("import torch\n\ntorch.cuda.synchronize()", [3]),
        ("import torch as t\nt.cuda.synchronize()", [2]),
        ("from torch import cuda", [1]),
        ("import torch.cuda as c", [1]),
        ("import torch\nprint(torch.version.cuda)", []),
    ],
)
def test_torch_cuda_is_found_under_any_name(source: str, lines: list[int]) -> None:
    assert torch_cuda_uses(source) == lines
