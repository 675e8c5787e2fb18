"""What a process of a node says on standard error: a line a record, for people or as JSON."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime

import msgspec

TEXT_FORMAT = "%(asctime)s %(levelname)-7s %(node)s %(name)s: %(message)s"


def set_up_logging(*, node: str, level: str, log_format: str) -> None:
    """Configure the root logger of this process; `log_format` is 'text' or 'json'."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if log_format == "json" else logging.Formatter(TEXT_FORMAT))
    handler.addFilter(_NodeName(node))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


class _NodeName(logging.Filter):
    """Stamps every record with the node, since several may write to one place."""

    def __init__(self, node: str) -> None:
        super().__init__()
        self._node = node

    def filter(self, record: logging.LogRecord) -> bool:
        record.node = self._node
        return True


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "node": getattr(record, "node", ""),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()
