"""Finds from Python which execution mode to run a model in.

    import modescope

    result = modescope.compare(model, x)
    print(result)

It measures a study as `modescope run -m` does: each case runs in a fresh process, which checks its
outputs and times it in turns with its baseline. That process loads the model from a file in the
study's folder (`bench.api.saving`).
"""

from __future__ import annotations

import html
import io
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from hydra.core.override_parser.types import Quote, QuotedString

from modescope.analysis import table, why
from modescope.analysis.causes import finding
from modescope.analysis.derive.select import ordered
from modescope.analysis.metrics import flat
from modescope.analysis.recommend.types import Choice, Recommendation
from modescope.bench.api import saving
from modescope.bench.records.cases import PICKLE_FOLDER, TORCH
from modescope.bench.records.errors import UsageError
from modescope.bench.resolve import Request
from modescope.bench.run import confirm, read
from modescope.bench.sweep import isolation, prepare, progress_bar, sweep
from modescope.bench.sweep.isolation import Ending, Task

COMPOSING_S = 3600.0
"""Time limit in seconds for composing all cases; Hydra takes 0.1 to 0.3 s for each."""

PLAIN = re.compile(r"[\w.:/+-]+", re.ASCII)
"""Matches a text that needs no quotes as the value of a setting."""


KERNELS_NAME = re.compile(r"[A-Za-z]\w*", re.ASCII)
"""Matches the name of an implementation."""


@dataclass(frozen=True, repr=False, eq=False)
class Comparison:
    """What `compare` measured, and which mode to use. Prints as `modescope table` does."""

    study: Path
    _rows: pd.DataFrame  # derived, fastest first, with each estimate in one column
    answers: tuple[Recommendation, ...]
    """Which mode to use, for each precision and size; the baseline's precision first."""

    @cached_property
    def frame(self) -> pd.DataFrame:
        """A row per mode and precision, fastest first, with the columns of results/README.md."""
        return flat(self._rows)

    @property
    def best(self) -> Choice | None:
        """The mode to use at the baseline's precision, for the first size if there are several.

        A package, which is built ahead of time, only if no other mode was measured. None if no mode
        can be recommended; `verdict` says why.
        """
        return self.answers[0].choice

    @property
    def code(self) -> str:
        """Python code that runs the model in the mode `best`; empty if there is none."""
        return self.best.code if self.best else ""

    @property
    def verdict(self) -> str:
        """A text that says which mode to use for each precision, with remarks."""
        return table.advice(self._rows)

    @property
    def why(self) -> str:
        """What `modescope why` prints: why each mode is as fast as it is."""
        return why.text(self._rows, finding.findings_by_run(self._rows))

    def report(self) -> Path:
        """Writes the study's report, and returns its path."""
        from modescope.analysis.report import report  # matplotlib takes seconds

        return report.write(self.study)

    def __repr__(self) -> str:
        here = Path.cwd()
        study = self.study.relative_to(here) if self.study.is_relative_to(here) else self.study
        return f"{table.answer(self._rows, study)}\n\nstudy: {study}"

    def _repr_html_(self) -> str:
        style = "white-space: pre; overflow-x: auto"  # a notebook would wrap the table's lines
        return f'<pre style="{style}">{html.escape(repr(self))}</pre>'


