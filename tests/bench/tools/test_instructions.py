"""Instruction counts and dispatch keys: how both are read, and that they agree."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from torch import Tensor

from modescope.bench.tools.instructions import __main__ as command
from modescope.bench.tools.instructions import callgrind, keys, tables
from modescope.bench.tools.instructions.callgrind import CallgrindCounts
from modescope.bench.tools.instructions.cells import (
    ENTER,
    KINDS,
    MODES,
    OPS,
    CallCell,
    operands,
    plan,
    ready,
)
from modescope.bench.tools.instructions.profile import CallgrindProfile, parse
from modescope.bench.tools.instructions.rows import CallRow, row

# Three calls of one operator in callgrind's format: a name is spelt out once, cob= and cfn= name
# the callee, and the line after calls= is the cost of the call, also counted in the callee.
DUMP = """\
# callgrind format
version: 1
creator: callgrind-3.19.0
cmd:  python -m bench.instructions.inside
part: 3

desc: Trigger: Client Request

positions: line
events: Ir
summary: 1000

ob=(6) /usr/lib/libpython3.11.so.1.0
fl=(10) Python/ceval.c
fn=(7) _PyEval_EvalFrameDefault
120 200
+3 50
cob=(40) /site-packages/torch/lib/libtorch_python.so
cfi=(52) ???
cfn=(8) THPVariable_add
calls=3 0
* 750

ob=(40)
fl=(52)
fn=(8)
0 90
cob=(39) /site-packages/torch/lib/libtorch_cpu.so
cfn=(9) wrap<&at::(anonymous namespace)::wrapper_CPU_add_Tensor>::call
calls=3 0
0 660

ob=(39)
fn=(9)
0 600
cob=(3) /usr/lib/libc.so.6
cfn=(11) malloc
calls=3 0
0 60

ob=(3)
fn=(11)
0 60

totals: 1000
"""

EVERY = ("AutocastCPU", "AutogradCPU", "ADInplaceOrView", "CPU")
AUTOGRAD, VIEW = ("AutogradCPU", "CPU"), ("AutogradCPU", "ADInplaceOrView", "CPU")
COUNTED = "MODESCOPE_CALLGRIND"


def test_a_dump_is_split_by_the_owner_of_the_instructions() -> None:
    result = parse(DUMP)
    assert result.total == 1000
    assert result.by_part == {"interpreter": 250, "bindings": 90, "torch": 600, "system": 60}
    assert result.functions == {
        "_PyEval_EvalFrameDefault",
        "THPVariable_add",
        "wrap<&at::(anonymous namespace)::wrapper_CPU_add_Tensor>::call",
        "malloc",
    }


def test_a_dump_may_have_bare_names_and_several_events() -> None:
    text = """\
