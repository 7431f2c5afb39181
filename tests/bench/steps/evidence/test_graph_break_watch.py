"""The graph breaks found equal those counted by hand, for every kind that Dynamo has."""

from __future__ import annotations

import sys
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

# What torch._dynamo.explain counts instead, which is always one less than the graphs.
EXPLAINED = {
    # No graph at all is -1: the break is in a loop, in a try or in other code that cannot be
    # resumed, or the forward is disabled.
    **dict.fromkeys(
        ("DisabledForward", "Generator", "Loop", "OwnContext", "Property", "Tried"), -1
    ),
    # There is nothing to compile before the break or after it, or that code runs in Python.
    **dict.fromkeys(("PrintingFirst", "TrailingItem", "TriedLater"), 0),
    # A break in a function splits the graphs of its callers too, once for each call.
    **dict.fromkeys(("CalledTwice", "Nested", "Submodule"), 3),
    "Recompiled": 6,
    # Each iteration of the loop is a graph, until a known one recurs; not from Python 3.12 on.
    "While": 2 if sys.version_info < (3, 12) else 0,
}

TORCH = f"{graph_break_watch.TORCH}nn/modules/rnn.py"

OURS, THEIRS = ("/home/me/net.py", 12), ("/home/me/other/net.py", 12)


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def called(name: str, compile_it: Callable[[torch.nn.Module], Any]) -> Any:
    module, inputs = build(name)
    compiled = compile_it(module.eval())
    return compiled(**inputs) if isinstance(inputs, dict) else compiled(*inputs)


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


def test_enough_kinds_of_breaks_are_covered() -> None:
    breaking = [counted for counted in BY_HAND.values() if counted.sites]
    assert len(breaking) >= 15
    assert len(BY_HAND) - len(breaking) >= 10
    lines = FILE.read_text(encoding="utf-8").splitlines()
    assert sum(line.endswith("# breaks") for line in lines) > 20


@pytest.mark.full
@pytest.mark.parametrize("name", [*EXPLAINED, "Branch", "Two", "Plain"])
def test_cases_where_torch_explain_counts_wrongly(name: str) -> None:
    """If torch counts like this one day, our own count can go."""
    explained = called(name, torch._dynamo.explain).graph_break_count
    assert explained == EXPLAINED.get(name, BY_HAND[name].sites)
    assert (explained != BY_HAND[name].sites) == (name in EXPLAINED)


@pytest.mark.full
def test_a_second_call_and_a_recompilation_add_no_site() -> None:
    module, _ = build("Nested")
    compiled = torch.compile(module.eval(), backend="eager", dynamic=False)
    with graph_break_watch.watch() as watch:
        for rows in (3, 3, 4, 5):
            compiled(torch.ones(rows, 4))
    assert len(watch.breaks.sites) == 1


@pytest.mark.full
def test_breaks_of_an_earlier_watch_are_not_counted_again() -> None:
    assert len(watched("Two").sites) == 2
    assert watched("Plain") == GraphBreaks((), ())


@pytest.mark.full
def test_code_that_is_not_compiled_has_no_breaks() -> None:
    with graph_break_watch.watch() as watch:
        called("Two", lambda module: module)
    assert watch.breaks == GraphBreaks((), ())


@pytest.mark.full
def test_the_functions_of_dynamo_are_restored() -> None:
    names = ("log_graph_break", "step_graph_break")
    before = [getattr(InstructionTranslatorBase, name) for name in names]
    watched("Loop")
    assert [getattr(InstructionTranslatorBase, name) for name in names] == before


