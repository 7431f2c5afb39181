"""The steps of `make gpu`, its studies, what they take by kept rows, and what scripts conclude."""

from __future__ import annotations

import importlib.util
import itertools
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from modescope.analysis.recommend.code import code
from modescope.bench.records.environment import DeviceFacts
from modescope.bench.refusals import refusal
from modescope.bench.resolve import resolve
from tests.gpu import cold, expected, graphs, pasted, power, proof, steps, study
from tests.gpu.__main__ import parser
from tests.gpu.expected import Seconds, case_s, kept_seconds, plan, total_s, with_expected
from tests.gpu.invariants import read
from tests.gpu.steps import STEPS
from tests.gpu.studies import LARGE, SMALL, STUDIES, CaseKind, Study, Sweep
from tests.helpers.commands import Ask
from tests.helpers.paths import REFERENCE, ROOT
from tests.helpers.rows import row_with

H100 = DeviceFacts("cuda", "NVIDIA H100 80GB HBM3", (9, 0), 80 * 2**30)


def test_steps_stand_in_order_of_weight_and_the_invariants_come_last() -> None:
    first = [step.number for step in STEPS if step.number not in (8, 9)]
    assert first == sorted(first)
    assert {*first, 8, 9} == {*proof.TITLES} == {*range(1, 10)}
    assert [step.name for step in STEPS if step.last] == [STEPS[-1].name] == ["invariants"]
    names = [step.name for step in STEPS]
    assert len(names) == len({*names})


def test_every_file_of_tests_on_a_gpu_is_a_step() -> None:
    files = {file.stem for file in (ROOT / "tests" / "cuda").glob("test_*.py")}
    assert {*steps.TESTS_S, *steps.FURTHER_TESTS_S} == files
    assert {step.limit_s for step in STEPS if step.number == 1} == {45.0}


def test_the_module_of_every_step_is_there() -> None:
    for step in STEPS:
        assert importlib.util.find_spec(step.module.replace("bench.", "modescope.bench.", 1))
        assert "{" not in " ".join(step.command("/folder", pretended=False))


def test_the_dry_timing_is_at_most_eleven_minutes_in_two_calls() -> None:
    planned = plan(with_expected(STEPS, kept_seconds()))
    within = [each for each in planned if each.call is not None]
    assert {each.step.number for each in within} == {*range(1, 9)}  # further steps are not in it
    assert {each.step.name for each in planned if each.step.number != 9} == {
        each.step.name for each in within
    }
    assert total_s(planned) <= 660
    assert {each.call for each in within} == {1, 2}
    taken = [total_s(planned, call) for call in (1, 2)]
    assert max(taken) <= 560
    page = (ROOT / "docs" / "prove-on-gpu.md").read_text(encoding="utf-8")
    assert f"H100, {taken[0]:.0f} s\n" in page
    assert f"goes on: {taken[1]:.0f} s\n" in page


def test_further_steps_run_within_a_larger_budget() -> None:
    planned = plan(with_expected(STEPS, kept_seconds()), all_s=5400.0, call_s=5400.0)
    assert all(each.call == 1 for each in planned)


def seconds(model: str, mode: str, dtype: str, took_s: float, phase: str = "inference") -> Seconds:
    return Seconds(CaseKind(model, mode, dtype, LARGE, phase), took_s)


MADE_UP = [
    seconds("mlp", "eager", "fp32", 3.0),
    seconds("mlp", "cuda-graph", "fp32", 5.0),
    seconds("mlp", "cuda-graph", "bf16", 2.0),
    seconds("transformer", "eager", "fp32", 8.0),
    seconds("mlp", "compile", "fp32", 12.0),
    seconds("mlp", "max-autotune", "fp32", 30.0),
    seconds("mlp", "cuda-graph", "fp32", 69.0, "train"),
]


@pytest.mark.parametrize(
    ("case", "took_s"),
    [
        (CaseKind("mlp", "cuda-graph", "fp32", SMALL, "inference"), 5.0),
        (CaseKind("mlp", "cuda-graph", "tf32", SMALL, "inference"), 5.0),  # as fp32
        (CaseKind("mlp", "no_grad", "fp32", SMALL, "inference"), 4.0),  # of its model and dtype
        (CaseKind("mlp", "eager", "fp16", SMALL, "inference"), 3.0),  # of its model
        (CaseKind("decode", "eager", "bf16", SMALL, "inference"), 8.0),  # the longest
        (CaseKind("decode", "compile-cuda-graph", "bf16", SMALL, "inference"), 12.0),
        (CaseKind("mlp", "max-autotune-no-cudagraphs", "bf16", SMALL, "inference"), 30.0),
        (CaseKind("mlp", "cuda-graph", "fp32", LARGE, "train"), 69.0),
        (CaseKind("mlp", "cuda-graph", "fp32", SMALL, "train"), 5.0 + 64.0 / 16),
    ],
)
def test_a_case_takes_as_long_as_the_most_similar_kept_one(case: CaseKind, took_s: float) -> None:
    assert case_s(case, MADE_UP) == pytest.approx(took_s)