positions: instr line
events: Dr Ir
ob=/usr/bin/python3.12
fn=main
0x10 4 2 7
+4 * 1
0x18 5 3 11
totals: 8 18
"""
    result = parse(text)
    assert result.by_part["interpreter"] == 7 + 11
    assert result.functions == {"main"}


def test_a_dump_that_does_not_add_up_is_refused() -> None:
    with pytest.raises(ValueError, match=r"1001.*add up to 1000"):
        parse(DUMP.replace("totals: 1000", "totals: 1001"))


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("/usr/bin/python3.12", "interpreter"),
        ("/usr/lib/libpython3.13.so.1.0", "interpreter"),
        ("/v/lib/python3.11/site-packages/torch/lib/libtorch_python.so", "bindings"),
        ("/v/lib/python3.11/site-packages/torch/lib/libc10.so", "torch"),
        ("/v/lib/python3.11/site-packages/torch/lib/libgomp-a34b3233.so.1", "torch"),
        ("/opt/lib/libtorch_cpu.so", "torch"),
        ("/v/lib/python3.11/site-packages/numpy.libs/libopenblas.so", "system"),
        ("/usr/lib/x86_64-linux-gnu/libc.so.6", "system"),
        ("???", "system"),
    ],
)
def test_libraries_are_assigned_to_parts(path: str, part: str) -> None:
    counted = CallgrindProfile({path: 5}, frozenset()).by_part
    assert {name for name, count in counted.items() if count} == {part}


@pytest.mark.parametrize(
    ("op", "x", "path"),
    [
        ("add", "activation", [AUTOGRAD, AUTOGRAD, ("CPU",), AUTOGRAD, ("CPU",)]),
        ("add", "input", [AUTOGRAD, AUTOGRAD, ("CPU",), AUTOGRAD, ("CPU",)]),
        (
            "mm",
            "activation",
            [
                AUTOGRAD,
                AUTOGRAD,
                ("CPU",),
                ("AutocastCPU", "AutogradCPU", "CPU"),
                ("AutocastCPU", "CPU"),
            ],
        ),
        ("view", "activation", [VIEW, VIEW, ("CPU",), VIEW, ("CPU",)]),
        ("view", "input", [VIEW, VIEW, VIEW[1:], VIEW, VIEW[1:]]),
        ("add_", "activation", [VIEW, VIEW, VIEW[1:], VIEW, VIEW[1:]]),
    ],
)
def test_dispatch_keys_of_each_mode_are_as_documented(
    op: str, x: str, path: list[tuple[str, ...]]
) -> None:
    assert [row(CallCell(op, mode, x)).keys for mode in MODES] == path


def test_an_inference_tensor_changed_in_place_visits_only_the_backend() -> None:
    with torch.inference_mode():
        x = torch.rand(2)
        assert keys.visited("aten::add_.Tensor", [x, x]) == ("CPU",)


def test_the_visited_keys_end_at_a_composite_kernel() -> None:
    x = torch.rand(2, 2)
    assert keys.visited("aten::matmul", [x, x]) == ("AutogradCPU",)


def test_the_dispatchers_table_of_kernels_is_read() -> None:
    text = """\
