"""mode.kernels: its settings, what is refused, what identifies a case, and what it is told by."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.machinery import EXTENSION_SUFFIXES
from typing import Any

import pytest

import modescope
from modescope.bench import refusals
from modescope.bench.evidence import kernel_use
from modescope.bench.evidence.kernel_use import Ran
from modescope.bench.evidence.mode_effect import GraphBreaks, Site
from modescope.bench.modes import kernels
from modescope.bench.records.cases import Inference, Kernels, Mode, Pickled
from modescope.bench.records.columns.compiling import GeneratedCode
from modescope.bench.records.errors import UsageError
from modescope.bench.resolve import resolve
from modescope.bench.sweep import host
from modescope.bench.sweep.prepare import prepare
from tests.helpers.commands import Ask
from tests.helpers.made_up_records import CPU, H100
from tests.helpers.own_kernels import asked, mine, plain, with_kernels
from tests.helpers.probe_models import case, model, preset, silent, variant

MODEL = ("model=custom", "model.target=net:build", "+model.kernels.mine=net:mine")


def test_the_axis_takes_the_names_that_the_model_gives(ask_quickly: Ask) -> None:
    def ask(*words: str) -> Any:
        return resolve(ask_quickly(*MODEL, *words)[0], lambda name: CPU)[0]

    found = ask("mode.kernels=mine")
    assert found.model.kernels == (Kernels("mine", "net:mine"),)
    assert (found.variant.mode.kernels, found.baseline.mode.kernels) == ("mine", "torch")
    assert found.variant.mode.name == "compile[kernels=mine]"
    assert found.kernels == {"mine": "net:mine"}
    assert ask().kernels == {}
    for words, allowed in (
        (("mode.kernels=mnie",), "allowed: torch, mine"),
        (("+model.kernels.torch=net:x",), "another name"),
        (("+model.kernels.other=net.x",), "my_package.my_module:build"),
    ):
        with pytest.raises(UsageError, match=allowed):
            ask(*words)


def test_only_the_implementation_that_is_called_identifies_a_case() -> None:
    one, two = with_kernels("mine"), with_kernels("mine", "wrong")
    torchs = case(model(plain), variant())
    assert case(one, variant()).case_id == torchs.case_id
    ids = [case(of, asked("mine")).case_id for of in (one, two)]
    assert ids[0] == ids[1] != torchs.case_id
    saved = Kernels("mine", "any:load", Pickled("/a/file.pt", "0a"))
    moved = replace(saved, pickled=Pickled("/b/file.pt", "0a"))
    changed = replace(saved, pickled=Pickled("/a/file.pt", "0b"))
    of_saved = [case(replace(one, kernels=(of,)), asked("mine")).case_id
                for of in (saved, moved, changed)]  # fmt: skip
    assert of_saved[0] == of_saved[1] != of_saved[2]
    assert case(one, variant(), asked("mine")).kernels == {"mine": one.kernels[0].target}


@pytest.mark.parametrize(
    ("mode", "refused"),
    [
        (preset("eager"), False),
        (preset("compile"), False),
        (preset("aoti"), True),
        (replace(preset("compile"), backend="aot_eager"), True),
    ],
)
def test_modes_whose_code_is_not_inductors_here_are_refused(mode: Mode, refused: bool) -> None:
    of = asked("mine")
    given = case(with_kernels("mine"), replace(of, mode=replace(mode, axes=of.mode.axes)))
    reason = refusals.refusal(given, H100)
    assert bool(reason and "kernels=mine" in reason) is refused
    assert refusals.refusal(case(model(plain), replace(of, mode=mode)), H100) is None


@pytest.mark.parametrize("value", ["1", "true", "ON", "y"])
def test_nothing_starts_where_triton_interprets_its_kernels(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kernels.interpreted() is None
    monkeypatch.setenv("TRITON_INTERPRET", value)
    for start in (lambda: prepare([]), lambda: modescope.measure(int, int)):
        with pytest.raises(UsageError, match=f"TRITON_INTERPRET={value}"):
            start()


def test_another_state_dict_is_a_mistake_that_names_keys() -> None:
    def tried(name: str) -> Any:
        of = with_kernels(name, "cannot_be_built")
        return host.try_model(silent, of, "cpu", [("{}", Inference())], [name])

    with pytest.raises(UsageError) as wrong:
        tried("larger")
    assert all(text in str(wrong.value) for text in ("kernels=larger", "bias", "weight is (9,)"))
    assert tried("mine")[0]


@pytest.mark.parametrize("asked_for", [["mine"], []])
def test_an_edited_kernel_and_a_source_beside_it_change_the_source_id(
    asked_for: list[str], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    text = "from tests.helpers.own_kernels import mine as build"
    target = Kernels("mine", "edited_kernel:build")
    of = replace(model(plain), kernels=(target,))
    found = []
    for source, cpp in ((text, "1"), (text, "1"), (f"{text}  # edited", "1"), (text, "2")):
        (tmp_path / "edited_kernel.py").write_text(source)
        (tmp_path / "kernel.cpp").write_text(cpp)
        monkeypatch.delitem(sys.modules, "edited_kernel", raising=False)
        found.append(host.try_model(silent, of, "cpu", [("{}", Inference())], asked_for)[0])
    assert found[0] == found[1]
    assert len({*found}) == 3


LAZY = """
from tests.helpers.own_kernels import mine
def build():
    from their_kernels.ops import wrapped
    if not mine:
        from their_kernels import native
    return mine()