def test_a_study_takes_its_command_and_its_cases() -> None:
    made = Study("x", (Sweep(("mlp",), ("eager", "cuda-graph"), replicates=2),))
    alone_s = 4 * expected.ALONE_S
    assert expected.study_s(made, MADE_UP) == expected.COMMAND_S + alone_s + 2 * (3.0 + 5.0)


def test_the_studies_hold_what_is_unproven() -> None:
    cases = [case for each in STUDIES for sweep in each.sweeps for case in sweep.cases()]
    wanted = itertools.product(
        ("mlp", "transformer"), ("fp32", "tf32", "bf16"), (SMALL, LARGE),
        ("eager", "no_grad", "inference_mode", "compile", "reduce-overhead", "cuda-graph",
         "compile-cuda-graph"),
    )  # fmt: skip
    assert {(c.model, c.dtype, c.shape, c.mode) for c in cases} >= {*wanted}
    first = [
        case for each in STUDIES if not each.further for s in each.sweeps for case in s.cases()
    ]
    assert {case.model for case in first} >= {"decode", "pointwise", "resnet"}
    assert {case.dtype for case in first} == {"fp32", "tf32", "bf16", "fp16"}
    settings = {
        word for each in STUDIES if not each.further for s in each.sweeps for word in s.words()
    }
    assert settings >= {
        "train.optimizer=adamw", "train.capture=forward_backward", "replicates=3", "calls=mix",
    }  # fmt: skip


@pytest.mark.parametrize("of", STUDIES, ids=lambda each: each.name)
def test_every_command_line_is_one_and_no_case_is_refused_on_a_gpu(
    of: Study, tmp_path: Path, ask_quickly: Ask
) -> None:
    for sweep in of.sweeps:
        for pretended in (False, True):
            requests = ask_quickly(*study.settings(sweep, of.name, tmp_path, pretended)[1:])
            chosen = sweep.smoke() if pretended else sweep
            kinds = list(chosen.cases())
            assert len(requests) * chosen.replicates == len(kinds)
            cases = [resolve(request, lambda name: H100)[0] for request in requests]
            asked = [(case.variant.mode.name.split("[")[0], case.variant.dtype) for case in cases]
            assert {*asked} == {(kind.mode.rpartition("/")[2], kind.dtype) for kind in kinds}
            assert [refusal(case, H100) for case in cases] == [None] * len(cases)
            assert {case.device for case in cases} == {"cuda"}


def found(**changes: float) -> graphs.Found:
    values = {
        "eager_us": 120.0, "replay_us": 90.0, "copy_and_replay_us": 98.0, "warm_us": 84.0,
        "cold_us": 95.0, "eager_warm_us": 90.0, "eager_cold_us": 99.0, "gates_opened_early": 0,
        "reserved_other_stream_mib": 66.0, "reserved_same_stream_mib": 33.0,
    }  # fmt: skip
    return graphs.Found("mlp", **(values | changes))  # type: ignore[arg-type]


def test_what_replays_must_not_show() -> None:
    assert graphs.problems([found(gates_opened_early=12)], survived=True) == []
    assert len(graphs.problems([found()], survived=False)) == 1
    assert len(graphs.problems([found(gates_opened_early=13)], survived=True)) == 1
    assert len(graphs.problems([found(copy_and_replay_us=80.0)], survived=True)) == 1


def test_power_compares_the_last_seconds() -> None:
    parts = {
        "alternating": {"fp32": 8600.0, "bf16": 730.0}, "bf16 alone": {"bf16": 780.0},
        "fp32 alone": {"fp32": 8650.0}, "tf32 alone": {"tf32": 1500.0},
    }  # fmt: skip
    seen = [
        power.Seen(part, at_s, us if at_s == 2 else dict.fromkeys(us, 1.0), 2e9, ())
        for part, us in parts.items()
        for at_s in (1, 2)
    ]
    said = power.summary(seen)
    assert "1.068×" in said  # 780 / 730
    assert "11.09×" in said  # 8650 / 780
    assert "1.92×" in said  # 1500 / 780


@pytest.mark.parametrize(("pasted_s", "agrees"), [(1.04e-3, True), (0.94e-3, False), (None, False)])
def test_pasted_code_has_to_take_as_long_as_its_row(pasted_s: float | None, agrees: bool) -> None:
    assert pasted.Pasted("run", "case", True, 1e-3, pasted_s).agrees is agrees


