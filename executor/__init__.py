"""Runs ONE attempt on this machine: an assignment in, an outcome out."""

from executor.admission import check_target
from executor.registry import build_executors, describe_missing
from executor.webhook import WebhookSender

__all__ = ["WebhookSender", "build_executors", "check_target", "describe_missing"]
