"""What a team may be told to use, and how it is shown. Users take these from interface.py."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from statemachine.records import Notify, Team


class TeamDraft(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of PUT /v1/teams/{team}: what the team may use from now on. Absent fields have the defaults shown."""

    max_concurrent: int | None = None
    weight: int = 1
    max_jobs: int | None = None
    notify: Notify | None = None
    keep_runs: int | None = None
    keep_days: float | None = None
    """Defaults of the team's jobs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TeamView:
    """A team's settings (version 0: it has none of its own), the jobs it has, and the claims that nodes hold of its
    runs."""

    team: Team
    jobs: int
    held: int
