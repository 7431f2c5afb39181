"""The command line: `python run.py mode=reduce-overhead dtype=bf16`, with -m for sweeps.

Composing collects requests; measuring starts once all of them are known to be valid.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from bench.complaints import CONFIGURATION_ERRORS, explain
from bench.config import Request, register, request
from bench.records import UsageError

register()

CONF = str(Path(__file__).resolve().parent / "conf")

OVERRIDE = re.compile(r"~|[+~]*\w[\w./@]*=")
"""How an override begins; what begins otherwise is an option of Hydra's or belongs to one."""


def main() -> int:
    """Exit status: 0 all ok or skipped, 1 any other, 2 nothing was measured, 130 interrupted."""
    try:
        requests = composed()
        return measure(requests) if requests else 0  # none: --help, --cfg and the like
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
    except OSError as error:  # Hydra makes its folders under results_dir before it calls us
        reason = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        print(f"error: {reason}; results_dir must be a folder that can be written", file=sys.stderr)
    except KeyboardInterrupt:
        print("stopped; the cases that are done are kept, a sweep goes on from there")
        return 130
    return 2


def composed() -> list[Request]:
    """The jobs that the command line asks for; raises one UsageError that names all culprits."""
    requests: list[Request] = []
    problems: list[str] = []

    @hydra.main(version_base="1.3", config_path=CONF, config_name="config")
    def compose(config: DictConfig) -> None:
        try:
            requests.append(request(config, HydraConfig.get()))
        except UsageError as problem:
            problems.append(str(problem))

    # argparse wants options before the first override
    sys.argv[1:] = sorted(sys.argv[1:], key=lambda argument: bool(OVERRIDE.match(argument)))
    os.environ["HYDRA_FULL_ERROR"] = "1"  # exceptions reach us; explain() shortens them
    try:
        compose()
    except CONFIGURATION_ERRORS as error:
        raise UsageError(explain(error, sys.argv[1:])) from error
    if problems:
        raise UsageError("\n".join(dict.fromkeys(problems)))
    return requests


def measure(requests: Sequence[Request]) -> int:
    """Measures what is not there yet, then shows the table and where everything is."""
    from bench import sweep

    jobs = sweep.prepare(requests)
    if not requests[0].sweep and jobs[0].objection:
        raise UsageError(f"mode={jobs[0].case.variant.mode.name}: {jobs[0].objection}")
    print(sweep.heading(jobs))
    run_ids = list(sweep.run(jobs, resume=requests[0].resume))
    return show(jobs[0].study_folder, run_ids, is_sweep=requests[0].sweep)


def show(study: Path, run_ids: Sequence[str], is_sweep: bool) -> int:
    """Prints the rows of these runs and what to do next; returns the exit status."""
    from analysis import cli, table

    rows = cli.study(study)
    rows = rows[rows["run_id"].isin(run_ids)]
    print(table.summary(rows))
    if is_sweep:
        from analysis import report

        print(f"report   {report.write(study)}")
    print(f"results  {study / 'runs'}")
    print(f"next     python -m analysis.{'table' if is_sweep else 'report'} {study}")
    return 0 if set(rows["status"]) <= {"ok", "skipped"} else 1


if __name__ == "__main__":
    sys.exit(main())
