"""What can be seen of a Triton kernel where there is no Triton."""

from __future__ import annotations

import ast

from tests.helpers.paths import ROOT

SOURCE = ROOT / "bench" / "tools" / "claims" / "triton_ops.py"


def test_a_kernel_has_only_annotations_that_triton_can_look_up() -> None:
    """It visits them, and refuses a global that is neither a module nor its own."""
    functions = [
        each
        for each in ast.walk(ast.parse(SOURCE.read_text()))
        if isinstance(each, ast.FunctionDef)
    ]
    (kernel,) = (each for each in functions if each.name == "_plus_one")
    annotations = [each.annotation for each in kernel.args.args] + [kernel.returns]
    assert [ast.unparse(each) for each in annotations if each] == ["tl.constexpr"]
