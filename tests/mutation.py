"""Plants random faults in the rooms that measure and judge, and counts those that tests notice.

`make mutants ARGS='--sample 60 --seed 7'`. Each fault is planted in a copy of the repository. There
the tests that mirror its file run first, then those of its room and of the seams between rooms. The
first test that fails kills the fault. Survivors are printed with their line before and after: some
change nothing that matters, the others show what no test checks.
"""

from __future__ import annotations

import argparse
import ast
import copy
import difflib
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROOMS = (
    *("bench/timing", "bench/stats", "bench/model", "bench/modes"),
    *("bench/evidence", "bench/passes", "bench/checking", "bench/case"),
    *("analysis/derive", "analysis/causes", "analysis/recommend", "analysis/compare"),
)
WIDER = ("tests/seams", "tests/golden")
LIMIT_S = 600.0  # of one run of tests; a fault that makes them hang counts as a survivor
NOTICED = (1, 2)  # pytest's status after failed tests, and where a file cannot be imported

OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Pow: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip

NAMES = {
    name: other
    for pair in (("min", "max"), ("any", "all"), ("low", "high"), ("case", "baseline"),
                 ("first", "last"), ("before", "after"), ("candidate", "baseline"))
    for name, other in (pair, pair[::-1])
}  # fmt: skip
"""Name -> another name that one might write by mistake."""


Code = ast.expr | ast.stmt


@dataclass(frozen=True)
class Fault:
    """A fault to plant: the bytes from `begin` to `end` of `file` become `new`."""

    file: str  # relative to the repository
    begin: int
    end: int
    new: str

    def planted(self, source: bytes) -> bytes:
        """The file's content with the fault."""
        return source[: self.begin] + self.new.encode() + source[self.end :]

    def change(self, source: bytes) -> list[str]:
        """Its changed lines, each after its number, without and with the fault."""
        old, new = (text.decode().splitlines() for text in (source, self.planted(source)))
        return list(difflib.unified_diff(old, new, n=0, lineterm=""))[2:]


def faults(root: Path, rooms: Sequence[str]) -> list[Fault]:
    """All faults that can be planted in the rooms, in a fixed order."""
    files = sorted(path for room in rooms for path in (root / room).rglob("*.py"))
    return [fault for path in files for fault in _faults(path, str(path.relative_to(root)))]


def _faults(path: Path, name: str) -> Iterator[Fault]:
    source = path.read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node, names in _planted_in(ast.parse(source)):
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        changed = map(ast.fix_missing_locations, _changed(copy.deepcopy(node), names))
        for text in dict.fromkeys(map(ast.unparse, changed)):
            yield Fault(name, begin, end, f"({text})" if isinstance(node, ast.expr) else text)


Names = frozenset[str]
"""The names of a function's variables and parameters; empty outside of functions."""


def _planted_in(node: ast.AST, names: Names = frozenset()) -> Iterator[tuple[Code, Names]]:
    """Yields the nodes below `node` in which faults can be planted, each with its function's names.

    Left out are annotations, decorators, formatted texts, and constants outside of functions.
    """
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "type_params", "bases"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.JoinedStr):
                continue
            if isinstance(child, Code) and (names or not isinstance(child, ast.Constant)):
                yield child, names
            inner = _names(child) if isinstance(child, ast.FunctionDef) else names
            yield from _planted_in(child, inner)


def _names(function: ast.FunctionDef) -> Names:
    every = (getattr(node, "id", getattr(node, "arg", None)) for node in ast.walk(function))
    return frozenset({*filter(None, every), "min", "max", "any", "all"})


