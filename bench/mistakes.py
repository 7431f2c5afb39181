"""Says what is wrong with a setting, and what was meant, in one line. Imports no torch."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from modescope.bench.modes.quantizing import QUANTIZERS
from modescope.bench.records.errors import UsageError, os_error_text
from modescope.bench.records.paths import CONF

GROUPS = sorted(folder.name for folder in CONF.iterdir() if folder.is_dir())
"""The config groups: the folders of conf/."""

OPEN = ("shape", "model.kwargs", "model.kernels", "model.inputs", "mode.options")
"""Sections to which a user may add keys, as in `+model.kwargs.width=8`."""

SIZES = ("batch", "seq", "width", "depth", "heads", "vocab", "pixels")
"""Sizes that are looked for at the top level, though they are keys of `shape`."""

ALIASES = {
    **dict.fromkeys(("float16", "half"), "fp16"),
    **dict.fromkeys(("float32", "float"), "fp32"),
    "bfloat16": "bf16",
}
"""Maps values under which torch or others know one of ours to that one."""

LIBRARIES = {
    "timm": r"\w+_patch\d+\w*",
    "transformers": "gpt2|bert|llama|qwen3|t5",
    "diffusers": "unet|dit",
    "torchvision": r"(resnet|resnext|wide_resnet|vgg|densenet)\d+\w*|alexnet|googlenet|"
    r"(mobilenet|efficientnet|shufflenet|regnet|convnext|swin|vit|maxvit|inception)_\w+",
}
"""Maps each model with `model.name` to a pattern of names that are typed in its place."""


def usage_error(
    typed: str,
    what: str,
    allowed: Iterable[str] = (),
    wrong: str | None = None,
    meant: Sequence[str] = (),
) -> UsageError:
    """Returns a one-line UsageError: `typed` (key=value), what is wrong, and the `allowed` names.

    It suggests `meant`, else the allowed name that is most like `wrong`, by default like the value
    in `typed`. Of names with dots the last part counts.
    """
    names = list(allowed)
    meant = meant or _near(wrong or typed.partition("=")[2], names)
    listed = f"; allowed: {', '.join(names)}" if names else ""
    hint = f"; did you mean {', or '.join(meant)}?" if meant else ""
    return UsageError(f"{typed}: {what}{listed}{hint}")


def _near(wrong: str, names: Sequence[str]) -> list[str]:
    """Returns the name that stands for `wrong` or is most like it; none if no name is."""
    if ALIASES.get(wrong) in names:
        return [ALIASES[wrong]]
    last = {name.rpartition(".")[2]: name for name in names}
    return [last[part] for part in difflib.get_close_matches(wrong.rpartition(".")[2], last, n=1)]


def mistake(error: OmegaConfBaseException, words: Sequence[str] = ()) -> UsageError:
    """Returns the UsageError for an exception of OmegaConf.

    It names the word of the command line `words` that set the key, or only the key if no word did.
    """
    key = error.full_key or ""
    typed = next((word for word in words if word.lstrip("+~").partition("=")[0] == key), key)
    experiment = next((word for word in words if word.startswith("experiment=")), None)
    if experiment and key.startswith("shape.") and (typed == key or typed.startswith("+")):
        return UsageError(
            f"{experiment}: it sets {key}, which this model does not have; in its place type -m "
            f"with its modes and sizes, as in +{key}=64,512"
        )
    if not isinstance(error, ConfigAttributeError | ConfigKeyError):
        text = str(error.msg or error).partition("\n")[0]
        return usage_error(typed, text) if key else UsageError(text)
    whole: Any = error.parent_node and error.parent_node._get_root()
    section, _, name = key.rpartition(".")
    around = (str(other) for other in error.parent_node or () if other != "hydra")
    known = [f"{section}.{other}".lstrip(".") for other in around]
    fixed = OmegaConf.select(whole, "model.sizes") if whole else None
    if not section and whole:
        if meant := [f"{owner}.{typed}" for owner in _owners(key, whole)]:
            return usage_error(typed, "no such key", meant=meant)
        if key in SIZES and fixed:
            return usage_error(typed, "no such size", [f"shape.{size}" for size in whole.shape])
        if key in SIZES:
            return usage_error(typed, "no such key", meant=[f"+shape.{typed}"])
    opened = section in OPEN and not (section == "shape" and fixed)
    adds = f" yet, and +{key} adds it" if opened else ""
    meant = []
    if whole and not opened:
        owners = [f"{owner}.{name}" for owner in _owners(name, whole)]
        meant = [name] if name in whole else owners
    return usage_error(typed, f"no such key{adds}", known, key, meant)


def _owners(key: str, whole: DictConfig) -> list[str]:
    """Returns the sections that have the key, such as `shape` for batch."""
    sections = {str(name): OmegaConf.select(whole, str(name)) for name in whole if name != "hydra"}
    return [name for name, of in sections.items() if isinstance(of, DictConfig) and key in of]


def explain(error: Exception, words: Sequence[str] = ()) -> UsageError:
    """Returns a UsageError of one line for an exception of Hydra, OmegaConf or the system.

    `words` is the command line, so that the message can name the word at fault.
    """
    if isinstance(error, MissingConfigException) and error.options is not None:
        group, _, option = (error.missing_cfg_file or "").partition("/")
        meant = _meant(group, option)
        return usage_error(f"{group}={option}", "no such option", error.options, meant=meant)
    cause = error.__cause__ if isinstance(error, HydraException) else error
    if isinstance(cause, OmegaConfBaseException):
        return mistake(cause, words)
    if isinstance(error, OverrideParseException):
        return usage_error(error.override, f"cannot be read; {_written(error.override)}")
    if isinstance(error, OSError) and not isinstance(error, MissingConfigException):
        return UsageError(
            f"{os_error_text(error)}; results_dir must be a folder that can be written"
        )
    text = " ".join(str(error).partition("\nSee https://")[0].split())
    if match := re.match(r"Ambiguous value for argument '(.*?)' 1\.", text):
        return usage_error(match[1], "several values make a sweep; add -m")
    return UsageError(text or type(error).__name__)


def _meant(group: str, option: str) -> list[str]:
    """Returns settings that may be meant by an option that its group does not have."""
    if group == "model" and (meant := _meant_model(option)):
        return [meant]
    if group == "mode" and option in QUANTIZERS:
        return [f"mode=compile mode.quantize={option}"]
    folder, _, name = option.rpartition("/")
    near = _near(name, _options(group, folder))
    others = [other for other in GROUPS if option in _options(other)]
    within = _options(group, option)
    chosen = {*within} & {"inference_mode"} or within[:1]
    elsewhere = [
        *(f"{other}={option}" for other in others),
        *(f"{group}={option}/{name}" for name in chosen),
    ]
    if not (folder or elsewhere):
        return []  # the nearest of the allowed options is named as it is listed
    return [*(f"{group}={'/'.join(filter(None, (folder, name)))}" for name in near), *elsewhere]


def _meant_model(option: str) -> str | None:
    """Returns the settings for a function, or for an architecture of a library."""
    if ":" in option:  # beside other models
        return f"model=custom model.target={option}"
    module = option.removeprefix("./").removesuffix(".py").replace("/", ".")
    path = Path(module.replace(".", "/"))
    files = (Path(f"{path}.py"), path / "__init__.py")
    if option.endswith(".py") or any(file.is_file() for file in files):
        return f"model={module}:FUNCTION"
    if "." in option:
        return f"model={':'.join(option.rsplit('.', 1))}"
    named = (name for name, pattern in LIBRARIES.items() if re.fullmatch(pattern, option))
    return next((f"model={name} model.name={option}" for name in named), None)


def _options(group: str, folder: str = "") -> list[str]:
    """Returns the options of a group that lie in a folder of it, such as those of mode/bf16."""
    return sorted(file.stem for file in (CONF / group / folder).glob("*.yaml"))


def _written(override: str) -> str:
    """Returns how a setting is written that Hydra cannot read."""
    key, sign, value = override.partition("=")
    if not sign or {*value} & {*"'\"[]{}()$"}:
        return "a setting is written key=value; --help lists them"
    quoted = shlex.quote(f'{key}="{value}"')
    return f"text with spaces or signs is in quotes: {quoted}"
