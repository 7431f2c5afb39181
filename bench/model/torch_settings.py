"""Reads torch's settings of the whole process, and restores those that a model changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

SUBNORMAL = 1e-39
"""A subnormal number in fp32: if torch flushes these, a kernel that computes it returns 0."""


@dataclass(frozen=True)
class Setting:
    """How one setting of torch is read and written."""

    read: Callable[[], Any]
    write: Callable[[Any], object]


def flushes() -> bool:
    """Whether kernels flush subnormal numbers to 0; torch has no function that reads this."""
    with torch.inference_mode():
        return not torch.full((1,), SUBNORMAL * 1e2, device="cpu", dtype=torch.float32).mul(1e-2)


def _set_default_device(name: str) -> None:
    """Sets torch's default device to `name`; for `cpu` to None, which means the same.

    Any default device other than None slows every call down.
    """
    torch.set_default_device(None if name == "cpu" else name)


def _attribute(backend: Any, name: str) -> Setting:
    return Setting(partial(getattr, backend, name), partial(setattr, backend, name))


SETTINGS: dict[str, Setting] = {
    "threads": Setting(torch.get_num_threads, torch.set_num_threads),
    "default dtype": Setting(torch.get_default_dtype, torch.set_default_dtype),
    "default device": Setting(lambda: str(torch.get_default_device()), _set_default_device),
    "deterministic algorithms": Setting(
        torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode
    ),
    "flush denormal": Setting(flushes, torch.set_flush_denormal),
    "grad enabled": Setting(torch.is_grad_enabled, torch.set_grad_enabled),
    **{
        f"autocast on {device}": Setting(
            partial(torch.is_autocast_enabled, device), partial(torch.set_autocast_enabled, device)
        )
        for device in ("cpu", "cuda")
    },
    **{
        f"autocast dtype on {device}": Setting(
            partial(torch.get_autocast_dtype, device), partial(torch.set_autocast_dtype, device)
        )
        for device in ("cpu", "cuda")
    },
    "matmul precision": Setting(
        torch.get_float32_matmul_precision, torch.set_float32_matmul_precision
    ),
    **{
        f"cudnn.{name}": _attribute(torch.backends.cudnn, name)
        for name in ("allow_tf32", "benchmark", "deterministic", "enabled")
    },
    "mkldnn.enabled": _attribute(torch.backends.mkldnn, "enabled"),
}


def read() -> dict[str, Any]:
    """Returns the present value of each setting; None for one that cannot be read."""
    values: dict[str, Any] = {}
    for name, setting in SETTINGS.items():
        values[name] = None
        with suppress(RuntimeError):  # of TF32, where a model used torch's other switches for it
            values[name] = setting.read()
    return values


def put_back(before: Mapping[str, Any]) -> tuple[str, ...]:
    """Sets changed settings to their values in `before`; returns texts such as `threads 1 → 2`."""
    changed = {name: now for name, now in read().items() if before[name] not in (None, now)}
    for name in changed:
        SETTINGS[name].write(before[name])
    return tuple(f"{name} {before[name]} → {now}" for name, now in changed.items())


@contextmanager
def keep() -> Iterator[list[str]]:
    """Restores all settings after the block; adds the changes to the list that it yields."""
    before, changed = read(), list[str]()
    try:
        yield changed
    finally:
        changed += put_back(before)