@pytest.mark.full
@pytest.mark.parametrize("name", ["Branch", "Nested", "TrailingItem", "Two"])
def test_a_break_without_a_report_is_found_at_the_end_of_its_graph(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if a later torch did not report this kind of break."""
    monkeypatch.setattr(GraphBreakWatch, "note_report", lambda watch, *args, **kwargs: None)
    assert watched(name).sites


@pytest.mark.full
def test_a_function_skipped_by_dynamo_is_a_site_without_a_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(GraphBreakWatch, "note_report", lambda watch, *args, **kwargs: None)
    found = watched("Loop")
    assert len(found.sites) == 1
    assert found.in_eager == ("Loop.forward",)


@pytest.mark.full
def test_without_the_hooks_in_torch_breaks_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(InstructionTranslatorBase, "step_graph_break")
    with graph_break_watch.watch() as watch:
        called("Plain", lambda module: torch.compile(module, backend="eager"))
    assert watch.breaks is None
    with pytest.raises(RuntimeError, match="does not report graph breaks"):
        graph_break_watch.count(watch)


# Places


def stack(*lines: tuple[str, int], columns: tuple[int, int] | None = None) -> list[FrameSummary]:
    first, last = columns or (None, None)
    return [
        FrameSummary(file, line, "forward", lookup_line=False, colno=first, end_colno=last)
        for file, line in lines
    ]


def sites(*stacks: Sequence[FrameSummary]) -> list[Site]:
    watch = GraphBreakWatch()
    for each in stacks:
        watch.note_stop("why", each)
    watch.close()
    return list(watch.breaks.sites)


def test_a_break_within_a_library_is_at_the_calling_line() -> None:
    assert sites(stack(OURS, (TORCH, 1000))) == [Site("net.py:12", "why")]


def test_later_breaks_within_a_library_are_the_same_break() -> None:
    assert sites(stack(OURS, (TORCH, 1000)), stack((TORCH, 1000))) == [Site("net.py:12", "why")]
    assert sites(stack((TORCH, 1000))) == [Site("rnn.py:1000", "why")]


def test_lines_in_files_of_equal_names_are_different_sites() -> None:
    assert len(sites(stack(OURS), stack(THEIRS), stack(OURS))) == 2


def test_expressions_of_one_line_are_different_sites() -> None:
    first, inner, second = (stack(OURS, columns=each) for each in ((0, 5), (0, 9), (6, 9)))
    watch = GraphBreakWatch()
    for number, each in enumerate((first, second, inner, second, first)):
        watch.note_stop(f"reason {number}", each)
    watch.close()
    assert watch.breaks.sites == tuple(Site("net.py:12", f"reason {n}") for n in (0, 1, 2))


@pytest.mark.parametrize("unknown_first", [True, False])
def test_a_stack_without_columns_matches_a_known_site_of_the_line(unknown_first: bool) -> None:
    unknown, known = stack(OURS), stack(OURS, columns=(0, 5))
    met = (unknown, known) if unknown_first else (known, unknown)
    assert sites(*met, *met) == [Site("net.py:12", "why")]


def test_two_calls_of_a_library_on_one_line_are_two_sites() -> None:
    first, second = (stack(OURS, columns=each) for each in ((0, 5), (6, 9)))
    within = stack((TORCH, 1000), columns=(4, 8))
    assert len(sites([*first, *within], within, [*second, *within], within)) == 2


def test_breaks_are_counted_in_installed_packages_too() -> None:
    """Also in those of the Python that an environment was made with."""
    installed = str(Path(sysconfig.get_path("stdlib"), "site-packages/transformers/modeling.py"))
    assert sites(stack(OURS, (installed, 7))) == [Site("modeling.py:7", "why")]


def test_a_stack_with_only_dynamo_frames_has_no_place() -> None:
    assert sites(stack((f"{graph_break_watch.DYNAMO}external_utils.py", 69))) == [Site(None, "why")]


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
        ("Only a lead:", "Only a lead:"),
        ("", "torch gave no reason"),
        ("x" * 1000, "x" * graph_break_watch.REASON_MAX_LENGTH),
    ],
)
def test_the_reason_is_the_line_with_the_kind_of_break(text: str, reason: str) -> None:
    assert graph_break_watch._reason(text) == reason


def test_the_summary_names_the_first_break_and_the_number_of_others() -> None:
    first, second = Site("net.py:12", "a print"), Site(None, "another")
    assert breaks_summary([first]) == "a print at net.py:12"
    assert breaks_summary([first, second]) == "a print at net.py:12 and 1 more"
    assert breaks_summary([second]) == "another"


def test_columns_are_canonical_json() -> None:
    broken = GraphBreaks((Site(None, "why"), Site("a.py:1", "b")), ("f",))
    assert broken.columns == {
        "graph_breaks": 2,
        "graph_break_reasons": '[{"place":null,"reason":"why"},{"place":"a.py:1","reason":"b"}]',
        "eager_functions": '["f"]',
    }
    assert GraphBreaks((), ()).columns["graph_break_reasons"] == "[]"


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
    monkeypatch.setattr(graph_break_watch, "get_compilation_metrics", lambda: metrics)
    model = probe_models.model(probe_models.scaled)
    assert named in (graph_break_watch.failure_reason(FailOnRecompileLimitHit(), model) or "")
