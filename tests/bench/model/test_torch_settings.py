"""Every setting is read, changed and put back."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
import torch

from modescope.bench.model import torch_settings

OTHER: dict[str, Any] = {
    "threads": 3,
    "default dtype": torch.float64,
    "default device": "meta",
    "deterministic algorithms": 1,
    "flush denormal": True,
    "matmul precision": "medium",
    "autocast dtype on cpu": torch.float16,
    "autocast dtype on cuda": torch.bfloat16,
}
"""Values that no test has by default; of the rest the opposite."""


@pytest.mark.parametrize("name", torch_settings.SETTINGS)
def test_a_setting_that_is_changed_is_put_back_and_named(name: str) -> None:
    setting, before = torch_settings.SETTINGS[name], torch_settings.read()
    other = OTHER.get(name, not before[name])
    with suppress(ZeroDivisionError), torch_settings.keep() as changed:
        setting.write(other)
        assert setting.read() == other
        raise ZeroDivisionError
    assert torch_settings.read() == before
    assert changed == [f"{name} {before[name]} → {other}"]
