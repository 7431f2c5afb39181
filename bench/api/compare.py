"""Which execution mode to run a model in, asked from Python.

    import modescope

    found = modescope.compare(model, x)
    found.best  # no_grad, 1.049× [1.041, 1.058] over eager ...

This is a study like those of `python run.py -m`: each case in a fresh process, checked and timed
beside its baseline. The model gets there in a file of the study's folder (`bench.api.saving`).
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import torch

from modescope.analysis.derive.registry import derived
from modescope.analysis.recommend.confirm import unconfirmed
from modescope.analysis.recommend.decide import recommend
from modescope.bench.api import arguments, composing, saving
from modescope.bench.api.comparison import Comparison, comparison
from modescope.bench.records.errors import UsageError
from modescope.bench.records.pickled_models import PICKLE_FOLDER
from modescope.bench.sweep import prepare, progress_bar, sweep


def compare(
    model: torch.nn.Module | Callable[..., Any],
    inputs: Any = None,
    *,
    modes: str | Sequence[str] | None = None,
    dtype: str | Sequence[str] = "auto",
    phase: str = "inference",
    budget: str = "quick",
    device: str = "auto",
    threads: int = 1,
    study: str | Path | None = None,
    name: str | None = None,
    overrides: Sequence[str] = (),
    progress: bool = True,
) -> Comparison:
    """Measures a model in several execution modes, each in a fresh process, against eager.

    Args:
        model: a module, which stays as it is; or a function that returns one, or with `inputs` left
            out (module, inputs). A function may have arguments for sizes (docs/own-model.md).
        inputs: what the model is called with: a tensor, a tuple of arguments or a dict of named
            ones. Tensors may be on any device.
        modes: names of modes, such as ["eager", "compile"]. By default all of experiment=modes
            (with phase="train" of experiment=training) that need no GPU, or all if there is one.
        dtype: fp32, bf16, fp16, tf32, or several; `auto` is bf16 for autocast and fp32 otherwise.
        phase: inference or train.
        budget: smoke (proves only that it runs), quick, standard or thorough.
        device: auto, cpu, cuda or cuda:1.
        threads: of each process.
        study: name of a folder below results/ in the working folder, or a path. Rows that it has of
            the same case are not measured again. By default a new folder.
        name: of the model in tables; by default that of its class, or of the function.
        overrides: further settings as on the command line, such as ["replicates=3"].
        progress: whether a progress bar is shown, or lines on stderr without terminal or notebook.

    Raises:
        UsageError: an argument is wrong, or the model cannot be sent to a fresh process. Nothing
            was measured then. A case that fails while it is measured is a row with its reason.
        KeyboardInterrupt: finished rows are kept; the same call with `study` continues.
    """
    named = arguments.checked_name(model, inputs, name)
    folder = arguments.study_folder(study, named)
    prepare.forget_changed_host()
    device_type = prepare.host(device).device.type
    said = io.StringIO()
    run_ids: list[str] = []
    with redirect_stdout(said), progress_bar.show(progress):
        with _removed_if_refused(folder):
            pickle = saving.save(model, inputs, named, folder)
            words = arguments.settings(
                pickle, folder, device_type, modes=modes, dtype=dtype, phase=phase, budget=budget,
                device=device, threads=threads, overrides=overrides,
            )  # fmt: skip
            submission = sweep.submit(composing.requests(words))
            if submission is None:
                raise UsageError("dry_run=true: compare measures; leave it out")
        try:
            run_ids += submission.finished
            if submission.confirm is not None:
                submission.confirm(unconfirmed(recommend(derived(folder)), run_ids))
        except sweep.Incomplete as rest:
            raise UsageError(f"{rest}; finished rows are kept in {folder}") from rest
        except KeyboardInterrupt as stop:
            stop.add_note(
                f"{len(run_ids)} of {submission.runs} rows are kept in {folder}; "
                f"study={str(folder)!r} continues"
            )
            if submission.detaches:
                stop.add_note(said.getvalue().strip())  # how to end the jobs
            raise
    return comparison(folder, run_ids, said.getvalue().splitlines())


@contextmanager
def _removed_if_refused(folder: Path) -> Iterator[None]:
    """After an error removes what was written to a new study: the model, and empty folders."""
    existed = folder.exists()
    try:
        yield
    except BaseException:
        if not existed:
            shutil.rmtree(folder / PICKLE_FOLDER, ignore_errors=True)
            with suppress(OSError):  # it has other content, or was never made
                folder.rmdir()
        raise
