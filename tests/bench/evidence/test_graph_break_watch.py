"""The graph breaks found equal those counted by hand, for every kind that Dynamo has.

`@counted(sites, functions)` holds the counts of a reader: the expressions that torch.compile cannot
trace, on lines that end in `# breaks`, and the functions that run in Python because of them, as a
whole or from a break on.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from traceback import FrameSummary
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.exc import FailOnRecompileLimitHit, Unsupported
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.utils import CompilationMetrics

from modescope.bench.evidence import graph_break_watch
from modescope.bench.evidence.graph_break_watch import GraphBreakWatch
from modescope.bench.evidence.mode_effect import GraphBreaks, Site
from tests.helpers import probe_models

WIDTH = 4


class Net(nn.Module):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.second = nn.Linear(WIDTH, WIDTH)


BY_HAND: dict[str, tuple[type[Net], int, tuple[str, ...]]] = {}


def counted(sites: int, *in_eager: str) -> Callable[[type[Net]], type[Net]]:
    def register(model: type[Net]) -> type[Net]:
        BY_HAND[model.__name__] = model, sites, in_eager
        return model

    return register


def _double(y: Tensor) -> Tensor:
    return y * 2


not_compiled = torch._dynamo.disable(_double)


def talking_parts(y: Tensor) -> Iterator[Tensor]:
    yield y * 2
    print("between two parts")  # breaks
    yield y + 1


@counted(1, "Generator.forward")
class Generator(Net):
    def forward(self, x: Tensor) -> Any:
        y = self.first(x)
        a, b = talking_parts(y)
        return self.second(a + b)


@counted(1, "Loop.forward")
class Loop(Net):
    def forward(self, x: Tensor) -> Any:
        y = self.first(x)
        for _ in range(5):
            y = y * 2
            print("in a loop")  # breaks
        return self.second(y)


def talking(y: Tensor) -> Tensor:
    z = y * 2
    print("in a function")  # breaks
    return z + 1


@counted(1)
class Recompiled(Net):
    def forward(self, x: Tensor) -> Any:
        y = self.first(x)
        return self.second(torch.cat([talking(y[:1]), talking(y[1:])]))


@counted(2)
class Two(Net):
    def forward(self, x: Tensor) -> Any:
        y = self.first(x)
        print("the first of two")  # breaks
        y = self.second(y)
        if y.mean() > -100:  # breaks
            y = y * 2
        return y + 1


@counted(1 + (torch.__version__ >= "2.13"))  # before, torch says no columns
class TwoOnALineFromOneColumn(Net):
    def forward(self, x: Tensor) -> Any:
        y = self.first(x)
        scale = not_compiled(y).sum().item()  # breaks
        return self.second(y) * scale


# It is torch.compile that calls such a forward: no line of the model is to blame.
@counted(1)
class DisabledForward(Net):
    def _forward(self, x: Tensor) -> Any:
        return self.second(self.first(x))

    forward = torch._dynamo.disable(_forward)


@counted(0)
class Unbroken(Net):
    def forward(self, x: Tensor) -> Any:
        y = self.first(x)
        try:
            if y.shape[0] == 3:
                raise ValueError("not 3")
        except ValueError:
            y = y * 3
        return self.second(y)


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def watched(name: str, *rows: int) -> GraphBreaks | None:
    """Of calls with so many rows."""
    compiled: Any = torch.compile(BY_HAND[name][0]().eval(), backend="eager", dynamic=False)
    with graph_break_watch.watch() as watch:
        for count in rows or (3,):
            compiled(torch.rand(count, WIDTH) + 0.5)
    return watch.breaks


@pytest.mark.full
@pytest.mark.parametrize("name", BY_HAND)
def test_graph_breaks_equal_the_count_by_hand(name: str) -> None:
    found = watched(name)
    assert (len(found.sites), found.in_eager) == BY_HAND[name][1:]
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    for site in found.sites:
        if name == "DisabledForward":
            assert site.place is None
        else:
            file, _, line = site.place.partition(":")
            assert file == Path(__file__).name
            assert lines[int(line) - 1].endswith("# breaks")
        assert site.reason
        assert "\n" not in site.reason


@pytest.mark.full
def test_a_second_call_and_a_recompilation_add_no_site_and_nothing_stays_hooked() -> None:
    before = InstructionTranslatorBase.log_graph_break
    assert len(watched("Recompiled", 3, 3, 4, 5).sites) == 1
    assert InstructionTranslatorBase.log_graph_break == before


@pytest.mark.full
def test_without_the_hooks_in_torch_breaks_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(InstructionTranslatorBase, "step_graph_break")
    assert watched("Unbroken") is None


def stack(*lines: tuple[str, int], columns: tuple[int, int] | None = None) -> list[FrameSummary]:
    first, last = columns or (None, None)
    return [
        FrameSummary(file, line, "forward", lookup_line=False, colno=first, end_colno=last)
        for file, line in lines
    ]


OURS = ("/home/me/net.py", 12)
TORCH = (f"{graph_break_watch.TORCH}nn/modules/rnn.py", 1000)
FIRST, INNER, SECOND = (stack(OURS, columns=each) for each in ((0, 5), (0, 9), (6, 9)))
WITHIN = stack(TORCH, columns=(4, 8))
INSTALLED = (str(Path(sysconfig.get_path("stdlib"), "site-packages/transformers/modeling.py")), 7)
"""In the Python that an environment was made with."""


@pytest.mark.parametrize(
    ("stacks", "places"),
    [
        ([stack(OURS, TORCH), stack(TORCH)], ["net.py:12"]),
        ([stack(TORCH)], ["rnn.py:1000"]),
        ([FIRST, SECOND, INNER, SECOND, FIRST], ["net.py:12"] * 3),
        ([[*FIRST, *WITHIN], WITHIN, [*SECOND, *WITHIN], WITHIN], ["net.py:12"] * 2),
        ([stack(OURS, INSTALLED)], ["modeling.py:7"]),
        ([stack((f"{graph_break_watch.DYNAMO}external_utils.py", 69))], [None]),
    ],
    ids=[
        *("again within a library", "a library alone"),
        *("expressions of one line", "two calls of a library on a line"),
        *("in an installed package", "in Dynamo only"),
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


@pytest.mark.parametrize(
    ("last", "advised"),
    [
        ("a", graph_break_watch.OF_VALUES),
        ("tensor 'x' size mismatch at index 1. expected 16, actual 22", graph_break_watch.OF_SIZES),
    ],
)
def test_the_last_reason_to_compile_again_is_named(
    last: str, advised: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics = [CompilationMetrics(recompile_reason=reason) for reason in ("a", "b", last, None)]
    monkeypatch.setattr(graph_break_watch, "get_compilation_metrics", lambda: metrics)
    model = probe_models.model(probe_models.scaled)
    reason = graph_break_watch.failure_reason(FailOnRecompileLimitHit(), model)
    assert f"its last reason: {last}; {advised}" in (reason or "")
