"""The command line: `python run.py mode=reduce-overhead dtype=bf16`, with -m for sweeps.

Composing collects requests; measuring starts once all of them are known to be valid.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper
from omegaconf import DictConfig

from bench import command_line, overrides, suggestions
from bench.complaints import CONFIGURATION_ERRORS, explain
from bench.config import Request, request
from bench.records import UsageError
from bench.schema import register

register()

# Hydra composes each job of a sweep to see that it can be, and then again to start it. Here nothing
# is measured before all of them are composed, so that once is enough: 0.1 s saved for each. It
# takes a moment because Hydra divides by that.
Sweeper.validate_batch_is_legal = lambda self, batch: time.sleep(1e-6)  # type: ignore[method-assign]

_instantiate_sweeper = Plugins.instantiate_sweeper


def _checked_sweeper(plugins: Plugins, **parts: Any) -> Sweeper:
    """Another launcher loses the requests that composing collects, wherever it was chosen."""
    overrides.check_plugins(parts["config"].hydra)
    return _instantiate_sweeper(plugins, **parts)


Plugins.instantiate_sweeper = _checked_sweeper  # type: ignore[assignment, method-assign]

CONF = str(suggestions.CONF)

INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM
UNHEARD = 128 + signal.SIGPIPE


def main() -> int:
    """Exit status: 0 all ok or skipped, 1 any other, 2 nothing measured, 128 + n by a signal."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        requests = composed()
        status = measure(requests) if requests else 0
        sys.stdout.flush()
        return status
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # `... | head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
        return UNHEARD
    except OSError as error:
        print(f"error: {_which(error)}; the runs that were finished are kept", file=sys.stderr)
        return 1
    except KeyboardInterrupt as stop:
        print("stopped")
        return stopped(stop)


class Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a sweep as cleanly as Ctrl-C does."""


def _terminate(signum: int, frame: object) -> None:
    raise Terminated


def _which(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename else str(error)


def stopped(by: KeyboardInterrupt) -> int:
    """Exit status after a signal: 128 and its number, as shells count."""
    return TERMINATED if isinstance(by, Terminated) else INTERRUPTED


def composed() -> list[Request]:
    """The jobs that the command line asks for; raises one UsageError that names all culprits.

    None where Hydra prints something instead: --help, --cfg and the like.
    """
    requests: list[Request] = []
    problems: list[str] = []

    @hydra.main(version_base="1.3", config_path=CONF, config_name="config")
    def compose(config: DictConfig) -> None:
        try:
            requests.append(request(config, HydraConfig.get()))
        except UsageError as problem:
            problems.append(str(problem))
        except CONFIGURATION_ERRORS as error:
            problems.append(explain(error, sys.argv[1:]))

    # argparse wants options before the first override
    sys.argv[1:] = sorted(sys.argv[1:], key=command_line.is_override)
    options = command_line.check(sys.argv[1:])
    os.environ["HYDRA_FULL_ERROR"] = "1"  # exceptions reach us; explain() shortens them
    try:
        compose()
    except CONFIGURATION_ERRORS as error:
        raise UsageError(explain(error, sys.argv[1:])) from error
    except BrokenPipeError:
        raise
    except OSError as error:  # Hydra makes its folders under results_dir before it calls us
        problem = f"{_which(error)}; results_dir must be a folder that can be written"
        raise UsageError(problem) from error
    except NameError as error:  # Ctrl-C as Hydra opens a file: it then closes what is not open
        if isinstance(error.__context__, KeyboardInterrupt):
            raise error.__context__ from None
        raise
    if problems:
        raise UsageError("\n".join(dict.fromkeys(problems)))
    if not requests and not command_line.prints_only(options):
        raise UsageError("these settings make no case; a sweep needs a value of each")
    for key in ("order", "resume", "retry"):
        values = dict.fromkeys(str(request.config[key]).lower() for request in requests)
        if len(values) > 1:
            raise UsageError(f"{key}={','.join(values)}: there is one {key} for the whole command")
    return requests


def measure(requests: Sequence[Request]) -> int:
    """Measures what is not there yet, then shows the table and where everything is."""
    from bench import jobs, releases, sweep

    asked = requests[0]
    todo = jobs.prepare(requests)
    if not asked.sweep and todo[0].objection:
        raise UsageError(f"mode={todo[0].case.variant.mode.name}: {todo[0].objection}")
    if warning := releases.warning(todo[0].environment.torch_version):
        print(warning)  # not to stderr: whoever keeps the table keeps what qualifies it
    print(sweep.heading(todo))
    run_ids: list[str] = []
    try:
        for run_id in sweep.run(todo, asked.order, asked.resume, asked.retry):
            run_ids.append(run_id)
        return show(todo[0].study_folder, run_ids, asked.sweep)
    except KeyboardInterrupt as stop:
        if 0 < len(run_ids) < len(todo):
            show(todo[0].study_folder, run_ids, asked.sweep)
        print(f"stopped after {len(run_ids)} of {len(todo)}; a sweep goes on from there")
        return stopped(stop)


def show(study: Path, run_ids: Sequence[str], is_sweep: bool) -> int:
    """Prints the rows of these runs and what to do next; returns the exit status.

    Whatever else the study holds, every one of these runs counts: a case that was measured several
    times, by several seeds or replicates, is one row, and those of its runs that went wrong are
    named below the table.
    """
    from analysis import metrics, rows, table
    from analysis.study import read

    runs = read(study).table
    mine = runs[runs["run_id"].isin(run_ids)]
    derived = metrics.derive(rows.latest(runs, among=run_ids))
    print("\n".join([table.summary(derived, folder=study), *table.not_shown(mine, derived)]))
    if is_sweep:
        from analysis import report

        print(f"report   {report.write(study)}")
    print(f"results  {study / 'runs'}")
    print(f"next     python -m analysis.{'table' if is_sweep else 'report'} {study}")
    unread = set(run_ids) - set(mine["run_id"])
    return 0 if set(mine["status"]) <= {"ok", "skipped"} and not unread else 1


if __name__ == "__main__":
    sys.exit(main())
