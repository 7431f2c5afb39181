from __future__ import annotations

import pytest


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("cuda") is None:
        return
    import torch  # here, so that tests that need no torch do not wait for it

    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA GPU, and torch sees none here")
