"""What makes rows comparable: the machine, the software, and the source that measures.

Rows of one fingerprint may stand in for each other and be ranked together; all others may not. The
fingerprint covers what can change a number, and nothing else.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

from modescope.bench.records.environment import Environment
from modescope.bench.records.fingerprint_columns import FINGERPRINT
from modescope.bench.records.ids import short_hash
from modescope.bench.records.installed import is_installed
from modescope.bench.records.paths import ROOT

MEASURES = (
    "modescope.bench.case.runner",
    "modescope.bench.sweep.process.isolation",
    "modescope.bench.sweep.process.compiler_cache",
)
"""Modules that measure a case, together with all modules of modescope that they import."""

PACKAGE = "modescope"

DESCRIPTIONS = ("column", "nullable")
"""Functions whose argument is a column's entry in the data dictionary."""

_OUR_PATH = re.compile(r"\bmodescope(\.\w+)*\.(?=\w)")


def environment_id(environment: Environment) -> str:
    """Hash of what makes rows comparable."""
    return short_hash({name: getattr(environment, name) for name in FINGERPRINT})


def source_id(root: Path = ROOT) -> str:
    """Hash of the `essence` of modescope's modules that run while a case is measured."""
    modules = _modules(root)
    code = {essence(tree, modules) for tree in modules.values()}
    return short_hash(sorted(code - {""}))  # a folder may have an empty __init__.py


def model_id(target: str, modules_before: Collection[str]) -> str:
    """Hash of the file of `target` ("module:function") and of all that was imported with it.

    That is, of the modules imported since `modules_before`, without installed packages; of the
    target's own package, where that is installed, the version counts. Comments count here, because
    a user's code may read its own source.
    """
    own = target.partition(":")[0]
    names = {own, *(set(sys.modules) - set(modules_before))}
    files = {str(getattr(sys.modules.get(name), "__file__", None)) for name in names}
    theirs = [
        file
        for file in files
        if file.endswith(".py") and (file == sys.modules[own].__file__ or not is_installed(file))
    ]
    hashes = sorted(hashlib.sha256(Path(file).read_bytes()).hexdigest() for file in theirs)
    installed = is_installed(str(getattr(sys.modules[own], "__file__", None)))
    version = getattr(sys.modules[own.partition(".")[0]], "__version__", None)
    return short_hash([*hashes, str(version)] if installed and version else hashes)


def essence(tree: ast.Module, modules: Collection[str] = ()) -> str:
    """A module's code without what cannot change a number: paths, comments, docstrings.

    Imports from `modules` are reduced to their bare names, in alphabetical order.
    """
    code = _Essence(modules)
    text = ast.unparse(code.visit(tree))
    return "\n".join([*sorted(code.imported), _OUR_PATH.sub("", text)])


class _Essence(ast.NodeTransformer):
    """Removes docstrings, descriptions of columns, and the modules that names are imported from."""

    def __init__(self, modules: Collection[str]) -> None:
        self.modules = modules
        self.imported: set[str] = set()

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        module = node.module or ""
        if module.partition(".")[0] != PACKAGE:
            return node
        for alias in node.names:
            whole = f"{module}.{alias.name}" in self.modules
            origin = "" if whole else module.rpartition(".")[2] + "."
            self.imported.add(f"{origin}{alias.name} as {alias.asname or alias.name}")
        return None

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_text else self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id in DESCRIPTIONS:
            return ast.Call(func=node.func, args=[], keywords=node.keywords)
        return self.generic_visit(node)


def _modules(root: Path) -> dict[str, ast.Module]:
    """The modules that measure and all modules of modescope that they import, by name."""
    todo, trees = list(MEASURES), dict[str, ast.Module]()
    while todo:
        name = todo.pop()
        path = _file(root, name)
        if path is None or name in trees:
            continue
        trees[name] = ast.parse(path.read_bytes())
        todo += [name for name in _names(trees[name]) if name.startswith(f"{PACKAGE}.")]
    return trees


def _file(root: Path, module: str) -> Path | None:
    path = root.joinpath(*module.split(".")[1:])
    files = (path.with_suffix(".py"), path / "__init__.py")
    return next((file for file in files if file.is_file()), None)


def _names(tree: ast.Module) -> Iterator[str]:
    """Absolute names of all modules that a module imports, and of what it imports from them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
