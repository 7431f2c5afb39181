"""Ends the claims of workers that are gone, and says why they are."""

from __future__ import annotations

from collections.abc import Mapping

from modescope.bench.cluster import claims, members
from modescope.bench.cluster.claims import Claim
from modescope.bench.cluster.folder import Done, Folder
from modescope.bench.cluster.members import GONE, Member, State
from modescope.bench.cluster.work import Work


def end_claims(folder: Folder, work: Work, states: Mapping[str, State]) -> int:
    """Ends the claims of all workers that are gone; how many tasks were lost by that."""
    lost = 0
    for task, number in claims.open_claims(folder):
        claim = claims.read(folder, task, number)
        state = states.get(claim.worker)
        if state and state.kind == GONE:
            # read now: it may have written how it ended after `states` were learned
            lost += end_claim(folder, work, claim, members.one(folder, claim.worker), state)
    return lost


def end_claim(folder: Folder, work: Work, claim: Claim, member: Member, state: State) -> bool:
    """Ends a claim by its row, or gives it up; whether a row of a lost task was written."""
    if work.exists(claim.run_id):
        reused = claim.row is None
        folder.mark_done(claim.task, Done(claim.run_id, reused, claim.again))
    elif claim.row is None or (member.stopped and member.restart >= claim.restart):
        claims.release(folder, claim)
    else:
        reason = f"its worker on {member.process.host} was lost: {member.failed or state.reason}"
        work.write_lost(claim, reason)
        folder.mark_done(claim.task, Done(claim.run_id, again=claim.again))
        return True
    return False


def why_gone(member: Member | None, state: State) -> str | None:
    """Why a worker has ended, as it says itself, else as its engine does."""
    stopped = member.stopped if member else None
    if member and member.failed:
        return member.failed
    if stopped and stopped not in (members.FINISHED, members.SIGNALLED):
        return stopped
    return state.reason