Undefined: registered at /a/B_0.cpp:1 [default backend kernel]
CPU: registered at /a b/RegisterCPU_0.cpp:1297 [kernel]
ADInplaceOrView: fallthrough registered at /a/VariableFallbackKernel.cpp:103 [backend fallback]
AutogradCPU: registered at /a/VariableType_2.cpp:10455 [autograd kernel]
"""
    assert keys.registered(text) == {
        "Undefined": "default backend kernel",
        "CPU": "kernel",
        "ADInplaceOrView": "fallthrough",
        "AutogradCPU": "autograd kernel",
    }


class Probe:
    """An operator with a kernel at each key of EVERY, which records its key and redispatches."""

    def __init__(self, library: torch.library.Library, falls_through: Sequence[str]) -> None:
        self.visited: list[str] = []
        self.name = f"modescope_probe::{'_'.join(['note', *falls_through])}"
        library.define(f"{self.name.partition('::')[2]}(Tensor a, Tensor b) -> Tensor")
        for key in EVERY:
            if key in falls_through:
                library.impl(self.name, torch.library.fallthrough_kernel, key)
            else:
                library.impl(self.name, self._kernel(key), key, with_keyset=True)
        self.call = getattr(torch.ops.modescope_probe, self.name.partition("::")[2]).default

    def _kernel(self, key: str) -> Any:
        below = torch._C._dispatch_keyset_full_after(getattr(torch._C.DispatchKey, key))

        def kernel(active: torch._C.DispatchKeySet, a: Tensor, b: Tensor) -> Tensor:
            self.visited.append(key)
            if key == "CPU":
                return torch.empty(0)
            handed_on: Tensor = self.call.redispatch(active & below, a, b)
            return handed_on

        return kernel


@pytest.fixture
def library() -> Iterator[torch.library.Library]:
    with torch.library._scoped_library("modescope_probe", "DEF") as made:
        yield made


@pytest.mark.parametrize(
    "falls_through",
    [(), ("AutocastCPU", "ADInplaceOrView"), ("ADInplaceOrView",), ("AutogradCPU",)],
    ids=["nothing", "like add", "like mm", "autograd"],
)
def test_a_probe_in_the_dispatcher_confirms_the_computed_keys(
    falls_through: Sequence[str], library: torch.library.Library
) -> None:
    probe = Probe(library, falls_through)
    paths = set()
    for mode in MODES:
        for x in KINDS:
            for op in ("add", "view"):  # the second has no weight among its operands
                with operands(CallCell(op, mode, x)) as tensors:
                    a, b = tensors[0], tensors[-1]
                    expected = keys.visited(probe.name, [a, b])
                    probe.visited.clear()
                    probe.call(a, b)
                assert tuple(probe.visited) == expected
                paths.add(expected)
    assert max(paths, key=len) == tuple(key for key in EVERY if key not in falls_through)
    assert ("CPU",) in paths


FUNCTIONS = {
    "AutocastCPU": "at::autocast::WrapFunction_<(at::autocast::CastPolicy)0, (c10::DeviceType)0, "
    "at::Tensor (at::Tensor const&, at::Tensor const&), &at::_ops::mm::call, at::Tensor>::call()",
    "AutogradCPU": "torch::autograd::VariableType::(anonymous namespace)::mm(c10::DispatchKeySet)",
    "ADInplaceOrView": "f<&torch::ADInplaceOrView::(anonymous namespace)::mm>::call()",
    "CPU": "c10::f<&at::(anonymous namespace)::(anonymous namespace)::wrapper_CPU__mm>::call()",
}


@pytest.mark.parametrize("ran", [EVERY, ("AutogradCPU", "CPU"), ("CPU",)])
def test_kernels_that_ran_are_recognised_by_name(ran: Sequence[str]) -> None:
    others = {name.replace("mm", "addmm") for name in FUNCTIONS.values()}
    assert keys.executed("aten::mm", {*(FUNCTIONS[key] for key in ran), *others}, ran) == ran


def test_a_kernel_missing_from_the_computed_keys_is_found() -> None:
    assert keys.executed("aten::mm", set(FUNCTIONS.values()), ["CPU"]) == (
        *("CPU", "ADInplaceOrView", "Autocast", "Autograd"),
    )
    assert keys.executed("aten::mm", {FUNCTIONS["CPU"]}, ["AutogradCPU", "CPU"]) == ("CPU",)


def test_without_names_no_kernel_is_known_to_have_run() -> None:
    assert keys.executed("aten::mm", {"0x00000000049367", "malloc"}, ["AutogradCPU", "CPU"]) is None


def test_activations_are_made_in_their_mode_and_inputs_outside() -> None:
    made = {}
    for mode in MODES:
        for x in KINDS:
            with operands(CallCell("add", mode, x)) as (tensor, w):
                assert w.is_leaf
                assert w.requires_grad
                made[mode, x] = tensor.requires_grad, tensor.is_inference()
    history, plain, inference = (True, False), (False, False), (False, True)
    assert [made[mode, "activation"] for mode in MODES] == [
        *(history, plain, inference, history, inference)
    ]
    assert {made[mode, "input"] for mode in MODES} == {plain}


def test_each_cell_can_be_called_and_restores_the_mode() -> None:
    for cell in plan(list(OPS), list(MODES), KINDS):
        with ready(cell) as step:
            step()
            step()
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()
    assert not torch.is_autocast_enabled("cpu")


def test_entering_uses_the_context_of_the_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    entered: list[str] = []

    class Noted(AbstractContextManager[None]):
        def __init__(self, name: str) -> None:
            self.name = name

        def __enter__(self) -> None:
            entered.append(f"+{self.name}")

        def __exit__(self, *error: object) -> None:
            entered.append(f"-{self.name}")

    grad = {"enabled": None, "inference_mode": lambda: Noted("inference_mode")}
    monkeypatch.setattr("modescope.bench.tools.instructions.cells.GRAD", grad)
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: Noted("autocast"))
    with ready(CallCell(ENTER, "autocast+inference_mode")) as step:
        assert entered == []
        step()
    assert entered == ["+inference_mode", "+autocast", "-autocast", "-inference_mode"]


def test_entering_is_measured_only_for_modes_with_a_context() -> None:
    cells = plan(["view"], ["enabled", "no_grad"], ["input"])
    assert cells == [
        CallCell("view", "enabled", "input"),
        CallCell("view", "no_grad", "input"),
        CallCell(ENTER, "no_grad"),
    ]


def profile(**counts: int) -> CallgrindProfile:
    paths = {
        "interpreter": "/bin/python3.11",
        "bindings": "/lib/libtorch_python.so",
        "torch": "/lib/libtorch_cpu.so",
        "system": "/lib/libc.so.6",
    }
    return CallgrindProfile({paths[part]: count for part, count in counts.items()}, frozenset())


def test_the_cost_of_an_empty_call_is_subtracted_from_each_call() -> None:
    empty = [profile(interpreter=100), profile(interpreter=130), profile(interpreter=100)]
    blocks = [profile(interpreter=300, torch=50), profile(interpreter=300, torch=50, system=20)]
    result = row(CallCell("add", "no_grad", "input"), blocks, empty, calls=10)
    assert result.instructions == (25.0, 27.0)
    assert result.interpreter == (20.0, 20.0)
    assert result.bindings == (0.0, 0.0)
    assert result.torch == (5.0, 5.0)
    assert result.system == (0.0, 2.0)
    assert result.keys == AUTOGRAD
    assert result.keys_seen is None


def counted(mode: str, *instructions: float) -> CallRow:
    return replace(row(CallCell("add", mode, "input")), instructions=instructions)


def test_differences_refer_to_the_mode_with_fewest_instructions() -> None:
    rows = [counted("enabled", 120, 130, 900), counted("no_grad", 100), counted("autocast", 110)]
    others = [replace(counted("enabled", 5), op="view"), replace(counted("enabled", 5), x=None)]
    assert [tables.over_leanest(each, rows + others) for each in rows] == [30, 0, 10]
    assert tables.over_leanest(row(CallCell("add", "enabled", "input")), rows) is None


def test_a_table_shows_where_other_kernels_ran() -> None:
    agree = replace(counted("enabled", 12345.4), keys_seen=AUTOGRAD)
    differ = replace(counted("no_grad", 1), keys_seen=("CPU",))
    (section,) = tables.sections([agree, differ])
    assert section.rows[0][:5] == ["add", "input", "enabled", "12,345", "12,344"]
    assert [line[-1] for line in section.rows] == [
        "AutogradCPU → CPU",
        "AutogradCPU → CPU ≠ CPU",
    ]


def run(results: Path, *words: str) -> int:
    return command.main([*words, "--results-dir", str(results)])


def test_keys_alone_need_no_valgrind(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    assert run(results, "--keys-only", "--ops", "mm", "--modes", "autocast,no_grad") == 0
    (page,), (file,) = (results / "instructions").glob("*.md"), results.rglob("*.parquet")
    assert "| mm | input | autocast | AutocastCPU → AutogradCPU → CPU |" in page.read_text()
    assert re.search(r"mm +input +no_grad +AutogradCPU → CPU\n", capsys.readouterr().out)
    rows = pq.read_table(file).to_pylist()
    assert [(each["op"], each["mode"], each["x"]) for each in rows] == [
        *(("mm", mode, x) for x in KINDS for mode in ("autocast", "no_grad")),
    ]
    assert rows[0]["keys"] == ["AutocastCPU", "AutogradCPU", "CPU"]
    assert rows[0]["torch_version"] == torch.__version__
    assert {rows[0][name] for name in ("instructions", "torch", "valgrind_version")} == {None}


def test_a_missing_valgrind_is_one_sentence_with_the_remedy(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    assert run(results) == 2
    said = capsys.readouterr()
    assert re.fullmatch(r"error: .*valgrind.*not on PATH: install it.*--keys-only\n", said.err)
    assert said.out == ""
    assert not list(results.rglob("*.*"))


ONE_OP = ("--quick", "--ops", "view", "--modes", "no_grad")


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., CallgrindCounts]], None]:
    """Stands in for valgrind."""

    def by(count: Callable[..., CallgrindCounts]) -> None:
        monkeypatch.setattr(callgrind, "available", lambda: "valgrind")
        monkeypatch.setattr(callgrind, "version", lambda program: "3.19.0")
        monkeypatch.setattr(callgrind, "count", count)

    return by


def test_results_are_printed_with_the_method(
    results: Path, counts: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    nothing, view, entering = ([profile(torch=total)] for total in (100, 2100, 300))
    counts(lambda *_: CallgrindCounts("AVX2", [nothing, view, entering]))
    assert run(results, *ONE_OP) == 0
    (page,), (file,) = results.rglob("*.md"), results.rglob("*.parquet")
    how = "valgrind 3.19.0, under which torch uses AVX2; 20 calls per block"
    assert f"- {how}\n" in page.read_text()
    assert "| view | activation | no_grad | 100 | 0 | 0.0% | 0 | 0 | 100 | 0 |" in page.read_text()
    assert "| no_grad | 10 |" in page.read_text()
    out = capsys.readouterr().out
    assert out.index(how) < out.index("A call of each op") < out.index("Entering and leaving")
    rows = pq.read_table(file).to_pylist()
    assert [(each["op"], each["instructions"]) for each in rows] == [("view", [100]), (ENTER, [10])]
    assert {
        (row["valgrind_version"], row["valgrind_capability"], row["calls"]) for row in rows
    } == {("3.19.0", "AVX2", 20)}


@pytest.mark.parametrize(
    ("raised", "status", "out", "err"),
    [
        (callgrind.Failed("valgrind ended"), 1, "", "error: valgrind ended\n"),
        (KeyboardInterrupt(), 130, "stopped; nothing is written\n", ""),
    ],
)
def test_a_failed_count_writes_nothing(
    raised: BaseException,
    status: int,
    out: str,
    err: str,
    results: Path,
    counts: Callable[..., None],
    capfd: pytest.CaptureFixture[str],
) -> None:
    def count(*arguments: object) -> CallgrindCounts:
        raise raised

    counts(count)
    assert run(results, *ONE_OP) == status
    assert capfd.readouterr() == (out, err)
    assert not list(results.rglob("*.*"))


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--ops", "add,sub"], "argument --ops: 'sub' is none of add, mm, view, add_; "),
        (["--modes", ""], "argument --modes: '' is none of enabled, no_grad, "),
        (["--slowly"], "unrecognized arguments: --slowly; "),
        (["--results-dir", "/dev/null/here"], "--results-dir: /dev/null/here/instructions: "),
    ],
)
def test_wrong_arguments_get_one_sentence(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(words) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: {complaint}")
    assert said.count("\n") == 1


def program(folder: Path, script: str) -> str:
    """Stands in for valgrind."""
    path = folder / "valgrind"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_dumps_are_taken_in_the_order_of_cells_and_blocks(tmp_path: Path) -> None:
    dump = DUMP.replace("0 60\n\ntotals: 1000", "0 $i\n\ntotals: $((940 + i))")
    fake = program(
        tmp_path,
        'for word; do case "$word" in --callgrind-out-file=*) out="${word#*=}";; esac; done\n'
        f'for i in 1 2 3 4; do cat >"$out.$i" <<END\n{dump}\nEND\ndone\n'
        "echo AVX2; echo; echo",
    )
    said: list[None] = []
    cells = [CallCell("add", mode, "input") for mode in ("enabled", "no_grad")]
    result = callgrind.count(fake, cells, 2, 50, lambda: said.append(None))
    assert result.cpu_capability == "AVX2"
    assert [[block.total for block in cell] for cell in result.blocks] == [[941, 942], [943, 944]]
    assert len(said) == 3


def test_a_failure_shows_the_message_of_the_process(tmp_path: Path) -> None:
    fake = program(tmp_path, "echo noise >&2; echo 'ImportError: no torch' >&2; exit 3")
    with pytest.raises(callgrind.Failed, match=r"status 3: ImportError: no torch$"):
        callgrind.count(fake, [], 1, 1, lambda: None)


@pytest.mark.full
@pytest.mark.skipif(not shutil.which("valgrind"), reason="needs valgrind")
@pytest.mark.skipif(
    not os.environ.get(COUNTED), reason=f"imports torch under valgrind for minutes: {COUNTED}=1"
)
def test_each_mode_takes_fewer_instructions_and_counts_repeat(tmp_path: Path) -> None:
    counts = []
    for folder in (tmp_path / "1", tmp_path / "2"):
        modes = "enabled,no_grad,inference_mode"
        assert run(folder, "--ops", "add", "--modes", modes, "--quick") == 0
        (file,) = folder.rglob("*.parquet")
        rows = [each for each in pq.read_table(file).to_pylist() if each["op"] != ENTER]
        assert all(each["keys_seen"] == each["keys"] for each in rows)
        counts.append([sorted(each["instructions"])[2] for each in rows])
    for grad, no_grad, inference in counts:
        assert grad > 1.1 * no_grad > 1.1 * inference
    assert counts[0] == pytest.approx(counts[1], rel=0.03)
