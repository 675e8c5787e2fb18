"""One log line for what was refused, never a flood of them: a hostile peer must not be able to fill the disk."""

from __future__ import annotations

import logging
from collections.abc import Callable

LINES_BURST_MAX = 10
LINE_PERIOD_S = 1.0
"""After the burst, one line in this time; the next line says how many were left out."""


class RefusalLog:
    """Warnings through a token bucket."""

    def __init__(self, logger: logging.Logger, clock: Callable[[], float]) -> None:
        self._logger = logger
        self._clock = clock
        self._tokens = float(LINES_BURST_MAX)
        self._filled_s = clock()
        self._left_out = 0

    def warning(self, line: str) -> None:
        self._fill()
        if self._tokens < 1:
            self._left_out += 1
            return
        self._tokens -= 1
        suffix = f" ({self._left_out} such lines left out)" if self._left_out else ""
        self._left_out = 0
        self._logger.warning("%s%s", line, suffix)

    def _fill(self) -> None:
        now_s = self._clock()
        self._tokens = min(LINES_BURST_MAX, self._tokens + (now_s - self._filled_s) / LINE_PERIOD_S)
        self._filled_s = now_s
