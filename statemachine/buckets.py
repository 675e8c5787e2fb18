"""Buckets: which node fires which jobs. Each move is a compare-and-set on the bucket's epoch, and raises it."""

from __future__ import annotations

from statemachine.commands import AssignBuckets, AssignReply, BucketMove, BucketsMoved
from statemachine.records import BUCKETS, BucketOwner
from statemachine.work import EVERY_NODE, Work


def assign_buckets(work: Work, command: AssignBuckets) -> AssignReply:
    """Apply each move alone: one verdict a move."""
    codes = tuple([_move(work, move) for move in command.moves])
    if "ok" in codes:
        work.emit(EVERY_NODE, BucketsMoved())
    return AssignReply(codes=codes)


def _move(work: Work, move: BucketMove) -> str:
    if not 0 <= move.bucket < BUCKETS:
        return "malformed"
    owner = work.bucket(move.bucket)
    if owner.epoch != move.expected_epoch:
        return "stale_epoch"
    seat = None if move.node is None else work.seats.get(move.node)
    if move.node is not None and (seat is None or not seat.session.live):
        return "unknown_session"
    if seat is not None and seat.session.draining:
        return "draining"
    if seat is not None and not seat.session.takes_buckets:
        return "takes_no_buckets"
    work.put_bucket(move.bucket, BucketOwner(node=move.node, epoch=owner.epoch + 1))
    return "ok"