@pytest.mark.parametrize("name", [".", "bf16", "training"])
def test_every_kept_row_has_a_program_with_a_call_at_its_end(name: str) -> None:
    for row in map(row_with, read(REFERENCE / "nvidia-h100" / name)):
        _, call = pasted.split(code(row))
        trained = row["phase"] == "train"
        ends = "graph.replay()" if row["graph"] else "optimizer.step()" if trained else "model("
        assert ends in call
        assert ("copy_(x)" in call) is bool(row["graph"]), "which the row has timed, too"
        assert call.count("model(") == (not row["graph"])
        assert "torch.compile" not in call
        compile(pasted.script(row, 1.0), "program", "exec")


def test_answers_come_before_captured_and_compiled_modes(tmp_path: Path) -> None:
    chosen = pasted.distinct(pasted.candidates(REFERENCE / "nvidia-h100"))
    kinds = [is_answer for _, is_answer in chosen]
    assert kinds == sorted(kinds, reverse=True)
    assert any(kinds)
    assert len({code(row) for row, _ in chosen}) == len(chosen)
    rest = [row for row, is_answer in chosen if not is_answer]
    replays = [bool(row["graph_launches"]) for row in rest]
    assert replays == sorted(replays, reverse=True)
    assert any(replays)
    assert list(pasted.candidates(tmp_path)) == []


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_make_passes_its_variables_on() -> None:
    given = {"BUDGET_S": "50", "CALL_S": "40", "OUT": "out", "WHEELS": "x:y", "PRETEND": "1"}
    clean = {
        name: text for name, text in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))
    }
    words = ["make", "-n", "gpu", "PYTHON=python9", "ARGS=--again"]
    done = subprocess.run(
        words, cwd=ROOT, env=clean | given, capture_output=True, text=True, check=True
    )
    program, *rest = shlex.split(done.stdout)
    assert program == "python9"
    assert rest[:2] == ["-m", "tests.gpu"]
    options = parser().parse_args(rest[2:])
    assert (options.budget_s, options.call_s, options.out) == (50.0, 40.0, Path("out"))
    assert (options.wheels, options.pretend, options.again) == ("x:y", True, True)


FILE = """
import os
import pathlib
import pytest

pytestmark = pytest.mark.cuda
HERE = pathlib.Path(__file__).parent


def note(name):
    with (HERE / "ran.txt").open("a") as file:
        file.write(name + " ")


def test_one():
    note("one")


def test_two():
    note("two")
    assert (HERE / "fixed").exists()


def test_three():
    note("three")
    if not (HERE / "fixed").exists():
        os._exit(139)


def test_four():
    note("four")
    pytest.skip("not here")
"""


def test_a_file_of_tests_goes_on_behind_those_that_passed(tmp_path: Path) -> None:
    file = tmp_path / "test_a.py"
    file.write_text(FILE)
    command = [sys.executable, "-m", "tests.gpu.cuda_tests", str(file), str(tmp_path)]

    def run() -> tuple[int, str]:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout.splitlines()[-1] if done.stdout else ""

    assert run()[0] == 139
    (tmp_path / "fixed").touch()
    assert run() == (0, "3 passed, 1 skipped")
    assert (tmp_path / "ran.txt").read_text() == "one two three two three four "
    assert run() == (0, "3 passed, 1 skipped")
    (tmp_path / "tests" / "test_a.jsonl").unlink()
    (tmp_path / "fixed").unlink()
    file.write_text(FILE.replace("os._exit(139)", "pytest.skip('not here')"))
    status, said = run()
    assert status == 1
    assert said.startswith("1 failed, 1 passed, 2 skipped: ")
    assert said.endswith("test_two")
    (tmp_path / "tests" / "test_a.jsonl").unlink()
    file.write_text(FILE.replace("pytest.mark.cuda", '[pytest.mark.cuda, pytest.mark.skip("no")]'))
    assert run() == (77, "4 skipped")


def test_a_study_says_what_came_of_its_rows() -> None:
    case = {"model": "mlp", "mode": "amp", "dtype": "bf16", "latency_s": 93.4e-6}
    ok = {**case, "status": "ok", "in_effect": True, "speedup": 1.234}
    bad = {**case, "status": "failed", "in_effect": None, "reason": "planted"}
    rows = [ok, {**ok, "in_effect": False, "speedup": None}, bad]
    assert study.said(rows) == (
        "2 ok, 1 failed, 1 not in effect; mlp amp bf16: planted; mlp amp bf16 93 µs 1.23×; "
        "mlp amp bf16 93 µs"
    )
    assert study.said([]) == "no row"


@pytest.mark.parametrize(
    ("triton_us", "wrong"), [(100.0, 0), (97.1, 0), (96.0, 1), (104.0, 1), (None, 0)]
)
def test_cold_calls_agree_with_triton_within_three_percent(
    triton_us: float | None, wrong: int
) -> None:
    assert len(cold.problems([cold.Found("mlp", 80.0, 100.0, triton_us)])) == wrong
