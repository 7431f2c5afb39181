"""What the commands of analysis print and write, held against reviewed files: `make golden`.

The files beside this one hold the outputs of kept studies and of made-up ones. A change of an
output shows as their diff.
"""

from __future__ import annotations

import csv
import io
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pytest_regressions.file_regression import FileRegressionFixture

from modescope.analysis import table, why
from modescope.analysis.compare import command as compare
from modescope.analysis.figures import theme
from modescope.analysis.report import report
from modescope.bench.records.results import Record
from tests.helpers.comparisons import processes
from tests.helpers.pass_columns import MIB, cuda_passes, cuda_training, memory, pool, profiled
from tests.helpers.paths import REFERENCE
from tests.helpers.studies import (
    batch_series,
    cpu_sweep,
    cuda_clocks,
    cuda_series,
    dispatch_series,
    not_measured,
    record,
    replicates,
    save,
    saving_steps,
    with_threads,
)

GOLDEN = Path(__file__).parent
KEPT = {
    "intel-xeon-2-cores": REFERENCE / "intel-xeon-2-cores",
    "amd-epyc-2-cores": REFERENCE / "amd-epyc-2-cores",
    "zoo-train": REFERENCE / "amd-epyc-2-cores" / "zoo-train",
    "varied": REFERENCE / "amd-epyc-avx2-2-cores" / "varied",
}
LONGEST = 200
PAIRS = {  # exit status of each comparison
    "torch-2.13-and-2.14": 0,
    "made-up-pair": 1,
}


def eleven_modes() -> list[Record]:
    """All modes on a GPU, some without a result or with a remark, and a step of training."""
    graphed = {"graph_launches": 1, "launches": 0}
    tuned = cuda_clocks(14e-6, None) | memory(64 * MIB, 0) | pool(14 * MIB, 2 * MIB)
    return [
        *cuda_passes(),
        record("amp", 172e-6, 0.767, error=3.1e-3, checked="not", checked_note="it is chaotic",
               **cuda_clocks(160e-6, 31e-6), **profiled(93, 29e-6, launches=93)),
        record("amp-compile", 61e-6, 2.16, error=3.4e-3, first_call_s=8.9,
               flags=("drift", "contended"), **cuda_clocks(49e-6, 17e-6),
               **profiled(11, 16e-6, launches=11)),
        record("max-autotune", 33e-6, 4.0, first_call_s=31.0, **tuned,
               **profiled(9, 24e-6, **graphed)),
        record("max-autotune-no-cudagraphs", 71e-6, 1.86, first_call_s=30.0, in_effect=False,
               in_effect_note="autotuning had no choices to compare: same code as compile",
               **cuda_clocks(59e-6, 25e-6, 20e-6)),
        not_measured("compile-cuda-graph", "wrong_result", "relative error 0.3 > 1e-05 | <b>",
                     device="cuda", device_name="NVIDIA H200", error=0.3),
        *cuda_training(),
    ]  # fmt: skip


def odd_rows() -> list[Record]:
    """What a sweep on a CPU can leave: failures, repetitions, caches, precisions, odd names."""
    long = f"it went\nas it does {'and so on ' * 20}; see results/main/logs/a.log; set device=cuda"
    odd: dict[str, Any] = {"model": "custom:net:build<b>", "shape": "{}", "model_args": '{"a|b":1}'}
    return [
        *cpu_sweep("mlp"),
        record("compile", 0.35e-3, 1.32, compile_cache="warm", first_call_s=1.03, model="mlp"),
        record("compile", 0.36e-3, 1.3, dtype="bf16", baseline_dtype="bf16", model="mlp"),
        record("no_grad", checked="without_randomness", checked_note="in a copy"),
        record("eager", budget="smoke", rounds=3),
        record("eager", budget="smoke", rounds=3),
        *replicates(3),
        record("compile", replicate=3, status="crashed", reason="SIGABRT, during timing"),
        record("inference_mode", seed=4, error=0.03, max_error=0.05),
        not_measured("amp", "failed", long),
        not_measured("amp-compile", "oom", "out of memory"),
        record("compile", speedup=2.0, fullgraph=False, graph_breaks=1, eager_functions='["f"]',
               graph_break_reasons='[{"place": "net.py:12", "reason": "print"}]', **odd),
        not_measured("amp", "wrong_result", "relative error 0.3 > 0.06 | <b>bold</b>", **odd),
    ]  # fmt: skip


def sizes() -> list[Record]:
    """Modes over the length of a chain, over the batch and over the number of threads."""
    saved = {"eager": [MIB, 2 * MIB, 4 * MIB], "compile": [MIB, MIB + 2**19, None]}
    threads = {1: {"eager": 8e-3, "compile": 6e-3}, 2: {"eager": 5e-3, "compile": 5.9e-3}}
    return [
        *dispatch_series(),
        *batch_series((1, 16, 256)),
        *cuda_series("batch", (1, 16, 256)),
        *(one for mode, sizes in saved.items() for one in saving_steps(mode, sizes)),
        *(with_threads(count, latency_s, mode, model="mlp")
          for count, modes in threads.items() for mode, latency_s in modes.items()),
    ]  # fmt: skip


