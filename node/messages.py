"""A notification as the message that its receiver gets: JSON in the form of Standard Webhooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from node.work import rfc3339
from statemachine.history_records import Notification
from statemachine.keys import parse_run_id

USER_AGENT = "Horae"


def message_id(notification: Notification) -> str:
    """The same at every try, on whichever node: by it a receiver tells a repeat."""
    return f"{notification.run_id}.{notification.event}.{notification.number}"


def headers_of(notification: Notification, now_ms: int) -> Mapping[str, str]:
    """What goes with the body."""
    return {
        "Content-Type": "application/json",
        "User-Agent": USER_AGENT,
        "webhook-id": message_id(notification),
        "webhook-timestamp": str(now_ms // 1000),
    }


def body_of(notification: Notification) -> bytes:
    """What is told. docs/notifications.md explains the fields; all of them are always there."""
    key = parse_run_id(notification.run_id)
    assert key is not None, "only runs are told of"
    data: dict[str, Any] = {
        "job_id": notification.job_id,
        "job_name": notification.job_name,
        "team": notification.team,
        "run_id": notification.run_id,
        "due_at": rfc3339(key.due_ms),
        "attempt": notification.attempt,
        "reason": notification.reason,
        "detail": notification.detail,
        "consecutive_failures": notification.failures,
        "late_s": None if notification.late_ms is None else notification.late_ms / 1000,
    }
    message = {"type": f"run.{notification.event}", "timestamp": rfc3339(notification.at_ms), "data": data}
    return msgspec.json.encode(message)
