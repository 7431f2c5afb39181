"""Fills each of the compiler's caches, changes one thing, and starts a new process with it.

Says of each cache and change whether the process refused, compiled again, reused what was saved and
was right, or was silently wrong: another process, in plain eager without any cache, computes what
is right after the change. On the CPU.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from modescope.bench.command_line import collect
from modescope.bench.model.outputs import Outputs, largest_error
from modescope.bench.records import files
from modescope.bench.records.caches import CACHES, Variables
from modescope.bench.records.errors import UsageError
from modescope.bench.records.paths import program
from modescope.bench.records.tolerances import EAGER_LIMIT, TOLERANCE
from modescope.bench.sweep import prepare
from modescope.bench.sweep.prepare import Job
from modescope.bench.sweep.progress_bar import say
from modescope.bench.tools.cli import ToolParser, command
from modescope.bench.tools.stale.cells import Cell, classify, render
from modescope.bench.tools.stale.changes import MODULE, STATES, State, World, write

PROGRAM = program("bench.stale")

NO_FUNCTION = (
    "only a model whose target is a function that returns module and inputs can be changed"
)

NOT_FILLED = "the process that fills the cache failed: {}"

RUNGS = {
    **{cache: ("compile", cache) for cache in ("warm", "shipped", "precompiled", "aot")},
    "aoti": ("aoti", "cold"),
}
"""Rungs: the values of `mode` and `compile_cache`."""


class Table:
    """Measures cells of jobs by the names of their rungs, in `folder`."""

    def __init__(self, jobs: dict[str, Job], folder: Path, log: Path) -> None:
        self._jobs, self._folder, self._log = jobs, folder, log
        self._source = folder / "source"
        self._source.mkdir()
        self._truths = dict[object, Outputs]()

    def measure(self, name: str, states: Sequence[str]) -> list[Cell]:
        """Fills a rung, and again where a state needs it; returns the cells of `states`."""
        job = self._jobs[name]
        if job.refusal:
            return [Cell(words=job.refusal)] * len(states)
        filled = dict[tuple[tuple[str, str], ...], str | None]()
        cells = list[Cell]()
        for state in map(STATES.__getitem__, states):
            say(f"{name}: {state.meaning}")
            kept = self._folder / f"{name}-{len(state.fills_with)}"
            if state.fills_with not in filled:
                filled[state.fills_with] = self._fill(job, state, kept)
            failure = filled[state.fills_with]
            cells.append(Cell(words=failure) if failure else self._start(job, state, kept))
        return cells

    def _world(self, job: Job, variables: Variables) -> World:
        write(self._source, job.case.model.target)
        model = replace(job.case.model, target=f"{MODULE}:build")
        case = replace(job.case, model=model)
        return World(self._source, self._folder / "rung", case, job.plan, self._log, variables)

    def _fill(self, job: Job, state: State, kept: Path) -> str | None:
        """Fills a rung and keeps a copy of it; returns why that fails."""
        world = self._world(job, dict(state.fills_with))
        shutil.rmtree(world.rung, ignore_errors=True)
        world.rung.mkdir()
        failure = world.open().fill().start.failure
        shutil.copytree(world.rung, kept)
        return failure and NOT_FILLED.format(failure)

    def _start(self, job: Job, state: State, kept: Path) -> Cell:
        world = self._world(job, {})
        before = self._truth(world)
        shutil.rmtree(world.rung)
        shutil.copytree(kept, world.rung)
        changed = state.change(world)
        if changed is None:
            return Cell()
        truth, limit = self._truth(changed), EAGER_LIMIT * TOLERANCE[job.case.variant.dtype]
        if state.shows and largest_error(before, truth) <= limit:
            raise UsageError(f"{job.case.model.name} computes the same after: {state.meaning}")
        output = self._folder / "output.pt"
        timed = changed.open().start(output=output)
        error = 0.0 if timed.start.failure else largest_error(torch.load(output), truth)
        traces = CACHES[job.plan.compile_cache].makes_graphs
        return classify(timed, error, limit, traces, state.is_option)

    def _truth(self, world: World) -> Outputs:
        """Returns what plain eager computes in a new process."""
        said = tuple(path.read_text() for path in sorted(self._source.iterdir()) if path.is_file())
        key = said, world.case.threads, tuple(world.variables.items())
        if key not in self._truths:
            variant = world.case.variant
            case = replace(world.case, variant=replace(variant, mode=variant.mode.eager_mode()))
            folder, output = self._folder / "eager", self._folder / "truth.pt"
            folder.mkdir(exist_ok=True)
            plan = replace(world.plan, compile_cache="cold")
            fresh = replace(world, case=case, plan=plan, rung=folder).open()
            if failure := fresh.start(output=output).start.failure:
                raise UsageError(f"the model fails in plain eager: {failure}")
            self._truths[key] = torch.load(output)
        return self._truths[key]


def measure(
    words: Sequence[str], rungs: Sequence[str], states: Sequence[str]
) -> dict[str, list[Cell]]:
    """Returns the cells of each rung, by its name; `words` are settings of a run.

    Raises UsageError for a mistake in them, or for a model in which a change does not show.
    """
    common = [*words, "device=cpu", "baseline.mode=none", "study=stale"]
    requests = [
        collect([*common, f"mode={mode}", f"compile_cache={cache}"])[0]
        for mode, cache in map(RUNGS.__getitem__, rungs)
    ]
    prepared = prepare.prepare_each(requests, range(len(requests)))
    jobs = {name: job for name, [job] in zip(rungs, prepared, strict=True)}
    case, plan = jobs[rungs[0]].case, jobs[rungs[0]].plan
    if case.model.inputs_json or case.model.pickled or case.model.architecture:
        raise UsageError(f"model={case.model.name}: {NO_FUNCTION}")
    log = plan.study_folder / "logs" / "stale.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with files.temporary_folder() as folder:
        table = Table(jobs, folder, log)
        return {name: table.measure(name, states) for name in rungs}


@command
def main(words: Sequence[str]) -> int:
    """Runs the command. Returns 0, or 2 for a mistake, 130 for Ctrl-C."""
    parser = ToolParser(PROGRAM, __doc__)
    add = parser.add_argument
    add("model", nargs="?", default="mlp", help="as in model=MODEL of modescope run")
    add("settings", nargs="*", help="further settings of modescope run, such as shape.batch=1")
    add("--rung", action="append", choices=RUNGS, help="only this one; may be repeated")
    add("--change", action="append", choices=STATES, help="only this one; may be repeated")
    options = parser.parse_intermixed_args(words)
    rungs, states = options.rung or [*RUNGS], options.change or [*STATES]
    print(render(measure([f"model={options.model}", *options.settings], rungs, states), states))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
