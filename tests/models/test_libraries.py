"""Published architectures. Those of the extra hf are built where it is: make test-full."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from modescope.models.libraries import (
    importing,
    of_diffusers,
    of_timm,
    of_torchvision,
    of_transformers,
)
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
    """Refuses every connection of this process, and fails the test that tries one."""

    connect = socket.socket.connect

    def to_this_machine(self: socket.socket, address: Any) -> None:
        assert self.family == socket.AF_UNIX, f"a connection to {address}"
        connect(self, address)

    def look_up(*arguments: object, **options: object) -> None:
        raise AssertionError(f"a connection to {arguments}")

    monkeypatch.setattr(socket.socket, "connect", to_this_machine)
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


class Sized(nn.Linear):
    """A stand-in for a model whose weights depend on the image's size."""

    def __init__(self, img_size: int) -> None:
        super().__init__(img_size, 2)
        self.pretrained_cfg = {"input_size": (1, 224, 224)}


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """torchvision and timm with two names each; returns the options that models were made with."""
    options: list[dict[str, Any]] = []

    def get_model(name: str, **given: Any) -> nn.Module:
        options.append(given)
        return nn.Linear(2, 2)

    def create_model(name: str, **given: Any) -> nn.Module:
        options.append(given)
        if name == "resnet18" and "img_size" in given:
            raise TypeError("ResNet.__init__() got an unexpected keyword argument 'img_size'")
        return nn.Linear(2, 2) if name == "resnet18" else Sized(given["img_size"])

    class Vision(ModuleType):
        def list_models(self, module: object = None) -> list[str]:
            images = ["maxvit_t", "resnet50", "vit_b_16"]
            return ["fcn_resnet50"] if module is self.segmentation else images

        def get_model_weights(self, name: str) -> list[SimpleNamespace]:
            return [SimpleNamespace(meta={"min_size": (30, 33)})]

    vision, models, timm = ModuleType("torchvision"), Vision("models"), ModuleType("timm")
    vars(models).update(segmentation=ModuleType("segmentation"), get_model=get_model)
    vars(vision).update(models=models)
    vars(timm).update(
        list_models=lambda: ["resnet18", "vit_tiny_patch16_224"], create_model=create_model
    )
    monkeypatch.setitem(sys.modules, "torchvision", vision)
    monkeypatch.setitem(sys.modules, "timm", timm)
    return options


@pytest.mark.parametrize(
    ("library", "name", "hint"),
    [
        ("transformers", "gtp2", "no such architecture, did you mean gpt2? known are bert, gpt2"),
        ("torchvision", "resnet5", "that takes one image, did you mean resnet50 or"),
        ("timm", "vit_tiny", "no such architecture, did you mean vit_tiny_patch16_224?"),
        ("transformers", "openai-community/gpt2", "downloads none, did you mean gpt2?"),
        ("timm", "hf_hub:timm/resnet18.a1_in1k", "downloads none, did you mean resnet18?"),
        ("timm", "local-dir:weights", "downloads none; known are"),
    ],
)
def test_a_name_that_is_unknown_or_one_of_a_hub_gets_those_that_were_meant(
    stand_ins: list[Any], library: str, name: str, hint: str
) -> None:
    message = refusal(library, name)
    assert message.startswith(f"model.name={name}: ")
    assert hint in message
    assert not stand_ins


@pytest.mark.parametrize(
    ("library", "name", "extra"), [("transformers", "gpt2", "hf"), ("timm", "net", "vision")]
)
def test_a_missing_extra_comes_with_its_command(
    monkeypatch: pytest.MonkeyPatch, library: str, name: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)  # as if it were not installed
    message = refusal(library, name)
    assert message.startswith(f"model={library} needs the package {library}, which is not inst")
    assert f"pip install 'modescope[{extra}]'" in message


