"""Checks that a side measures its own state of the user's code, and not another one's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from modescope.bench.records.cases import BUILT_IN
from modescope.bench.records.errors import UsageError
from modescope.bench.sweep.settings.request import Request, option
from modescope.bench.versus.states import State
from modescope.bench.versus.worker import Origin

KEYS = ("model.target", "model.loss")
"""Settings that may name a function of the user's."""


def targets(requests: Sequence[Request]) -> list[tuple[str, str]]:
    """The settings that name a function of the user's, with its name; each once.

    Raises UsageError for a case without any, which no state of the user's code can change.
    """
    found: dict[tuple[str, str], None] = {}
    for request in requests:
        model = request.config["model"]
        named = [(key, str(model[key.partition(".")[2]])) for key in KEYS]
        theirs = [one for one in named if ":" in one[1] and not one[1].startswith(BUILT_IN)]
        if not theirs:
            raise UsageError(
                f"model={option(model)} comes with modescope, of which one checkout measures both "
                "sides, so no revision or folder changes it; measure a model of yours "
                "(model=custom model.target=my_package.my_module:build), or name two interpreters"
            )
        found |= dict.fromkeys(theirs)
    return list(found)


def check(state: State, origins: Sequence[Origin]) -> None:
    """UsageError if the user's functions are not of the state that is to be measured."""
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
    if not any(origin.file and Path(origin.file).resolve().is_relative_to(source)
               for origin in origins):  # fmt: skip
        origin = origins[0]
        raise UsageError(
            f"{state}: {origin.key}={origin.target} is imported from {origin.file}, not from "
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
