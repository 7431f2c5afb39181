"""Hydra's and OmegaConf's exceptions as one sentence that names the culprit."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from hydra.errors import HydraException, MissingConfigException
from omegaconf.errors import OmegaConfBaseException

CONFIGURATION_ERRORS = (HydraException, OmegaConfBaseException, ValueError)
"""What composing a configuration raises; ValueError is Hydra's answer to `group=null`."""


def explain(error: BaseException, arguments: Sequence[str]) -> str:
    """What came (among `arguments`), what is allowed, and what to do, on at most two lines."""
    if isinstance(error, MissingConfigException) and error.options is not None:
        group, _, option = (error.missing_cfg_file or "").rpartition("/")
        return f"{group}={option}: no such option{_nearest(option, error.options)}"
    cause = error.__cause__ if isinstance(error.__cause__, OmegaConfBaseException) else None
    message = str(cause or error)
    unknown = re.search(r"Key '([^']+)' (?:is not in struct|not in '[^']+')", message)
    key = re.search(r"full_key: (\S+)", message)
    if unknown and key and key[1].startswith("model.kwargs."):
        return f"{key[1]}: no such key yet; put a + before model.kwargs to add it"
    if unknown and key:
        return (
            f"{key[1]}: no such key; python run.py --cfg job shows those there are, with the "
            "sizes of the chosen model under shape"
        )
    ambiguous = re.search(r"Ambiguous value for argument '([^']+)'", message)
    if ambiguous:
        return f"{ambiguous[1]}: several values make a sweep; add -m"
    if type(error) is ValueError:  # "Config group override must be a string or a list": no culprit
        wrong = [each for each in arguments if re.search(r"=(null|true|false|[\d.]+)$", each)]
        return (
            f"{' or '.join(wrong) or message}: a group takes the name of one of its options, which "
            "python run.py --help lists"
        )
    first = message.splitlines()[0] if message else type(error).__name__
    return f"{key[1]}: {first}" if key else " ".join(message.split())


def _nearest(option: str, options: Sequence[str]) -> str:
    close = difflib.get_close_matches(option, options, n=1)
    hint = f", did you mean {close[0]}?" if close else ""
    return f"{hint} Known are {', '.join(options)}" if hint else f"; known are {', '.join(options)}"
