"""The graph breaks found equal those counted by hand, for every kind that Dynamo has."""

from __future__ import annotations

import sysconfig
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from traceback import FrameSummary
from typing import Any

import pytest
import torch
from torch._dynamo.exc import FailOnRecompileLimitHit, Unsupported
from torch._dynamo.output_graph import GraphCompileReason
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.utils import CompilationMetrics

from modescope.bench.steps.evidence import graph_break_watch
from modescope.bench.steps.evidence.graph_break_watch import GraphBreakWatch
from modescope.bench.steps.evidence.mode_effect import GraphBreaks, Site, breaks_summary
from tests.helpers import probe_models
from tests.helpers.breaking_models import BY_HAND, Counted, build
from tests.helpers.paths import HELPERS

FILE = HELPERS / "breaking_models.py"

TORCH = f"{graph_break_watch.TORCH}nn/modules/rnn.py"

OURS, THEIRS = ("/home/me/net.py", 12), ("/home/me/other/net.py", 12)


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def called(name: str, compile_it: Callable[[torch.nn.Module], Any]) -> None:
    module, x = build(name)
    compile_it(module.eval())(x)


def watched(name: str) -> GraphBreaks:
    with graph_break_watch.watch() as watch:
        called(name, lambda module: torch.compile(module, backend="eager"))
    return watch.breaks


@pytest.mark.full
@pytest.mark.parametrize(("name", "by_hand"), BY_HAND.items(), ids=BY_HAND)
def test_graph_breaks_equal_the_count_by_hand(name: str, by_hand: Counted) -> None:
    found = watched(name)
    assert (len(found.sites), found.in_eager) == (by_hand.sites, by_hand.in_eager)
    lines = FILE.read_text(encoding="utf-8").splitlines()
    for site in found.sites:
        if name == "DisabledForward":
            assert site.place is None
        else:
            file, _, line = site.place.partition(":")
            assert file == FILE.name
            assert lines[int(line) - 1].endswith("# breaks")
        assert site.reason
        assert "\n" not in site.reason


