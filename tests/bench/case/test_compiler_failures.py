"""Why torch's compiler gave a case up, from what it recorded."""

from __future__ import annotations

import pytest
from torch._dynamo.exc import FailOnRecompileLimitHit
from torch._dynamo.utils import CompilationMetrics

from modescope.bench.case import compiler_failures
from tests.helpers import probe_models


@pytest.mark.parametrize(
    ("recorded", "named"),
    [
        (["a changed", "b changed", "a changed", None], "; its last reason: a changed; keep"),
        ([None], "goes on in eager; keep"),
    ],
)
def test_the_last_reason_to_compile_again_is_named(
    recorded: list[str | None], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics = [CompilationMetrics(recompile_reason=reason) for reason in recorded]
    monkeypatch.setattr(compiler_failures, "get_compilation_metrics", lambda: metrics)
    model = probe_models.model(probe_models.scaled)
    assert named in (compiler_failures.reason(FailOnRecompileLimitHit(), model) or "")
