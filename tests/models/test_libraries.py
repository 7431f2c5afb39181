"""Published architectures. Those of the extra hf are built where it is: make test-full."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from modescope.models import libraries
from modescope.models.libraries import of_diffusers, of_timm, of_torchvision, of_transformers
from tests.helpers.commands import QUICKLY, Cli, rows

pytestmark = pytest.mark.full

TEXT = {"batch": 2, "seq": 8, "depth": 3, "width": 32, "heads": 4, "vocab": 50}
LATENT = {"batch": 2, "pixels": 16, "depth": 1, "width": 32, "heads": 4}
IMAGE = {"batch": 2, "pixels": 32}

BUILDS: dict[str, tuple[Callable[..., tuple[nn.Module, Any]], dict[str, int]]] = {
    "transformers": (of_transformers.build, TEXT),
    "diffusers": (of_diffusers.build, LATENT),
    "torchvision": (of_torchvision.build, IMAGE),
    "timm": (of_timm.build, IMAGE),
}
OF_HF = [("transformers", name) for name in of_transformers.ARCHITECTURES]
OF_HF += [("diffusers", name) for name in of_diffusers.ARCHITECTURES]

needs_hf = pytest.mark.skipif(
    not (find_spec("transformers") and find_spec("diffusers")),
    reason="needs pip install -e '.[hf]', as make test-full does",
)


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails a test that looks up the address of a hub."""

    def look_up(*arguments: object, **options: object) -> None:
        raise AssertionError(f"a connection to {arguments}")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def refusal(library: str, name: str, **changed: int) -> str:
    build, sizes = BUILDS[library]
    with pytest.raises(ValueError, match=r".") as refused:
        build(name, **{**sizes, **changed})
    message = str(refused.value)
    assert "\n" not in message
    return message


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Stand-ins for torchvision and timm; the options that their models are made with."""
    made: list[dict[str, Any]] = []

    def get_model(name: str, **given: Any) -> nn.Module:
        made.append(given)
        return nn.Linear(2, 2)

    def create_model(name: str, **given: Any) -> Any:
        made.append(given)
        if name == "resnet18" and "img_size" in given:
            raise TypeError("ResNet.__init__() got an unexpected keyword argument 'img_size'")
        module: Any = nn.Linear(2, 2)
        if name != "resnet18":
            module.pretrained_cfg = {"input_size": (1, 224, 224)}
        return module

    def list_models(module: str) -> list[str]:
        return ["fcn_resnet50"] if module == "segmentation" else ["resnet50", "vit_b_16"]

    vision: Any = SimpleNamespace(
        segmentation="segmentation", get_model=get_model,
        list_models=list_models,
    )  # fmt: skip
    names = ["resnet18", "vit_tiny_patch16_224"]
    monkeypatch.setitem(sys.modules, "torchvision", SimpleNamespace(models=vision))
    monkeypatch.setitem(
        sys.modules, "timm", SimpleNamespace(list_models=lambda: names, create_model=create_model)
    )
    return made


@pytest.mark.parametrize(
    ("library", "name", "sizes", "parts"),
    [
        ("transformers", "gtp2", {}, ("model.name=gtp2: ", "such as gpt2")),
        ("timm", "hf_hub:timm/resnet18.a1_in1k", {}, ("model.name=hf_hub", "resnet18, vit_tiny")),
        ("transformers", "gpt2", {"width": 30}, ("shape.width=30 cannot be split evenly over",)),
        ("diffusers", "dit", {"heads": 5}, ("shape.width=32 cannot be split evenly over",)),
    ],
)
def test_what_is_not_offered_is_refused_before_a_library_builds_it(
    options: list[Any], library: str, name: str, sizes: dict[str, int], parts: tuple[str, ...]
) -> None:
    message = refusal(library, name, **sizes)
    assert all(part in message for part in parts)
    assert not options


def test_a_missing_or_broken_library_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)  # as if it were not installed
    message = refusal("timm", "net")
    assert message.startswith("model=timm needs the package timm, which is not installed: pip")
    assert "pip install 'modescope[vision]'" in message
    (tmp_path / "timm.py").write_text("raise OSError('libx.so:\\nnot found')", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "timm")
    assert "importing timm fails (OSError: libx.so: not found)" in refusal("timm", "resnet18")


def test_what_a_library_refuses_is_one_sentence_and_no_room_stays_an_error() -> None:
    with (
        pytest.raises(ValueError, match=r"^timm does not build net with shape.batch=2: 7\s"),
        libraries.refusals("timm", "net", {"batch": 2}),
    ):
        raise AssertionError("7\n does not fit")
    with pytest.raises(RuntimeError, match="no memory"), libraries.refusals("timm", "net", {}):
        raise RuntimeError("no memory")


@pytest.mark.parametrize(
    ("library", "name", "channels", "expected"),
    [
        ("torchvision", "resnet50", 3, {"weights": None}),
        ("torchvision", "vit_b_16", 3, {"weights": None, "image_size": 32}),
        ("torchvision", "fcn_resnet50", 3, {"weights": None, "weights_backbone": None}),
        ("timm", "resnet18", 3, {"pretrained": False}),
        ("timm", "vit_tiny_patch16_224", 1, {"pretrained": False, "img_size": 32}),
    ],
)
def test_image_models_are_built_without_weights_for_the_size_of_the_image(
    options: list[dict[str, Any]], library: str, name: str, channels: int, expected: Any
) -> None:
    build, sizes = BUILDS[library]
    module, (x,) = build(name, **sizes)
    assert options[-1] == expected
    assert x.shape == (2, channels, 32, 32)
    assert module.training


@needs_hf
@pytest.mark.parametrize(("library", "name"), OF_HF)
def test_an_architecture_is_built_without_a_hub_for_its_sizes(library: str, name: str) -> None:
    build, sizes = BUILDS[library]
    module, inputs = build(name, **sizes)
    assert module.training
    assert {each.shape[0] for each in inputs.values()} == {2}
    for size in ("depth", "width"):
        assert count(build(name, **{**sizes, size: 2 * sizes[size]})[0]) > count(module)
    torch.manual_seed(0)
    again, same = build(name, **sizes)
    module.eval(), again.eval()
    for one, other in zip(module(**inputs).values(), again(**same).values(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@needs_hf
@pytest.mark.parametrize("name", of_transformers.ARCHITECTURES)
def test_language_models_keep_no_cache_and_use_fused_attention(name: str) -> None:
    module, inputs = of_transformers.build(name, **TEXT)
    config: Any = module.config
    assert (config._attn_implementation, config.use_cache) == ("sdpa", False)
    outputs = module(**inputs)
    assert outputs.logits.shape == (2, 8, 50)
    assert "past_key_values" not in outputs


@needs_hf
@pytest.mark.parametrize("phase", ["inference", "train"])
def test_published_models_are_measured_and_checked(cli: Cli, results: Path, phase: str) -> None:
    words = ("model=transformers", "model.name=gpt2,t5", "mode=eager,compile")
    answer = cli("-m", *words, f"phase={phase}", "shape=small", "shape.seq=8", *QUICKLY)
    assert answer.status == 0, answer.err
    found = rows(results)
    assert {row["model"] for row in found} == {"transformers:gpt2", "transformers:t5"}
    assert {row["status"] for row in found} == {"ok"}, [row["reason"] for row in found]
    assert all(row["checked"] for row in found)
    assert {json.loads(row["shape"])["seq"] for row in found} == {8}