@pytest.mark.full
@pytest.mark.parametrize(
    "name", ["TwoOnALine", "TwoOnALineFromOneColumn", "Finally", "Loop", "Recompiled"]
)
def test_graph_breaks_are_the_same_without_columns_in_stacks(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in torch before 2.13."""

    def without_columns(error: Unsupported) -> list[FrameSummary]:
        return [
            FrameSummary(frame.filename, frame.lineno, frame.name, lookup_line=False)
            for frame in error.real_stack
        ]

    monkeypatch.setattr(graph_break_watch, "_stack", without_columns)
    assert len(watched(name).sites) == BY_HAND[name].sites
    monkeypatch.setattr(graph_break_watch, "_columns_of", lambda error: {})
    torch.compiler.reset()
    assert len(watched(name).sites) == 1


@pytest.mark.full
def test_a_second_call_a_recompilation_and_another_watch_add_no_site() -> None:
    module, _ = build("Nested")
    compiled = torch.compile(module.eval(), backend="eager", dynamic=False)
    hooked = ("log_graph_break", "step_graph_break")
    before = [getattr(InstructionTranslatorBase, name) for name in hooked]
    with graph_break_watch.watch() as watch:
        for rows in (3, 3, 4, 5):
            compiled(torch.ones(rows, 4))
    assert len(watch.breaks.sites) == 1
    assert [getattr(InstructionTranslatorBase, name) for name in hooked] == before
    assert watched("Plain") == GraphBreaks((), ())


@pytest.mark.full
def test_without_the_hooks_in_torch_breaks_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(InstructionTranslatorBase, "step_graph_break")
    with graph_break_watch.watch() as watch:
        called("Plain", lambda module: torch.compile(module, backend="eager"))
    assert watch.breaks is None
    with pytest.raises(RuntimeError, match="does not report graph breaks"):
        graph_break_watch.count(watch)


def stack(*lines: tuple[str, int], columns: tuple[int, int] | None = None) -> list[FrameSummary]:
    first, last = columns or (None, None)
    return [
        FrameSummary(file, line, "forward", lookup_line=False, colno=first, end_colno=last)
        for file, line in lines
    ]


FIRST, INNER, SECOND = (stack(OURS, columns=each) for each in ((0, 5), (0, 9), (6, 9)))
WITHIN = stack((TORCH, 1000), columns=(4, 8))
INSTALLED = str(Path(sysconfig.get_path("stdlib"), "site-packages/transformers/modeling.py"))
"""In the Python that an environment was made with."""


@pytest.mark.parametrize(
    ("stacks", "places"),
    [
        ([stack(OURS, (TORCH, 1000))], ["net.py:12"]),
        ([stack(OURS, (TORCH, 1000)), stack((TORCH, 1000))], ["net.py:12"]),
        ([stack((TORCH, 1000))], ["rnn.py:1000"]),
        ([stack(OURS), stack(THEIRS), stack(OURS)], ["net.py:12"] * 2),
        ([FIRST, SECOND, INNER, SECOND, FIRST], ["net.py:12"] * 3),
        ([stack(OURS), FIRST, stack(OURS), FIRST], ["net.py:12"]),
        ([FIRST, stack(OURS), FIRST, stack(OURS)], ["net.py:12"]),
        ([[*FIRST, *WITHIN], WITHIN, [*SECOND, *WITHIN], WITHIN], ["net.py:12"] * 2),
        ([stack(OURS, (INSTALLED, 7))], ["modeling.py:7"]),
        ([stack((f"{graph_break_watch.DYNAMO}external_utils.py", 69))], [None]),
    ],
    ids=[
        *("within a library", "again within it", "a library alone", "files of equal names"),
        *("expressions of one line", "first without columns", "later without columns"),
        *("two calls of a library on a line", "in an installed package", "in Dynamo only"),
    ],
)
def test_a_site_is_the_innermost_expression_of_the_model(
    stacks: Sequence[Sequence[FrameSummary]], places: list[str | None]
) -> None:
    watch = GraphBreakWatch()
    for number, each in enumerate(stacks):
        watch.note_stop(f"reason {number}", each)
    watch.close()
    assert [site.place for site in watch.breaks.sites] == places
    assert watch.breaks.sites[0].reason == "reason 0"


def test_a_function_refused_before_its_first_line_is_not_a_site() -> None:
    watch = GraphBreakWatch()
    refused = Unsupported("Attempt to trace generator", "")
    assert not refused.real_stack
    watch.note_error(refused)
    watch.note_error(ValueError("another kind"))
    watch.close()
    assert watch.breaks.sites == (Site(None, "another kind"),)


def test_the_end_of_a_graph_is_a_site_only_in_functions_without_one() -> None:
    watch = GraphBreakWatch()
    watch.note_stop("why", stack(OURS))
    watch.split(GraphCompileReason("elsewhere", stack(("/home/me/net.py", 10))))
    watch.split(GraphCompileReason("unreported", stack(("/home/me/layers.py", 3))))
    watch.close()
    assert watch.breaks.sites == (Site("net.py:12", "why"), Site("layers.py:3", "unreported"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Data-dependent branching\n  Explanation: …", "Data-dependent branching"),
        ("It failed. Got error:\n\nPrinting\n  Hint: …", "It failed. Got error: Printing"),
        ("", "torch gave no reason"),
        ("x" * 1000, "x" * graph_break_watch.REASON_MAX_LENGTH),
    ],
)
def test_the_reason_is_the_line_with_the_kind_of_break(text: str, reason: str) -> None:
    assert graph_break_watch._reason(text) == reason


def test_columns_and_summary_of_breaks() -> None:
    first, second = Site("net.py:12", "a print"), Site(None, "another")
    assert breaks_summary([first, second]) == "a print at net.py:12 and 1 more"
    assert breaks_summary([second]) == "another"
    assert GraphBreaks((second,), ("f",)).columns == {
        "graph_breaks": 1,
        "graph_break_reasons": '[{"place":null,"reason":"another"}]',
        "eager_functions": '["f"]',
    }


def test_the_last_reason_to_compile_again_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = [CompilationMetrics(recompile_reason=reason) for reason in ("b", "a", None)]
    monkeypatch.setattr(graph_break_watch, "get_compilation_metrics", lambda: metrics)
    model = probe_models.model(probe_models.scaled)
    reason = graph_break_watch.failure_reason(FailOnRecompileLimitHit(), model)
    assert "its last reason: a;" in (reason or "")