def _changed(node: Code, names: Names) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(ops=[op]) | ast.BinOp(op=op) | ast.BoolOp(op=op) if type(op) in OPERATORS:
            other = OPERATORS[type(op)]()
            named = {"ops": [other]} if isinstance(node, ast.Compare) else {"op": other}
            yield type(node)(**{**dict(ast.iter_fields(node)), **named})
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield ast.IfExp(test, orelse, body)
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
        case ast.Constant(value=float(value)):
            yield ast.Constant(value * 2 or 1.0)
        case ast.Name(id=name, ctx=ast.Load()) if NAMES.get(name) in names:
            yield ast.Name(NAMES[name], ast.Load())
        case ast.Attribute(value=value, attr=name, ctx=ast.Load()) if name in NAMES:
            yield ast.Attribute(value, NAMES[name], ast.Load())
        case ast.Call(func=function, args=arguments, keywords=named):
            for place in range(len(named)):  # the callee's default instead
                yield ast.Call(function, arguments, named[:place] + named[place + 1 :])
            two = len({ast.dump(each) for each in arguments}) == len(arguments) == 2
            if two and ast.unparse(function) not in ("min", "max"):  # whose order changes nothing
                yield ast.Call(function, arguments[::-1], named)
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call()) | ast.AugAssign():
            yield ast.Pass()


def copy_repository(target: Path) -> None:
    """Copies the files that git tracks or would add, as they are now, to `target`."""
    listed = "git ls-files -z --cached --others --exclude-standard"
    packed = f'{listed} | tar -c --null -T - | tar -x -C "$0"'
    subprocess.run(["sh", "-c", packed, str(target)], cwd=ROOT, check=True)


def stages(root: Path, file: str) -> list[list[str]]:
    """Lists of test paths to run for a fault in `file`, in this order.

    First the tests that mirror the file, if any, then those of its room and of the seams.
    """
    path = Path("tests", file)
    mirror = path.with_name(f"test_{path.name}")
    room = next((each for each in path.parents if (root / each).is_dir()), Path("tests"))
    wider = [str(room), *(each for each in WIDER if (root / each).is_dir())]
    return [[str(mirror)], wider] if (root / mirror).is_file() else [wider]


def tested(root: Path, tests: Sequence[str]) -> int | None:
    """Pytest's exit status for these tests in the copy at `root`; None after LIMIT_S."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(root),  # before any modescope that is installed
        "PYTHONDONTWRITEBYTECODE": "1",  # a fault may leave a file's size and second as they were
        "PYTEST_ADDOPTS": "-q -x -p no:cacheprovider -p no:randomly",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "pytest", *tests]
    try:
        return subprocess.run(
            command, cwd=root, env=environment, timeout=LIMIT_S,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        ).returncode  # fmt: skip
    except subprocess.TimeoutExpired:
        return None


def killed_by(root: Path, fault: Fault) -> str | None:
    """Plants `fault` and runs tests; the paths of those that notice it, or None if it survives."""
    file = root / fault.file
    source = file.read_bytes()
    file.write_bytes(fault.planted(source))
    try:
        noticed = (tests for tests in stages(root, fault.file) if tested(root, tests) in NOTICED)
        return " ".join(next(noticed, [])) or None
    finally:
        file.write_bytes(source)


def examine(root: Path, chosen: Sequence[Fault]) -> dict[Fault, str | None]:
    """For each fault, the paths of the tests that kill it, or None; prints them.

    Raises ValueError if tests that killed a fault fail without any fault, too.
    """
    outcomes: dict[Fault, str | None] = {}
    sound: set[str | None] = {None}
    for fault in chosen:
        outcomes[fault] = named = killed_by(root, fault)
        if named not in sound and tested(root, named.split()) != 0:
            raise ValueError(f"{named}: these tests fail without a fault")
        sound.add(named)
        told = "\n".join(fault.change((root / fault.file).read_bytes()))
        print(f"{fault.file}: {f'killed by {named}' if named else 'SURVIVES'}\n{told}", flush=True)
    return outcomes


def main() -> int:
    """Runs the program; returns 1 if a fault survives, else 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sample", type=int, default=60, help="number of faults (default: 60)")
    parser.add_argument("--seed", type=int, default=0, help="of the draw (default: 0)")
    parser.add_argument("--rooms", nargs="+", default=ROOMS, choices=ROOMS, metavar="ROOM")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        copy_repository(root)
        every = faults(root, asked.rooms)
        print(f"{len(every)} faults can be planted; {asked.sample} are drawn by seed {asked.seed}")
        chosen = random.Random(asked.seed).sample(every, min(asked.sample, len(every)))
        outcomes = examine(root, chosen)
    survivors = list(outcomes.values()).count(None)
    print(f"{len(outcomes) - survivors} of {len(outcomes)} killed")
    return int(survivors > 0)


if __name__ == "__main__":
    sys.exit(main())
