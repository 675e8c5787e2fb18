"""The applied log as ground truth: wraps the state machine of every node, compares what the replicas do, and writes
down what the first of them did."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, cast

from chaos.history import Claimed, Defined, Finished, Fired, QuotaSet, SessionOpened, SessionOver, Truth, Withdrawn
from raftlog.interface import Applied, Applier, Event, Proposal, StateCopy
from statemachine import commands as c
from statemachine.codec import decode_command, decode_event, decode_reply
from statemachine.machine import Machine
from statemachine.records import Job

REPORTS_KEPT = 200


class TruthLog:
    """What all replicas must agree on. `tell` hears of each index once."""

    def __init__(self, now: Callable[[], float], tell: Callable[[bytes], None]) -> None:
        self.truth: list[Truth] = []
        self.parted: list[str] = []
        self.reports: deque[bytes] = deque(maxlen=REPORTS_KEPT)
        """The last commands that reported the end of an attempt."""
        self._now = now
        self._tell = tell
        self._facts: dict[int, bytes] = {}
        self._names: set[tuple[str, int, int]] = set()

    @property
    def last_index(self) -> int:
        return len(self._facts)

    def applied(self, node: str, index: int, proposal: Proposal | None, applied: Applied) -> None:
        fact = _fact(proposal, applied)
        known = self._facts.setdefault(index, fact)
        if known != fact:
            self.parted.append(f"{node} applied another entry, or to another effect, at {index} than the first node")
        elif known is fact:
            self._tell(fact)
            if proposal is not None:
                self._write_down(index, proposal, applied)

    def _write_down(self, index: int, proposal: Proposal, applied: Applied) -> None:
        name = (proposal.node, proposal.incarnation, proposal.seq)
        if name in self._names:
            return  # a repeat: answered as the first time, without effect
        self._names.add(name)
        for content, reply in zip(proposal.commands, applied.replies, strict=True):
            command = decode_command(content)
            if isinstance(command, c.Finish):
                self.reports.append(content)
            self.truth.extend(_of_command(index, self._now(), command, decode_reply(reply)))
        for event in applied.events:
            self.truth.extend(_of_event(index, self._now(), event))


def _fact(proposal: Proposal | None, applied: Applied) -> bytes:
    digest = blake2b(digest_size=16)
    parts: Sequence[object] = () if proposal is None else (proposal.node, proposal.incarnation, proposal.seq)
    digest.update(repr(parts).encode())
    for command in () if proposal is None else proposal.commands:
        digest.update(command)
    for reply in applied.replies:
        digest.update(reply)
    for topic, body in applied.events:
        digest.update(topic.encode() + body)
    return digest.digest()


def _of_command(index: int, at_s: float, command: c.Command, reply: c.AnyReply) -> Sequence[Truth]:
    if isinstance(command, c.Fire) and isinstance(reply, c.FireReply):
        return [
            _fired(index, at_s, item) for item, code in zip(command.items, reply.codes, strict=False) if code == "ok"
        ]
    if isinstance(command, c.PutTeam) and reply.code == "ok":
        return [QuotaSet(index=index, team=command.team.team, max_concurrent=command.team.max_concurrent)]
    if isinstance(command, c.PutJob) and reply.code == "ok":
        return [_defined(index, command.job)]
    if isinstance(command, c.Finish):
        outcome = command.outcome.value
        return [Finished(index=index, run_id=command.run_id, token=command.token, outcome=outcome, code=reply.code)]
    if isinstance(command, c.Withdraw):
        return [Withdrawn(index=index, run_id=command.run_id, token=command.token, code=reply.code)]
    if isinstance(command, c.OpenSession) and reply.code == "ok":
        room = command.slots + command.ahead
        return [SessionOpened(index=index, at_s=at_s, node=command.node, incarnation=command.incarnation, room=room)]
    return ()


def _defined(index: int, job: Job) -> Defined:
    return Defined(
        index=index,
        job_id=job.job_id,
        version=job.version,
        first_ms=job.first_due_ms,
        misfire_grace_s=job.misfire_grace_s,
    )


def _fired(index: int, at_s: float, item: c.FireItem) -> Fired:
    return Fired(
        index=index,
        at_s=at_s,
        job_id=item.job_id,
        runs_ms=[run.due_ms for run in item.runs],
        version=item.version,
        skips=[(skip.from_ms, skip.until_ms, skip.count, skip.reason) for skip in item.skips],
    )


def _of_event(index: int, at_s: float, event: Event) -> Sequence[Truth]:
    match decode_event(event.body):
        case c.RunClaimed() as claim:
            return [
                Claimed(
                    index=index,
                    at_s=at_s,
                    run_id=claim.run_id,
                    job_id=claim.job_id,
                    token=claim.token,
                    attempt=claim.attempt,
                    attempts_max=claim.attempts_max,
                    node=event.topic,
                    session=claim.session,
                    release_ms=claim.release_ms,
                )
            ]
        case c.SessionEnded(node=node, incarnation=incarnation):
            return [SessionOver(index=index, at_s=at_s, node=node, incarnation=incarnation)]
    return ()


class WitnessedMachine:
    """The state machine of one node, under observation. `charge` is told of each apply: it takes time."""

    def __init__(self, node: str, environment: Any, log: TruthLog, charge: Callable[[], None]) -> None:
        self._node = node
        self._machine = cast(Applier, Machine(environment))
        self._log = log
        self._charge = charge

    def applied_index(self, transaction: Any) -> int:
        return self._machine.applied_index(transaction)

    def incarnation_of(self, transaction: Any, node: str) -> int:
        return self._machine.incarnation_of(transaction, node)

    def apply(self, transaction: Any, *, index: int, proposal: Proposal | None) -> Applied:
        applied = self._machine.apply(transaction, index=index, proposal=proposal)
        self._charge()
        self._log.applied(self._node, index, proposal, applied)
        return applied

    def copy_state(self) -> StateCopy:
        return self._machine.copy_state()

    def receive(self, transaction: Any, chunk: bytes) -> bool:
        return self._machine.receive(transaction, chunk)

    def install(self, transaction: Any, *, index: int) -> bool:
        return self._machine.install(transaction, index=index)

    def discard(self, transaction: Any) -> bool:
        return self._machine.discard(transaction)