@pytest.mark.parametrize(
    ("error", "parts"),
    [
        (f"RuntimeError({importing.OTHER_BUILD!r})", (importing.OTHER_BUILD, "/whl/cu130")),
        ("OSError('libx.so:\\nnot found')", ("timm fails (OSError: libx.so: not found)", "")),
    ],
    ids=["for another torch", "broken"],
)
def test_why_a_library_cannot_be_imported_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: str, parts: tuple[str, str]
) -> None:
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    (tmp_path / "timm.py").write_text(f"raise {error}", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    message = refusal("timm", "resnet18")
    assert parts[0] in message
    assert message.endswith(parts[1])


@pytest.mark.parametrize(
    ("library", "name", "sizes", "part"),
    [
        ("transformers", "gpt2", {"width": 30}, "shape.width=30 cannot be split evenly over"),
        ("diffusers", "dit", {"pixels": 15}, "shape.pixels=15: dit halves the image"),
        # heads of rotary positions have an even width
        ("transformers", "llama", {"width": 28}, "choose a width that is a multiple of 8"),
        ("transformers", "qwen3", {"heads": 3}, "choose a width that is a multiple of 6"),
        ("torchvision", "maxvit_t", {"pixels": 64}, "choose a multiple of 224"),
        ("torchvision", "vit_b_16", {"pixels": 50}, "choose a multiple of 16"),
    ],
)
def test_sizes_that_do_not_fit_are_named(
    stand_ins: list[Any], library: str, name: str, sizes: dict[str, int], part: str
) -> None:
    assert part in refusal(library, name, **sizes)
    assert not stand_ins


@pytest.mark.parametrize("kind", [AssertionError, type("TheirOwnError", (Exception,), {})])
def test_what_a_library_refuses_is_one_sentence(kind: type[Exception]) -> None:
    with (
        pytest.raises(ValueError, match=r"^timm does not build net with shape.batch=2: 7\s"),
        importing.refusals("timm", "net", {"batch": 2}),
    ):
        raise kind("7\n does not fit")


@pytest.mark.parametrize("kind", [RuntimeError, MemoryError, ImportError, OSError])
def test_what_other_sizes_do_not_mend_stays_as_it_is(kind: type[Exception]) -> None:
    with pytest.raises(kind, match="no memory"), importing.refusals("timm", "net", {}):
        raise kind("no memory")


MIN_33 = "torchvision asks for shape.pixels=33 or more"


@pytest.mark.parametrize(
    ("build", "name", "pixels", "options", "allowed"),
    [
        (of_torchvision.build, "resnet50", 32, {"weights": None}, MIN_33),
        (of_torchvision.build, "resnet50", 33, {"weights": None}, None),
        (of_torchvision.build, "vit_b_16", 32, {"weights": None, "image_size": 32}, MIN_33),
        (of_torchvision.build, "maxvit_t", 448, {"weights": None, "input_size": (448, 448)}, None),
        (of_torchvision.build, "fcn_resnet50", 33, {"weights": None, "weights_backbone": None},
         None),
        (of_timm.build, "resnet18", 32, {"pretrained": False}, None),
        (of_timm.build, "vit_tiny_patch16_224", 32, {"pretrained": False, "img_size": 32},
         "it was published with shape.pixels=224"),
    ],
)  # fmt: skip
def test_image_models_are_built_without_weights_for_the_size_of_the_image(
    stand_ins: list[Any], build: Any, name: str, pixels: int, options: Any, allowed: str | None
) -> None:
    module, (x,) = build(name, batch=2, pixels=pixels)
    assert stand_ins[-1] == options
    channels = 1 if isinstance(module, Sized) else 3  # as the model has them
    assert x.shape == (2, channels, pixels, pixels)
    assert module.training
    assert getattr(module, "allowed_sizes", None) == allowed


NARROW = """
import torch

def list_models():
    return ["narrow"]

class Narrow(torch.nn.Linear):
    pretrained_cfg = {"input_size": (3, 8, 8)}

def create_model(name, pretrained, img_size):
    return Narrow(8, 2)
"""


def test_a_size_that_a_library_cannot_compute_with_ends_the_command(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "timm.py").write_text(NARROW, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    words = ("model=timm", "model.name=narrow", "mode=inference_mode", "shape.batch=2", *QUICKLY)
    answer = cli(*words, "shape.pixels=7")
    assert (answer.status, answer.out) == (2, "")
    assert answer.err.startswith("error: timm:narrow fails in eval() with shape.batch=2 shape.pix")
    assert "(it was published with shape.pixels=8)" in answer.err


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
    probabilities = {each.p for each in module.modules() if isinstance(each, nn.Dropout)}
    assert (0.1 in probabilities) is (name in ("bert", "gpt2", "t5")), "the library's defaults"


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
