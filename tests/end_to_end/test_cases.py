"""Twelve cases through the command line on a CPU: exit status, and what each row proves."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.commands import TINY, Cli, Row, rows, started, stored
from tests.helpers.paths import HELPERS
from tests.helpers.processes import alive, soon

SMOKE = ["budget=smoke", "compile_cache=warm", "device=cpu", "threads=1"]
MLP = ["model=mlp", "shape=small"]  # batch 1, four layers of 128 x 128
WEIGHTS = 4 * (128 * 128 + 128) * 4
VECTOR = 128 * 4  # bytes of an input and of a layer's output
FP32, BF16 = (1e-9, 1e-6), (1e-4, 1e-2)  # errors against float64
PROVED: Row = {"status": "ok", "reason": None, "in_effect": True, "checked": "exact"}
NOT_COMPILED: Row = {"graphs": 0, "graph_breaks": None, "generated_kernels": None}
COMPILED: Row = {"graphs": 1, "graph_breaks": 0, "eager_functions": "[]", "recompiles": 0}
OF_MLP: Row = {"weights_bytes": WEIGHTS, "input_bytes": VECTOR, "kernels": 7, "step_left_bytes": 0,
               "resident_bytes": WEIGHTS + VECTOR}  # fmt: skip
OF_LAYER: Row = {"weights_bytes": (4 * 4 + 4) * 4, "input_bytes": 2 * 4 * 4}
NO_TIMES: Row = {"latency_rounds_s": None, "kernels": None, "step_peak_bytes": None}


def seen(grad: str, autocast: str = "none") -> Row:
    return {"seen_grad": grad, "seen_autocast": autocast, "seen_weight_dtype": "float32"}


def own(name: str) -> list[str]:
    return ["model=custom", f"model.target=net:{name}"]


CASES: dict[str, tuple[list[str], int, Row]] = {
    "eager": (
        [*MLP, "mode=eager"], 0,
        PROVED | seen("enabled") | NOT_COMPILED | OF_MLP
        | {"error": FP32, "saved_activation_bytes": 6 * VECTOR, "step_peak_bytes": 7 * VECTOR},
    ),
    "no_grad": (
        [*MLP, "mode=no_grad"], 0,
        PROVED | seen("no_grad") | NOT_COMPILED | OF_MLP
        | {"error": FP32, "saved_activation_bytes": 0, "step_peak_bytes": 3 * VECTOR},
    ),
    "inference_mode": (
        [*MLP, "mode=inference_mode"], 0,
        PROVED | seen("inference_mode") | NOT_COMPILED | OF_MLP
        | {"error": FP32, "saved_activation_bytes": 0, "step_peak_bytes": 3 * VECTOR},
    ),
    "amp": (
        [*MLP, "mode=amp"], 0,
        PROVED | seen("inference_mode", "bfloat16") | NOT_COMPILED | OF_MLP
        | {"dtype": "bf16", "error": BF16, "kernels": 16, "autocast_copy_bytes": (128 + 1) * 256},
    ),
    "compile": (
        [*MLP, "mode=compile"], 0,
        PROVED | seen("inference_mode") | COMPILED | OF_MLP
        | {"error": FP32, "generated_kernels": 3, "step_peak_bytes": 2 * VECTOR},
    ),
    "compile with a break": (
        [*own("talkative"), "mode=compile", "model.fullgraph=false"], 0,
        PROVED | seen("inference_mode") | OF_LAYER | {"error": FP32, "graph_breaks": 1},
    ),
    "training": (
        [*MLP, "mode=compile", "phase=train"], 0,
        PROVED | seen("enabled") | COMPILED
        | {"error": (1e-9, 1e-4), "optimizer": "sgd", "weights_bytes": WEIGHTS,
           "gradient_bytes": WEIGHTS, "optimizer_state_bytes": 0, "step_left_bytes": 0},
    ),
    "own model": (
        [*own("positional"), "mode=inference_mode"], 0,
        PROVED | seen("inference_mode") | NOT_COMPILED | OF_LAYER | {"error": FP32},
    ),
    "wrong only when compiled": (
        [*own("wrong_when_compiled"), "mode=compile"], 1,
        {"status": "wrong_result", "error": (0.499, 0.501), "eager_error": FP32} | NO_TIMES,
    ),
    "out of memory": ([*own("gigantic"), "mode=eager"], 1, {"status": "oom"} | NO_TIMES),
    "crash": ([*own("aborting"), "mode=eager"], 1, {"status": "crashed"} | NO_TIMES),
}  # fmt: skip


@pytest.fixture
def own_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The models of user_models.py, in a folder of the user's."""
    shutil.copy(HELPERS / "user_models.py", tmp_path / "net.py")
    monkeypatch.syspath_prepend(tmp_path)


def _agrees(found: Any, expected: Any) -> bool:
    """Of a pair the value lies between its ends."""
    if isinstance(expected, tuple):
        low, high = expected
        return found is not None and low <= found <= high
    return bool(found == expected)


@pytest.mark.usefixtures("own_models")
@pytest.mark.parametrize("name", CASES)
def test_a_case_proves_what_it_measured(cli: Cli, results: Path, name: str) -> None:
    arguments, status, expected = CASES[name]
    answer = cli(*SMOKE, *arguments)
    assert "Traceback" not in answer.err
    (row,) = rows(results)
    expected = {"exit status": status, **expected}
    ended = {"exit status": answer.status, **row}
    found = {key: v if _agrees(ended[key], v) else ended[key] for key, v in expected.items()}
    assert found == expected, row["reason"]  # of a failure pytest lists the items that differ
    if status == 0:
        assert len(row["latency_rounds_s"]) == 3
        assert (results / "main" / "traces" / row["trace"]).is_file()


def test_a_sweep_killed_at_any_moment_is_completed_by_the_same_command(results: Path) -> None:
    sweep = ["-m", *TINY, "mode=eager,no_grad", "shape.batch=1,2"]
    killed = started(results, sweep)
    assert soon(lambda: stored(results) >= 1, within_s=120)
    killed.process.kill()
    assert killed.end().status == -signal.SIGKILL
    assert soon(lambda: not alive(killed.sign), within_s=20)
    done = {row["run_id"] for row in rows(results)}
    assert 1 <= len(done) < 4
    assert started(results, sweep).end().status == 0
    found = rows(results)
    assert done < {row["run_id"] for row in found}
    assert [row["status"] for row in found] == ["ok"] * 4
    assert len({row["case_id"] for row in found}) == 4
