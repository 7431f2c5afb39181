"""Places in code where Dynamo stopped, and whose code it is, from the frames that it reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from traceback import FrameSummary, walk_tb

import torch
from torch._dynamo.symbolic_convert import InstructionTranslatorBase

from modescope.bench.records.paths import is_of_python

TORCH = str(Path(torch.__file__).parent) + "/"
DYNAMO = TORCH + "_dynamo/"

SourceLine = tuple[str, int]  # file, line
Columns = tuple[int, int]  # within the line: where the expression starts and ends
Spot = tuple[SourceLine, Columns | None]  # None where torch does not say


def without_dynamo(stack: Sequence[FrameSummary]) -> list[FrameSummary]:
    """Without Dynamo's own Python frames, such as its replacements of builtins."""
    return [frame for frame in stack if not frame.filename.startswith(DYNAMO)]


def models_own(stack: Sequence[FrameSummary]) -> list[FrameSummary]:
    """Without frames of torch and of Python."""
    return [frame for frame in stack if not is_library(frame.filename)]


def is_library(file: str) -> bool:
    """Whether a file belongs to torch or Python; models come from any other package."""
    return file.startswith(("<", TORCH)) or is_of_python(file)  # "<frozen …>", "<string>"


def line_of(frame: FrameSummary) -> SourceLine:
    """The line that a frame is at; 0 where that is unknown."""
    return frame.filename, frame.lineno or 0


def spot_of(frame: FrameSummary, columns: Mapping[SourceLine, Columns]) -> Spot:
    """The expression that a frame is at; `columns` is used for frames without their own."""
    line = line_of(frame)
    if frame.colno is None or frame.end_colno is None:
        return line, columns.get(line)
    return line, (frame.colno, frame.end_colno)


def columns_of(error: Exception) -> dict[SourceLine, Columns]:
    """The columns at which the functions in the traceback of `error` stopped.

    Read from Dynamo's translators, because torch before 2.13 leaves columns out of the stack.
    """
    columns = {}
    cause: BaseException | None = error
    while cause:
        for frame, _ in walk_tb(cause.__traceback__):
            translator = frame.f_locals.get("self")
            if isinstance(translator, InstructionTranslatorBase):
                at = translator.current_instruction.positions
                if at and at.col_offset is not None and at.end_col_offset is not None:
                    line = translator.f_code.co_filename, translator.lineno
                    columns[line] = at.col_offset, at.end_col_offset
        cause = cause.__cause__ or cause.__context__
    return columns
