"""What one watch finds in a block; warnings of torch are collected and still shown."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from modescope.bench.devices.allocators import Watched
from modescope.bench.evidence import watching
from modescope.bench.evidence.compiler_counts import Compiled
from modescope.bench.model import compiler
from modescope.bench.records.columns.compiling import Compilations, CompiledCode, GeneratedCode
from modescope.bench.records.columns.passes import Setup

PLACE = str(Path(torch.__file__).parent / "nn" / "made_up.py")
FROM_CPP = "slow (Triggered internally at /pytorch/aten/src/ATen/x.cpp:1.)"


def test_warnings_of_torch_are_collected_once_and_shown() -> None:
    """Also one that was shown before, and one of C++ code, which has the place of its caller."""
    registry: dict[str | tuple[str, type[Warning], int], int] = {}

    def warn(text: str, place: str = PLACE) -> None:
        warnings.warn_explicit(text, UserWarning, place, 1, registry=registry)

    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        warn("again")
        with watching.watch_warnings() as found:
            for text in ("again", "again", "other"):
                warn(text)
            warn(FROM_CPP, "model.py")
            warn("mine", "model.py")
    assert found == ["again", "other", "slow"]
    assert [str(each.message) for each in shown] == ["again", "again", "other", FROM_CPP, "mine"]


def test_what_torch_logs_as_a_warning_is_collected() -> None:
    log = logging.getLogger("torch._dynamo.made_up")
    with watching.watch_warnings() as found:
        log.warning("hit the limit of %d", 8)
        log.error("worse")
        log.info("unimportant")
        logging.getLogger("other").warning("not torch")
    assert found == ["hit the limit of 8", "worse"]
    log.warning("later")
    assert len(found) == 2


def test_the_former_handlers_are_back_afterwards() -> None:
    before = warnings.showwarning, logging.getLogRecordFactory()
    with pytest.raises(KeyError), watching.watch_warnings():
        raise KeyError
    assert (warnings.showwarning, logging.getLogRecordFactory()) == before


class Peaks:
    """An allocator whose watch finds 7 bytes."""

    @contextmanager
    def watch_setup(self) -> Iterator[Watched[Setup]]:
        found: Watched[Setup] = Watched()
        yield found
        found.result = Setup(setup_peak_bytes=7)


def test_a_watch_is_one_record_and_unknown_where_nothing_watches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compiler, "is_imported", lambda: False)
    peaks: Any = Peaks()
    with watching.watch(compiles=False, code=True, memory=peaks) as watch:
        logging.getLogger("torch.made_up").warning("slow")
        assert watch.limit_hits == 0
        with pytest.raises(AssertionError):
            _ = watch.evidence
    assert watch.evidence == watching.CallEvidence(
        compiled=Compiled(0, 0, 0, 0),
        warnings=("slow",),
        symbolic_sizes=None,
        breaks=None,
        limit_hits=0,
        failure=None,
        code=GeneratedCode(),
        compiled_code=CompiledCode(),
        compilations=Compilations(),
        setup=Setup(setup_peak_bytes=7),
    )
    with watching.watch(compiles=False) as watch:
        pass
    assert (watch.evidence.warnings, watch.evidence.setup) == ((), Setup())


def _broken(x: torch.Tensor) -> torch.Tensor:
    y = x * 2 + 1
    torch._dynamo.graph_break()
    return y.relu() + 1


@pytest.mark.full
def test_what_is_compiled_in_the_block_is_in_the_record() -> None:
    torch.compiler.reset()
    call = torch.compile(_broken)
    with watching.watch(compiles=True, code=True) as watch:
        call(torch.rand(64, 64))
    seen = watch.evidence
    assert (seen.compiled.graphs, len(seen.breaks.sites), seen.limit_hits) == (2, 1, 0)
    assert (seen.code.generated_kernels, seen.symbolic_sizes, seen.failure) == (2, 0, None)
    assert seen.compilations.compile_phases_s
    assert seen.setup == Setup()
    with watching.watch(compiles=True) as watch:
        call(torch.rand(64, 64))
    assert (watch.evidence.compiled.graphs, watch.evidence.breaks.sites) == (0, ())
    assert watch.evidence.compilations == Compilations()