def tf32_on_cuda() -> list[Record]:
    """Two works on a GPU in fp32, bf16 and tf32: in one a mode gains over eager tf32, in one none.

    Eager in tf32 over eager in fp32 links the others, which are over eager in tf32. A third work
    has no row in tf32, and a fourth has no link.
    """
    gpu: dict[str, Any] = {"device": "cuda", "device_name": "NVIDIA H100",
                           "compute_capability": "9.0"}  # fmt: skip
    tf32 = {**gpu, "dtype": "tf32", "baseline_dtype": "tf32", "error": 2.9e-4,
            "baseline_error": 2.9e-4, "error_limit": 1e-3}  # fmt: skip
    link = tf32 | {"baseline_dtype": "fp32", "baseline_error": 2.0e-7, "first_call_s": 0.002}
    made: list[Record] = []
    for batch, linked, graphed in (
        (1, 5.1, 1.46),
        (8, 5.1, 1.0),
        (16, None, None),
        (64, None, 1.2),
    ):
        at: dict[str, Any] = {"model": "mlp", "shape": f'{{"batch":{batch}}}', "batch": batch}
        made += [
            record("eager", 800e-6, 1.0, spread=0.002, **gpu, **at),
            record("compile", 730e-6, 1.1, **gpu, **at),
            record("inference_mode", 100e-6, 8.0, dtype="bf16", error=5.2e-3, **gpu, **at),
        ]
        if linked:
            made.append(record("eager", 157e-6, linked, **link, **at))
        if graphed:
            made += [
                record("inference_mode", 155e-6, 1.005, spread=0.002, **tf32, **at),
                record("compile-cuda-graph", 157e-6 / graphed, graphed, **tf32, **at),
            ]
    return made


def _numbered(records: Iterable[Record], side: str = "run") -> list[Record]:
    """The records with ids and times that do not depend on what was made before them."""
    return [
        replace(one, attempt=replace(one.attempt, run_id=f"{side}-{n:02}",
                                     started_at=f"2026-03-01T00:00:{n:02}Z"))
        for n, one in enumerate(records)
    ]  # fmt: skip


MADE_UP = {
    "eleven-modes-on-cuda": eleven_modes,
    "odd-rows": odd_rows,
    "sizes": sizes,
    "tf32-on-cuda": tf32_on_cuda,
}


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The studies, in the current folder."""
    folder = tmp_path_factory.mktemp("golden")
    for name, kept in KEPT.items():
        for part in ("rows", "traces"):
            if (kept / part).is_dir():
                shutil.copytree(kept / part, folder / name / part)
    for name, make in MADE_UP.items():
        save(_numbered(make()), folder / name)
    kept = REFERENCE / "intel-xeon-2-cores" / "torch-2.13-and-2.14"
    modes = ("eager", "no_grad", "compile")
    made_up = {
        "old": processes(1, modes=modes),
        "new": [*processes(2, {"compile": 1.06}, modes=modes[::2],
                           of_mode={"compile": {"kernels": 14}}),
                not_measured("no_grad", "crashed", "no *kernel* | <b>")],
    }  # fmt: skip
    for side, records in made_up.items():
        shutil.copytree(kept / side, folder / "torch-2.13-and-2.14" / side)
        save(_numbered(records, side), folder / "made-up-pair" / side)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder


def _columns(text: str) -> str:
    """A CSV with a line for each column; a value that all rows have stands there once.

    Of long values, which are JSON as it was stored, the beginning is kept.
    """
    names, *rows = csv.reader(io.StringIO(text))
    lines = []
    for name, values in zip(names, zip(*rows, strict=True), strict=True):
        shown = values if len(set(values)) > 1 else values[:1]
        lines.append(f"{name}: {' | '.join(value[:LONGEST] for value in shown)}")
    return "\n".join(lines) + "\n"


def _rounded(text: str) -> str:
    """With six digits of each number: the last ones are those of a processor and a numpy."""
    return re.sub(
        r"(?<![\w:.])-?\d+\.\d{5,}(e[+-]\d+)?", lambda number: f"{float(number[0]):.6g}", text
    )


OUTPUTS = {"table.txt": (table, ()), "columns.txt": (table, ("--csv",)), "why.txt": (why, ())}


@pytest.fixture(scope="module", autouse=True)
def _undrawn() -> Iterator[None]:
    """Figures are no output here, and drawing them takes most of the time of a report."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(theme, "svg", lambda figure, name: '<svg viewBox="0 0 1 1"></svg>')
        yield


@pytest.mark.parametrize("output", [*OUTPUTS, "report.md"])
@pytest.mark.parametrize("study", [*KEPT, *MADE_UP])
def test_the_outputs_of_a_study(
    study: str,
    output: str,
    capsys: pytest.CaptureFixture[str],
    file_regression: FileRegressionFixture,
) -> None:
    if output == "report.md":
        text = report.write(Path(study)).with_name(output).read_text(encoding="utf-8")
    else:
        program, options = OUTPUTS[output]
        assert program.main([study, *options]) == 0
        text = capsys.readouterr().out
    shown = _rounded(_columns(text) if output == "columns.txt" else text)
    file_regression.check(shown, encoding="utf-8", fullpath=GOLDEN / study / output)


@pytest.mark.parametrize("pair", PAIRS)
def test_the_outputs_of_a_comparison(
    pair: str, tmp_path: Path, file_regression: FileRegressionFixture
) -> None:
    files = {"--json": tmp_path / "compare.json", "--markdown": tmp_path / "compare.md"}
    options = [str(each) for option in files.items() for each in option]
    sides = [f"{pair}/{side}" for side in ("old", "new")]
    gates = ["--gate", "exact,speedup,latency"]
    assert compare.main([*sides, *gates, *options]) == PAIRS[pair]
    for file in files.values():
        shown = _rounded(file.read_text(encoding="utf-8"))
        file_regression.check(shown, encoding="utf-8", fullpath=GOLDEN / pair / file.name)
