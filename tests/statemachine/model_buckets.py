"""The model's buckets."""

from __future__ import annotations

from statemachine import commands as c
from tests.statemachine.model_state import ModelState


class ModelBuckets(ModelState):
    """Which node fires what."""

    def assign_buckets(self, command: c.AssignBuckets) -> c.Reply:
        codes = tuple(self.move(move) for move in command.moves)
        if "ok" in codes:
            self.events.append(("*", c.BucketsMoved()))
        return c.AssignReply(codes=codes)

    def move(self, move: c.BucketMove) -> str:
        _, epoch = self.buckets.get(move.bucket, (None, 0))
        if move.expected_epoch != epoch:
            return "stale_epoch"
        if move.node is not None:
            session = self.sessions.get(move.node)
            if session is None or not session.live:
                return "unknown_session"
            if session.draining:
                return "draining"
            if not session.takes_buckets:
                return "takes_no_buckets"
        self.buckets[move.bucket] = (move.node, epoch + 1)
        return "ok"
