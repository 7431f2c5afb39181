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
every_library = pytest.mark.parametrize("library", BUILDS)

OF_HF = [("transformers", name) for name in of_transformers.ARCHITECTURES]
OF_HF += [("diffusers", name) for name in of_diffusers.ARCHITECTURES]

needs_hf = pytest.mark.skipif(
    not (find_spec("transformers") and find_spec("diffusers")),
    reason="needs pip install -e '.[hf]', as make test-full does",
)
every_architecture = pytest.mark.parametrize(
    ("library", "name"), OF_HF, ids=[name for _, name in OF_HF]
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
    ("library", "name", "expected"),
    [
        ("transformers", "gtp2", "transformers has no such architecture, did you mean gpt2? known"),
        ("transformers", "zzz", "transformers has no such architecture; known are bert, gpt2, lla"),
        ("diffusers", "u-net", "diffusers has no such architecture, did you mean unet? known are "),
        ("torchvision", "resnet5", "torchvision has no such architecture that takes one image, di"),
        ("timm", "vit_tiny", "timm has no such architecture, did you mean vit_tiny_patch16_224?"),
    ],
)
def test_an_unknown_name_gets_those_that_were_meant(
    stand_ins: list[Any], library: str, name: str, expected: str
) -> None:
    assert refusal(library, name).startswith(f"model.name={name}: {expected}")


@pytest.mark.parametrize(
    ("library", "name", "meant"),
    [
        ("transformers", "openai-community/gpt2", "gpt2"),
        ("diffusers", "google/ddpm-cat-256", None),
        ("torchvision", "pytorch/vision:resnet50", "resnet50"),
        ("timm", "vit_tiny_patch16_224.augreg_in21k", "vit_tiny_patch16_224"),
        ("timm", "hf_hub:timm/resnet18.a1_in1k", "resnet18"),
        ("timm", "local-dir:weights", None),
    ],
)
def test_a_name_that_a_hub_would_be_asked_for_is_refused(
    stand_ins: list[Any], library: str, name: str, meant: str | None
) -> None:
    message = refusal(library, name)
    expected = f"names trained weights of a hub, but model={library} downloads none"
    assert (f"{expected}, did you mean {meant}?" if meant else f"{expected};") in message
    assert not stand_ins


def test_a_long_list_of_names_is_left_to_a_command() -> None:
    with pytest.raises(ValueError, match=r"print\(\*timm.list_models\(\)\)\" lists all names"):
        importing.check_name("timm", "x", [f"net{number}" for number in range(100)])


@every_library
def test_a_missing_extra_comes_with_its_command(
    monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)  # as if it were not installed
    extra = "hf" if library in ("transformers", "diffusers") else "vision"
    message = refusal(library, "gpt2" if library == "transformers" else "unet")
    assert message == (
        f"model={library} needs the package {library}, which is not installed: pip install "
        f"'modescope[{extra}]', or in a checkout .venv/bin/pip install -e '.[{extra}]' -c "
        "constraints.txt"
    )


