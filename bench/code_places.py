"""Whose code stopped Dynamo, and where: of frames as it reports them."""

from __future__ import annotations

import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from traceback import FrameSummary, walk_tb

import torch
from torch._dynamo.symbolic_convert import InstructionTranslatorBase

TORCH = str(Path(torch.__file__).parent) + "/"
DYNAMO = TORCH + "_dynamo/"
_STANDARD_LIBRARY = (sysconfig.get_path("stdlib") + "/", "<")  # "<frozen …>", "<string>"
INSTALLED = (sysconfig.get_path("purelib") + "/", sysconfig.get_path("platlib") + "/")

Line = tuple[str, int]  # file, line
Columns = tuple[int, int]  # within the line: where the expression starts and ends
Spot = tuple[Line, Columns | None]  # None where torch does not say


def without_dynamo(stack: Sequence[FrameSummary]) -> list[FrameSummary]:
    """Without Dynamo's own Python, such as what stands in for a builtin."""
    return [frame for frame in stack if not frame.filename.startswith(DYNAMO)]


def models_own(stack: Sequence[FrameSummary]) -> list[FrameSummary]:
    """Without frames of torch and of Python."""
    return [frame for frame in stack if not is_library(frame.filename)]


def is_library(file: str) -> bool:
    """Whether a file is of torch or of Python; models come from any other package."""
    if file.startswith(INSTALLED):
        return file.startswith(TORCH)
    return file.startswith((*_STANDARD_LIBRARY, TORCH))


def line_of(frame: FrameSummary) -> Line:
    """The line that a frame is at; 0 where that is unknown."""
    return frame.filename, frame.lineno or 0


def spot_of(frame: FrameSummary, columns: Mapping[Line, Columns]) -> Spot:
    """The expression that a frame is at; `columns` for one that does not hold its own."""
    line = line_of(frame)
    if frame.colno is None or frame.end_colno is None:
        return line, columns.get(line)
    return line, (frame.colno, frame.end_colno)


def columns_of(error: Exception) -> dict[Line, Columns]:
    """Where in its line each function stopped that `error` went through.

    From Dynamo's translators, as torch before 2.13 leaves columns out of the stack.
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