"""


def test_the_source_id_covers_sources_of_a_package_and_lazy_imports_whoever_asks(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / "their_kernels"
    edits = {
        "net.py": LAZY,
        "ops/wrapped.py": "from . import deeper",
        "ops/deeper.py": "",
        "csrc/cuda/norm.cu": "",
        "../csrc/norm.cpp": "",
        f"native{EXTENSION_SUFFIXES[0]}": "",
    }
    for path, text in {**edits, "__init__.py": "", "ops/__init__.py": "", "other.py": ""}.items():
        (package / path).parent.mkdir(parents=True, exist_ok=True)
        (package / path).write_text(text)
    of = replace(model(plain), kernels=(Kernels("mine", "their_kernels.net:build"),))

    def found(*asked_for: str) -> str | None:
        for name in [name for name in sys.modules if name.startswith("their_kernels")]:
            monkeypatch.delitem(sys.modules, name)
        return host.try_model(silent, of, "cpu", [("{}", Inference())], asked_for)[0]

    ids = [found()]
    for edited in edits:
        (package / edited).write_text(edits[edited] + "\n# edited")
        ids.append(found())
        assert found("mine") == ids[-1]
    assert len({*ids}) == len(ids)
    (package / "other.py").write_text("# edited")
    assert found("mine") == ids[-1]


ROUND = frozenset({"aten::mul", "aten::empty"})
PLAIN = Ran(frozenset({"aten::mul", "aten::pow"}), frozenset())
MINE = Ran(ROUND | {"my::norm"}, frozenset({"norm_kernel"}))
BROKEN = GraphBreaks((Site("net.py:3", "print"),), ())
WHOLE = GraphBreaks((), ())


def code(*fallback: str, own: str = "[]") -> GeneratedCode:
    return GeneratedCode(fallback_kernels=str([*fallback]).replace("'", '"'), own_kernel_names=own)


def launches(*names: str, operators: frozenset[str] = ROUND) -> Ran:
    return Ran(operators, frozenset(names))


Judged = tuple[str | None, tuple[str, ...]]


@pytest.mark.parametrize(
    ("now", "made", "breaks", "expected"),
    [
        (MINE, code("my.norm.default"), WHOLE, ("called", ("my::norm",))),
        (launches(), code(own='["norm_kernel"]'), WHOLE, ("inlined", ("norm_kernel",))),
        (MINE, code(), BROKEN, ("broke", ("my::norm", "norm_kernel"))),
        (launches("norm_kernel"), code(), BROKEN, ("broke", ("norm_kernel",))),
        (MINE, code("my.norm.default"), BROKEN, ("called", ("my::norm",))),
        (PLAIN, code(), WHOLE, ("absent", ())),
        # names that only contain those of the kernels
        (launches(operators=ROUND | {"my::norm_backward"}), code("my.norms.default"), WHOLE,
         ("absent", ())),
        (launches(), code(own='["fused_norm_kernel"]'), BROKEN, ("absent", ())),
    ],
)  # fmt: skip
def test_how_compiled_code_uses_kernels_is_read_by_their_exact_names(
    now: Ran, made: GeneratedCode, breaks: GraphBreaks, expected: Judged
) -> None:
    found = kernel_use.judge(MINE, PLAIN, now, made, breaks, compiles=True)
    assert (found.use, found.names) == expected


@pytest.mark.parametrize(
    ("in_eager", "expected"),
    [
        (MINE, "called"),
        (PLAIN, "absent"),  # the same code again
        (launches("norm_kernel"), "called"),
        (launches(), None),  # such as a function of C++ that is no operator
        (launches(operators=PLAIN.operators | {"torch::autograd::AccumulateGrad"}), None),
    ],
)
def test_in_eager_what_only_the_implementation_runs_is_its_own(
    in_eager: Ran, expected: str | None
) -> None:
    found = kernel_use.judge(in_eager, PLAIN, in_eager, GeneratedCode(), None, compiles=False)
    assert found.use == expected


def test_launches_are_seen_by_the_names_of_the_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    class JITFunction:  # as Triton has it
        def __init__(self, fn: Callable[..., Any]) -> None:
            self.fn = fn

        def run(self, *args: Any, **options: Any) -> tuple[Any, ...]:
            return args

    made = type("jit", (), {"JITFunction": JITFunction})
    monkeypatch.setitem(sys.modules, "triton.runtime.jit", made)
    before = JITFunction.run
    with kernel_use._watch_launches() as names:
        assert JITFunction(mine).run(3, warmup=False) == (3,)
    assert (names, JITFunction.run) == ({"mine"}, before)
