"""Checks that a side measures its own state of the user's code, and not another one's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from modescope.bench.records.cases import BUILT_IN
from modescope.bench.records.errors import UsageError
from modescope.bench.resolve import Request
from modescope.bench.versus.states import State
from modescope.bench.versus.worker import Origin

KEYS = ("model.target", "model.loss")
"""Settings that may name a function of the user's."""

Functions = tuple[tuple[str, str], ...]
"""The settings of a case that name a function of the user's, each with its name."""


def of_user(requests: Sequence[Request]) -> list[Functions]:
    """The user's functions in each case; what several cases share once.

    Raises UsageError for a case without any, which no state of the user's code can change.
    """
    found: dict[Functions, None] = {}
    for request in requests:
        model = request.settings.model
        named = [(key, str(getattr(model, key.partition(".")[2]))) for key in KEYS]
        theirs = tuple(one for one in named if ":" in one[1] and not one[1].startswith(BUILT_IN))
        if not theirs:
            raise UsageError(
                f"model={model.option} comes with modescope, of which one checkout measures both "
                "sides, so no revision or folder changes it; measure a model of yours "
                "(model=custom model.target=my_package.my_module:build), or name two interpreters"
            )
        found[theirs] = None
    return list(found)


def distinct(cases: Sequence[Functions]) -> list[tuple[str, str]]:
    """The functions of all cases, each once."""
    return list(dict.fromkeys(one for functions in cases for one in functions))


def check(state: State, cases: Sequence[Functions], origins: Sequence[Origin]) -> None:
    """UsageError if the user's functions are not of the state that is to be measured.

    Of each case one function must be: its model may be another package's, its loss the user's.
    """
    if state.source is None:
        return
    source = state.source.resolve()
    for origin in origins:
        strangers = [file for file in (origin.file, *origin.others) if _is_hidden(file, state)]
        if strangers:
            raise UsageError(
                f"{state}: {origin.key}={origin.target} imports {strangers[0]} of the working "
                "tree, not of the revision; start in the folder from which your package is "
                "imported, or put that folder on PYTHONPATH"
            )
    files = {(origin.key, origin.target): origin.file for origin in origins}
    for functions in cases:
        of_case = [files[one] for one in functions]
        if not any(file and Path(file).resolve().is_relative_to(source) for file in of_case):
            key, target = functions[0]
            raise UsageError(
                f"{state}: {key}={target} is imported from {of_case[0]}, not from "
                f"{_named(state)}; {_advice(state)}"
            )


def _is_hidden(file: str | None, state: State) -> bool:
    if file is None or state.hidden is None or state.source is None:
        return False
    path = Path(file).resolve()
    own = path.is_relative_to(state.source.resolve())
    return path.is_relative_to(state.hidden.resolve()) and not own


def _named(state: State) -> str:
    return f"the repository {state.hidden}" if state.hidden else str(state.source)


def _advice(state: State) -> str:
    if state.hidden:
        return "start in the repository of your model, in the folder that holds its package"
    return "name the folder that holds its package"
