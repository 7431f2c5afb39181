"""The states of a sweep's workers, and of its jobs whose worker has not joined yet."""

from __future__ import annotations

from collections.abc import Mapping

from modescope.bench.cluster import members, submissions
from modescope.bench.cluster.engine import Engine
from modescope.bench.cluster.folder import Folder
from modescope.bench.cluster.members import GONE, PENDING, RUNNING, Member, State
from modescope.bench.cluster.submissions import Submissions

SUBMITTING = "submitted now"
"""Stands for the workers that another driver is submitting."""


def learn(folder: Folder, engine: Engine, own: Submissions) -> dict[str, State]:
    """The states by the workers' names; while the engine does not answer, all jobs live."""
    known, name = members.every(folder), engine.name
    states: dict[str, State] = {}
    if own.look():
        states[SUBMITTING] = State(PENDING)
    jobs = {m.job: None for m in known.values() if m.scheduler == name and m.job}
    jobs |= submissions.jobs(folder)
    answer = engine.states(jobs)
    for member in known.values():
        if member.scheduler != name or member.job is None:
            states[member.name] = members.state(folder, member)
        elif answer is None:
            states[member.name] = State(RUNNING)
        else:
            states[member.name] = of_engine(folder, engine, member, answer[member.job])
    joined = {member.job for member in known.values() if member.scheduler == name}
    for job in jobs.keys() - joined:
        states[f"{name}-{job}"] = answer[job] if answer else State(PENDING)
    return states


def of_engine(folder: Folder, engine: Engine, member: Member, state: State) -> State:
    """The engine's word; of a process on this machine, the process itself."""
    if engine.detaches:
        return state
    process = member.process.state()
    if process is None:
        return members.state(folder, member)
    return process if process.kind == RUNNING or state.kind == RUNNING else state


def living(states: Mapping[str, State]) -> list[str]:
    """The names of those that are not gone."""
    return [name for name, state in states.items() if state.kind != GONE]
