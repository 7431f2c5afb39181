"""A loaded package: what it is given, what it returns, and what it refuses before its code runs."""

from __future__ import annotations

import zipfile
from collections import namedtuple
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from modescope.bench.case import dispatch
from modescope.bench.devices.devices import Cpu
from modescope.bench.evidence.first_call import Contender, enter
from modescope.bench.model.building import build
from modescope.bench.model.subject import Inputs, Subject
from modescope.bench.modes import packages
from modescope.bench.modes.backends import BACKENDS
from modescope.bench.modes.packages import Package, Record, describe
from modescope.bench.records.caches import SAVED
from modescope.bench.records.cases import Variant
from modescope.bench.records.errors import UsageError
from tests.helpers.probe_models import case, linear, model, preset, smoke

Pair = namedtuple("Pair", "left right")
AOTI = Variant(preset("aoti"), "fp32")


class Loader:
    """Stands for torch's loader: runs `function` on the list of tensors that a package takes."""

    def __init__(self, given: Any, returned: Any, function: Callable[[list[Tensor]], Any]) -> None:
        specs = (pytree.tree_flatten(tree)[1] for tree in (given, returned))
        self.spec = [pytree.treespec_dumps(spec) for spec in specs]
        self.boxed_run = function

    def get_call_spec(self) -> list[str]:
        return self.spec


def package(
    *args: Any, returned: Any = 0, function: Callable[[list[Tensor]], Any] = list, **kwargs: Any
) -> Package:
    loader = Loader((args, kwargs), returned, function)
    described = [describe(leaf) for leaf in pytree.tree_leaves((args, kwargs))]
    return Package(loader, Inputs(args, kwargs), described)


X, Y = torch.arange(6.0).reshape(2, 3), torch.ones(3)


@pytest.mark.parametrize(
    ("args", "kwargs", "order"),
    [
        ((X, Y), {}, [X, Y]),
        ((X,), {"y": Y}, [X, Y]),
        ((), {"b": X, "a": Y}, [X, Y]),
        (((X, 3), None), {"d": {"q": Y}}, [X, Y]),
        ((2, X, "text"), {}, [X]),
    ],
)
def test_a_package_gets_the_tensors_in_the_order_of_its_build(
    args: tuple[Any, ...], kwargs: dict[str, Any], order: list[Tensor]
) -> None:
    got: list[Tensor] = []

    def function(given: list[Tensor]) -> list[int]:
        got.extend(given)
        return [0]

    made = package(*args, function=function, **kwargs)
    assert (made.runs, made(*args, **dict(reversed(kwargs.items()))), made.runs) == (0, 0, 1)
    assert [id(tensor) for tensor in got] == [id(tensor) for tensor in order]


def test_the_operators_of_a_package_are_those_that_its_code_calls(tmp_path: Path) -> None:
    call = "AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_{}(buf0, buf1));\n"
    with zipfile.ZipFile(tmp_path / "a.pt2", "w") as archive:
        names = ("cpu_addmm_out", "cuda__flash", "get_data_ptr", "cpu_addmm_out")
        archive.writestr("model/data/c1.wrapper.cpp", "".join(map(call.format, names)))
        archive.writestr("model/data/c2.kernel.cpp", call.format("cpu_mm"))
    assert packages.operators(tmp_path / "a.pt2") == ["addmm_out", "_flash"]


@pytest.mark.parametrize("returned", [1, (1, 2), [1], {"b": 1, "a": (2, 3)}, ((1,), 2)])
def test_a_result_has_the_structure_of_the_models(returned: Any) -> None:
    outputs = [*range(10, 10 + len(pytree.tree_leaves(returned)))]
    found = package(X, returned=returned, function=lambda given: list(outputs))(X)
    spec = pytree.tree_flatten(returned)[1]
    assert found == pytree.tree_unflatten(outputs, spec)
    assert type(found) is type(returned)


def never(given: list[Tensor]) -> Any:
    raise AssertionError("the code of the package was run")


@pytest.mark.parametrize(
    "other",
    [
        ((X[:1], Y), {}),
        ((X.double(), Y), {}),
        ((X.t().contiguous().t(), Y), {}),
        ((X.to("meta"), Y), {}),
        ((X,), {}),
        ((X, 1.0), {}),
        ((X, Y, Y), {}),
        ((X, Y), {"k": 1}),
    ],
)
def test_other_tensors_than_those_of_the_build_are_refused(
    other: tuple[tuple[Any, ...], dict[str, Any]],
) -> None:
    made = package(X, Y, function=never)
    with pytest.raises(UsageError, match="the package was built for"):
        made(*other[0], **other[1])
    assert made.runs == 0


