"""Dataclasses of causes: what a rule reads, what it returns, and what readers see."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, auto

from modescope.analysis.rows.type import Row


class Kind(IntEnum):
    """The kinds of causes, the most important first; of one kind, the larger share comes first.

    SMALL_GAIN and REST are no kinds of an entry, and LIMIT is one of an entry only: `finding` gives
    the kind by the row's speedup.
    """

    DECISIVE = auto()  # the mode did not do what its name says, or not with usual numbers
    GAIN = auto()  # what the mode saves of the baseline's call
    LOSS = auto()  # what the mode adds to a slower call; named before what the baseline has, too
    PART = auto()  # takes a part of a call's time, and so explains a small gain or a loss
    SMALL_GAIN = auto()  # a GAIN of less than a tenth, which a PART explains first
    SETTING = auto()  # explains a call's time, but not its ratio to the baseline, which has it, too
    COST = auto()  # a cost beside the time of a call: first call, memory
    REST = auto()  # explains nothing: a LOSS or PART of a faster call, or too small a share
    HINT = auto()  # a fact whose effect was not measured
    LIMIT = auto()  # takes as much of the baseline's call: explains a small gain, but no loss


EXPLAINING = (Kind.DECISIVE, Kind.GAIN, Kind.LOSS, Kind.PART, Kind.SMALL_GAIN)
"""The kinds that explain the speedup of a row; causes of other kinds are reported besides."""


@dataclass(frozen=True)
class Context:
    """A row to explain, and the trusted rows of the study with which a rule may compare it.

    A trusted row ended ok, was in effect, had more than a smoke budget and has an interval. `plain`
    is None if it was not measured, or if `row` itself is plain eager at the baseline's dtype. Rows
    of the same work have equal model, sizes and phase (inference or training).
    """

    row: Row
    plain: Row | None = None  # plain eager: same grad axis and baseline, at the baseline's dtype
    siblings: tuple[Row, ...] = ()  # same work, machine, threads and baseline; other modes, dtypes
    threads: tuple[Row, ...] = ()  # the same case with other numbers of threads, comparable to it
    caches: tuple[Row, ...] = ()  # the same case with the other state of the compiler cache


@dataclass(frozen=True)
class Evidence:
    """What a rule returns if its cause applies.

    `share` is the part of a call's time that the cause explains; for the cause of a gain, the part
    of the baseline's call. It orders causes of one kind; None means unknown and comes last.
    `texts` has those to fill into the cause's sentence and remedy, by name.
    """

    share: float | None = None
    texts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Cause:
    """A possible cause: the rule that looks for it, and the sentence and the remedy to print.

    The sentence can follow a colon, so it begins with a small letter.
    """

    kind: Kind
    rule: Callable[[Context], Evidence | None]
    sentence: str  # a template for `str.format` with the evidence's texts
    remedy: str = ""  # what to do, as a template with the same texts
    inferred: bool = False  # not used where the steps between eager and the mode were measured

    @property
    def code(self) -> str:
        """The name of the cause in columns and texts, which is the name of its rule."""
        return self.rule.__name__


@dataclass(frozen=True)
class Finding:
    """A cause that applies to a row, with its texts filled in.

    `code` and `share` are those of its Cause and its Evidence. `kind` is the Cause's kind, or
    depends on the row's speedup (`finding.kind_of`). `sentence` begins with a small letter.
    """

    code: str
    kind: Kind
    share: float | None
    sentence: str
    remedy: str
    text: str  # what is explained, the sentence and the remedy