def compare(
    model: torch.nn.Module | Callable[..., Any],
    inputs: Any = None,
    *,
    kernels: Mapping[str, torch.nn.Module | Callable[..., Any]] | None = None,
    modes: str | Sequence[str] | None = None,
    dtype: str | Sequence[str] = "auto",
    phase: str = "inference",
    budget: str = "quick",
    device: str = "auto",
    threads: int = 1,
    study: str | Path | None = None,
    name: str | None = None,
    overrides: str | Sequence[str] = (),
    progress: bool = True,
) -> Comparison:
    """Measures a model in several execution modes, each in a fresh process, against eager.

    Args:
        model: a module, which is not changed; or a function that returns a module, or, if `inputs`
            is left out, (module, inputs). It may have arguments for sizes (docs/own-model.md).
        inputs: what the model is called with: a tensor, a tuple of arguments or a dict of named
            arguments. Tensors may be on any device.
        kernels: further implementations of the model, such as with a kernel of your own, by the
            name of each (docs/own-kernels.md). They are given as the model is, have the same
            state_dict, and get its weights. Every mode is measured with each, against eager with
            the model itself.
        modes: names of modes, such as ["eager", "compile"]. By default the modes of
            experiment=modes, or with phase="train" of experiment=training; modes that this machine
            cannot run are skipped.
        dtype: fp32, bf16, fp16, tf32, bf32, or several; `auto` is bf16 for autocast, else fp32.
        phase: inference or train.
        budget: smoke (proves only that it runs), quick, standard or thorough.
        device: auto, cpu, cuda or cuda:1.
        threads: number of CPU threads of each process.
        study: name of a folder below results/ in the working folder, or a path; by default a new
            folder. A case of which the folder has a row is not measured again.
        name: name of the model in tables; by default the name of its class or of the function.
        overrides: further settings as on the command line, such as ["replicates=3"].
        progress: whether stderr shows what is measured, in a notebook as a bar.

    Raises:
        UsageError: an argument is wrong, or the model cannot be sent to a fresh process or fails
            there in plain eager. Nothing was measured then. A case that fails while it is measured
            raises nothing; its row has the reason.
        KeyboardInterrupt: finished rows are kept; the same call with `study` continues.
    """
    if hasattr(model, "_orig_mod"):
        raise UsageError(
            "model is compiled; give the module that was compiled, as compare compiles it itself"
        )
    if not isinstance(model, torch.nn.Module):
        if not callable(model):
            raise UsageError(
                f"model is of type {type(model).__name__}; give a torch.nn.Module, or a function "
                "or class that returns one"
            )
    elif inputs is None:
        raise UsageError(
            "inputs is missing; give a tensor, a tuple of arguments, or a dict by name"
        )
    for key, other in (kernels or {}).items():
        if key == TORCH:
            raise UsageError(
                f"kernels={{{key!r}: …}}: {TORCH} is the model itself; give another name"
            )
        if not (KERNELS_NAME.fullmatch(str(key)) and callable(other)):
            raise UsageError(
                f"kernels={{{key!r}: …}} of type {type(other).__name__}; give a name of letters, "
                "digits and _ for each torch.nn.Module, or function that returns one"
            )
    if not isinstance(study, str | Path | None):
        raise UsageError(f"study={study!r}: must be a name or a path")
    texts = {"modes": () if modes is None else modes, "dtype": dtype, "overrides": overrides}
    for key, value in texts.items():
        if not isinstance(value, Sequence) or not all(isinstance(text, str) for text in value):
            raise UsageError(f"{key}={value!r}: must be a text or a list of texts")
    called = str(name or getattr(model, "__name__", type(model).__name__))
    name = re.sub(r"[^\w-]+", "_", called, flags=re.ASCII).strip("_") or "model"
    folder = _folder(study or f"{name}-{datetime.now():%Y%m%d-%H%M%S}")
    existed = folder.exists()
    prepare.forget_changed_host()
    with redirect_stdout(sys.stderr if progress else io.StringIO()), progress_bar.show(progress):
        try:
            pickle = saving.save(model, inputs, name, folder)
            saved = {
                key: saving.save(other, inputs, f"{name}-{key}", folder)
                for key, other in (kernels or {}).items()
            }
            submission = _submit(
                "model=custom", f"model.pickle={pickle}",
                *(f"+model.kernels.{key}={file}" for key, file in saved.items()),
                *([f"mode.kernels={','.join((TORCH, *saved))}"] if saved else []),
                f"experiment={'training' if phase == 'train' else 'modes'}" if modes is None
                else f"mode={_join(modes)}",
                f"phase={phase}", f"budget={budget}",
                *([] if dtype == "auto" else [f"dtype={_join(dtype)}"]),
                f"device={device}", f"threads={threads}",
                f"results_dir={_quote(str(folder.parent))}", f"study={_quote(folder.name)}",
                *([overrides] if isinstance(overrides, str) else overrides),
            )  # fmt: skip
        except BaseException:
            if not existed:
                for part in (PICKLE_FOLDER, "logs"):
                    shutil.rmtree(folder / part, ignore_errors=True)
                with suppress(OSError):  # it has other content, or was never made
                    folder.rmdir()
            raise
        try:
            run_ids = list(submission.finished)
            snapshot = confirm(submission, run_ids)
        except sweep.Incomplete as rest:
            raise UsageError(f"{rest}; finished rows are kept in {folder}") from rest
        except KeyboardInterrupt as stop:
            stop.add_note(f"finished rows are kept; study={str(folder)!r} continues")
            raise
    found = (snapshot or read(submission, run_ids)).of(run_ids)
    answers = sorted(
        found.answers, key=lambda answer: answer.question.dtype != answer.question.baseline_dtype
    )
    return Comparison(folder, ordered(found.rows), tuple(answers))


def _submit(*words: str) -> sweep.Submission:
    """Returns the submission of the cases of `modescope run -m` with the arguments `words`.

    They are measured while its `finished` is iterated. Raises UsageError if the arguments are wrong
    or ask for no measurement.
    """
    # a child, because this process may be an application of Hydra itself
    outcome = isolation.call(
        Task("modescope.bench.command_line:collect_in_child", list[Request]), ["-m", *words],
        timeout_s=COMPOSING_S,
    )  # fmt: skip
    if outcome.kind == Ending.USAGE:
        raise UsageError(outcome.reason)
    if outcome.kind != Ending.RETURNED:
        raise RuntimeError(f"the cases could not be composed: {outcome.reason}")
    submission = sweep.submit(outcome.value) if outcome.value else None
    if submission is None:  # --help, dry_run=true
        raise UsageError("overrides: only settings of what is measured, as in ['replicates=3']")
    return submission


def _folder(study: str | Path) -> Path:
    """Returns the folder of `study`: a plain name is a folder in results/, all else a path."""
    path = Path(study).expanduser()
    return (Path("results") / path if path.name == str(study) else path).resolve()


def _join(values: str | Sequence[str]) -> str:
    return values if isinstance(values, str) else ",".join(values)


def _quote(text: str) -> str:
    """Quotes `text` if Hydra would otherwise read it as something else."""
    return text if PLAIN.fullmatch(text) else QuotedString(text, Quote.single).with_quotes()
