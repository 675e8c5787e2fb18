"""Finding and ending what commands left behind: every process that Horae starts has a mark in its environment, which
whatever it starts inherits, into other process groups and sessions too.

This file is also a program, the guard: it waits until the node that started it is gone, however that ended, and then
ends every process with that node's mark. It imports nothing but the standard library, and starts in some 15 ms.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

MARK = "HORAE_MARK"
"""`cluster/node/incarnation`."""
LOOK_EVERY_S = 0.1
LOOKS_MAX = 50
CLEAN_LOOKS = 4
"""Looks in a row that found nothing before it is believed: a process that is just starting another program has no
environment to be seen for a moment, and one that is just starting another process is two."""
_PROCESSES = Path("/proc")

Environment = dict[str, str]


def end_marked(matches: Callable[[Environment], bool]) -> int:
    """Kill every process of this machine whose environment, as it was started, matches; returns how many.

    Their process groups go with them, so that one that emptied its environment does not stay for that. Only
    processes of this user are seen, which are the ones that can be killed."""
    return sum(_maybe_kill(pid, matches) for pid in _others())


def _others() -> Iterator[int]:
    for entry in _PROCESSES.iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            yield int(entry.name)


def _maybe_kill(pid: int, matches: Callable[[Environment], bool]) -> bool:
    """By a handle that was taken before the look: the number may be another process's by the time of the kill."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        environment = _environment_of(pid)
        if MARK not in environment or not matches(environment):
            return False
        group = os.getpgid(pid)
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        if group != os.getpgrp():
            os.killpg(group, signal.SIGKILL)
    except OSError:
        return False  # it ended, or it is another user's
    finally:
        os.close(handle)
    return True


def _environment_of(pid: int) -> Environment:
    text = (_PROCESSES / str(pid) / "environ").read_bytes().decode(errors="surrogateescape")
    pairs = (entry.partition("=") for entry in text.split("\0") if "=" in entry)
    return {name: value for name, _, value in pairs}


def end_marked_and_wait(matches: Callable[[Environment], bool]) -> None:
    """The same until there are none. Blocks for CLEAN_LOOKS looks at least, LOOKS_MAX at most."""
    clean = 0
    for _ in range(LOOKS_MAX):
        clean = 0 if end_marked(matches) else clean + 1
        if clean == CLEAN_LOOKS:
            return
        select.select((), (), (), LOOK_EVERY_S)


def guard(mark: str) -> None:
    """Until standard input ends, wait; then end what has the mark."""
    while os.read(sys.stdin.fileno(), 4096):
        pass
    end_marked_and_wait(lambda environment: environment[MARK] == mark)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # only the node's end ends it
    with contextlib.suppress(KeyboardInterrupt):
        guard(sys.argv[1])