@pytest.mark.parametrize("nested", [False, True])
def test_other_values_than_those_of_the_build_are_refused(nested: bool) -> None:
    def given(number: object) -> Any:
        return (number,) if nested else number

    made = package(X, given(3), returned=0, function=lambda tensors: [0])
    assert made(X, given(3)) == 0
    with pytest.raises(UsageError, match="input 1 as 3, and got 4"):
        made(X, given(4))
    for other in ((3, 3), given(3.0), given(Y)):
        with pytest.raises(UsageError):
            made(X, other)


def test_a_package_of_other_inputs_than_the_cases_is_not_loaded() -> None:
    loader = Loader(((X,), {}), 0, never)
    with pytest.raises(UsageError, match=r"input 0 as \[1, 3\]"):
        Package(loader, Inputs((X,), {}), [describe(X[:1])])


@pytest.fixture
def subject() -> Subject:
    return build(model(linear), {})


def entered(subject: Subject, variant: Variant = AOTI) -> Contender:
    return enter(subject, variant, case(model(linear), variant), Cpu(), smoke())


class Stands:
    """Stands for the loader of torch; its package computes what the module of `subject` does."""

    def __init__(self, subject: Subject) -> None:
        self.module, self.given = subject.module, subject.given

    def __call__(self, *arguments: Any) -> Loader:
        given = (self.given.args, self.given.kwargs)
        return Loader(given, 0, lambda tensors: [self.module(*tensors)])


@pytest.fixture
def built(subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Record:
    """The record of a package of `subject` in the folder that processes of a case share."""
    monkeypatch.setenv(SAVED, str(tmp_path))
    monkeypatch.setattr(torch._C._aoti, "AOTIModelPackageLoader", Stands(subject))
    (tmp_path / packages.PACKAGE).write_bytes(b"12345")
    record = Record(
        export_s=1.5,
        build_s=30.0,
        inputs=[describe(leaf) for leaf in subject.given.tensors()],
        weights=packages.summed(subject.module),
        weights_bytes=80,
        operators=["_scaled_dot_product_flash_attention_for_cpu"],
        warnings=["torch warned while it exported"],
    )
    packages.write(record, tmp_path)
    return record


def test_a_package_that_ran_is_in_effect_and_fills_its_columns(
    subject: Subject, built: Record
) -> None:
    made = entered(subject)
    assert made.effect(Cpu()).in_effect
    assert made.seen.warnings == ("torch warned while it exported",)
    found: Any = made.built.made.columns
    assert (found.package_export_s, found.package_build_s, found.package_bytes) == (1.5, 30.0, 5)
    assert 0 < found.package_load_s <= made.first_call_s


def test_the_attention_of_a_package_is_read_from_its_code(subject: Subject, built: Record) -> None:
    for value in ("math", "flash"):
        asked = replace(AOTI, mode=replace(AOTI.mode, axes=(("attention", value),)))
        assert entered(subject, asked).effect(Cpu()).in_effect == (value == "flash")


def test_a_model_that_runs_in_place_of_its_package_is_not_in_effect(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropped = replace(BACKENDS["aoti"], build=lambda module, inputs, mode, context: module)
    monkeypatch.setitem(BACKENDS, "aoti", dropped)
    effect = entered(subject).effect(Cpu())
    assert (effect.in_effect, effect.note) == (False, "no package ran")


def test_a_package_with_other_weights_than_the_model_is_refused(
    subject: Subject, built: Record, tmp_path: Path
) -> None:
    packages.write(replace(built, weights=[total * 1.001 for total in built.weights]), tmp_path)
    with pytest.raises(UsageError, match="other weights"):
        entered(subject)


def test_weights_that_are_no_numbers_are_the_same_in_both(
    subject: Subject, built: Record, tmp_path: Path
) -> None:
    with torch.no_grad():
        next(subject.module.parameters()).fill_(torch.nan)
    packages.write(replace(built, weights=packages.summed(subject.module)), tmp_path)
    assert entered(subject).effect(Cpu()).in_effect


def test_without_a_package_nothing_is_called(subject: Subject, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no process has built"):
        entered(subject)


def test_a_package_has_no_call_on_an_empty_batch(subject: Subject) -> None:
    reason = dispatch.objection(AOTI, Cpu(), model(linear))
    assert reason is not None
    assert dispatch.prepare(subject, AOTI, model(linear), Cpu()) == (None, reason)
