"""Imported first by the `horae` command: from then on Ctrl-C ends it without a traceback, while it still imports too.

Later click turns it into "Aborted!", and a node or a demo into leaving in order.
"""

from __future__ import annotations

import sys
from types import TracebackType

_shown = sys.excepthook


def _show_unless_interrupted(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        _shown(kind, error, traceback)


sys.excepthook = _show_unless_interrupted