@pytest.mark.parametrize(
    ("library", "cuda", "build"), [("torchvision", None, "cpu"), ("timm", "13.0", "cu130")]
)
def test_a_torchvision_for_another_torch_is_explained(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, library: str, cuda: str | None, build: str
) -> None:
    monkeypatch.setattr(torch.version, "cuda", cuda)
    (tmp_path / "torchvision.py").write_text(
        f"raise RuntimeError({importing.OTHER_BUILD!r})", encoding="utf-8"
    )
    (tmp_path / "timm.py").write_text("import torchvision", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("torchvision", "timm"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    message = refusal(library, "resnet18")
    assert message.startswith(f"model={library}: torchvision ")
    assert f"the installed {torch.__version__} (operator torchvision::nms does not" in message
    assert message.endswith(f"--index-url https://download.pytorch.org/whl/{build}")


def test_another_failing_import_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "timm.py").write_text("raise OSError('libx.so:\\nnot found')", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    assert refusal("timm", "resnet18") == (
        "model=timm: importing timm fails (OSError: libx.so: not found); install it again, so "
        'that python -c "import timm" works'
    )


@pytest.mark.parametrize("library", ["transformers", "diffusers"])
def test_sizes_that_do_not_fit_are_named(library: str) -> None:
    name = "gpt2" if library == "transformers" else "dit"
    message = refusal(library, name, width=30)
    assert message.startswith("shape.width=30 cannot be split evenly over shape.heads=4: choose a")


@pytest.mark.parametrize("name", ["llama", "qwen3"])
@pytest.mark.parametrize(("width", "heads"), [(28, 4), (32, 3), (12, 4)])
def test_rotary_positions_need_heads_of_an_even_width(name: str, width: int, heads: int) -> None:
    assert refusal("transformers", name, width=width, heads=heads) == (
        f"shape.width={width} cannot be split into heads of an even width by shape.heads={heads}: "
        f"choose a width that is a multiple of {2 * heads}, or another number of heads"
    )


@pytest.mark.parametrize(
    ("name", "pixels", "multiple"), [("maxvit_t", 64, 224), ("vit_b_16", 50, 16)]
)
def test_images_that_an_architecture_cannot_cut_are_refused(
    stand_ins: list[Any], name: str, pixels: int, multiple: int
) -> None:
    assert refusal("torchvision", name, pixels=pixels) == (
        f"shape.pixels={pixels} does not fit {name}: choose a multiple of {multiple}"
    )
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


def test_models_say_which_images_they_take(stand_ins: list[Any]) -> None:
    module, _ = of_torchvision.build("resnet50", **IMAGE)
    assert module.allowed_sizes == "torchvision asks for shape.pixels=33 or more"
    module, _ = of_torchvision.build("resnet50", batch=2, pixels=33)
    assert module.allowed_sizes is None
    module, _ = of_timm.build("vit_tiny_patch16_224", **IMAGE)
    assert module.allowed_sizes == "it was published with shape.pixels=224"


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
    assert answer.err == (
        "error: timm:narrow fails in eval() with shape.batch=2 shape.pixels=7: RuntimeError: mat1 "
        "and mat2 shapes cannot be multiplied (42x7 and 8x2); choose other sizes (it was "
        "published with shape.pixels=8)\n"
    )


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("resnet50", {"weights": None}),
        ("vit_b_16", {"weights": None, "image_size": 32}),
        ("maxvit_t", {"weights": None, "input_size": (448, 448)}),
        ("fcn_resnet50", {"weights": None, "weights_backbone": None}),
    ],
)
def test_torchvision_is_asked_for_no_weights(
    stand_ins: list[Any], name: str, options: dict[str, Any]
) -> None:
    pixels = 448 if name == "maxvit_t" else 32
    module, (x,) = of_torchvision.build(name, batch=2, pixels=pixels)
    assert stand_ins == [options]
    assert x.shape == (2, 3, pixels, pixels)
    assert module.training


def test_timm_builds_for_the_size_of_the_image_where_that_matters(stand_ins: list[Any]) -> None:
    module, (x,) = of_timm.build("vit_tiny_patch16_224", **IMAGE)
    assert isinstance(module, nn.Linear)
    assert module.in_features == 32
    assert x.shape == (2, 1, 32, 32), "channels as the model has them"
    _, (x,) = of_timm.build("resnet18", **IMAGE)
    assert x.shape == (2, 3, 32, 32)
    assert all(options["pretrained"] is False for options in stand_ins)


def test_a_misspelt_name_ends_the_command(cli: Cli) -> None:
    answer = cli("model=transformers", "model.name=gtp2", *QUICKLY)
    assert (answer.status, answer.out) == (2, "")
    assert answer.err == (
        "error: model.name=gtp2: transformers has no such architecture, did you mean gpt2? known "
        "are bert, gpt2, llama, qwen3, t5\n"
    )


@needs_hf
@every_architecture
def test_an_architecture_is_built_without_a_hub(library: str, name: str) -> None:
    build, sizes = BUILDS[library]
    module, inputs = build(name, **sizes)
    assert module.training
    assert {each.shape[0] for each in inputs.values()} == {2}
    torch.manual_seed(0)
    again, same = build(name, **sizes)
    module.eval(), again.eval()
    for one, other in zip(module(**inputs).values(), again(**same).values(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


@needs_hf
@every_architecture
@pytest.mark.parametrize("size", ["depth", "width"])
def test_sizes_change_the_model(library: str, name: str, size: str) -> None:
    build, sizes = BUILDS[library]
    small, _ = build(name, **sizes)
    large, _ = build(name, **{**sizes, size: 2 * sizes[size]})
    assert count(large) > count(small)


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
