"""Runs ONE attempt on this machine: an assignment in, an outcome out."""

from executor.admission import check_target
from executor.registry import build_executors, describe_missing

__all__ = ["build_executors", "check_target", "describe_missing"]
