"""The named limits of the state machine. Whatever is beyond one is refused as `malformed`, the same on every replica.

They are part of the replicated behaviour: changing one changes what a command means, and needs a new format version.
"""

from __future__ import annotations

TIME_MS_MAX = 2**47 - 1
"""The year 6429; a time in milliseconds has to fit the 12 hex digits of a run id."""
INT_MAX = 2**53
"""Of counts and sequence numbers: what every JSON reader takes exactly."""

JOB_ID_LENGTH_MAX = 40
"""A ULID has 26."""
NONCE_LENGTH_MAX = 64
RUN_ID_LENGTH_MAX = 12 + 1 + JOB_ID_LENGTH_MAX + 2 + NONCE_LENGTH_MAX
NAME_LENGTH_MAX = 200
TEAM_LENGTH_MAX = 64
"""Of a team's name, in characters: four bytes each still fit an LMDB key (511 bytes)."""
TEAMS_MAX = 10_000
"""Teams with settings of their own; there may be more without."""
WEIGHT_MAX = 1000
NODE_LENGTH_MAX = 64
ADDRESS_LENGTH_MAX = 300
LABEL_LENGTH_MAX = 256
LABELS_MAX = 32
TAGS_MAX = 32
"""Of a session; names and values as long as a label's."""
RUN_ON_MAX = 8
"""Tags that a job may ask for."""
KIND_SLOTS_MAX = 16
EXPRESSIONS_MAX = 16
EXPRESSION_LENGTH_MAX = 512
WORD_LENGTH_MAX = 64
"""Zones, versions and other short words."""
URL_LENGTH_MAX = 4096
NOTIFY_EVENTS_MAX = 5
HEADERS_MAX = 64
HEADER_LENGTH_MAX = 8192
IMAGE_LENGTH_MAX = 512
NETWORK_LENGTH_MAX = 256
ARGUMENTS_MAX = 256
ARGUMENT_LENGTH_MAX = 8192
VARIABLES_MAX = 256
"""Of a target's environment."""
VARIABLE_LENGTH_MAX = 8192
PATH_LENGTH_MAX = 4096
RESOURCE_MAX = 2**40
"""Of a target's own limits (MiB, seconds, files): fits the kernel's 64 bits in bytes."""
SECRET_LENGTH_MAX = 512
ARGS_BYTES_MAX = 64 * 1024
IDEMPOTENCY_KEY_LENGTH_MAX = 256
DIGEST_BYTES_MAX = 64
DETAIL_LENGTH_MAX = 1000
"""Longer details of an attempt are cut, not refused: a refused Finish would leave the run without an end."""

RETRIES_MAX = 1000
ATTEMPTS_KEPT_MAX = 50
"""Attempts that a run remembers: the last ones."""
DAY_S = 24 * 3600
DURATION_S_MAX = 400.0 * DAY_S
MULTIPLIER_MAX = 100.0
SLOTS_MAX = 1_000_000

CLOCK_OFF_MS = 15_000
"""How far a node's wall clock may be from the cluster's: more than a clock that is set by the network ever is, and more
than the cluster's reading lags behind a right one while sessions are renewed (a TTL and an election)."""
FIRE_AHEAD_MAX_MS = 90_000
"""How far beyond the cluster's clock a tick may be fired: the longest look-ahead, what a job is accounted for beyond
that, and CLOCK_OFF_MS."""
ALONE_RENEWALS = 2
"""Renewals after which the one session that is open speaks for the cluster, if its clock says that much time passed."""
LEFT_ALONE_RENEWALS = 20
"""The same for a session that others have left alone: some 30 s, so that two nodes may restart beside a wrong clock."""
FIRE_SKIPS_MAX = 64
"""Skip ranges of one item of a Fire."""
MOVES_MAX = 1024
"""Moves of one AssignBuckets: every bucket once."""
BACKFILLS_ACTIVE_MAX = 256
BACKFILL_SLICE_MAX = 64
"""Runs that one step of a backfill may make."""
BACKFILL_OUTSTANDING_MAX = 64
"""Runs of one backfill that are not over at once."""
CATCH_UP_PARKED_MAX = 64
"""Parked runs of a job beyond which no further missed ticks are made good: the next slice has to wait."""
CALENDARS_MAX = 1000
CALENDAR_NAME_LENGTH_MAX = 64
CALENDAR_SPANS_MAX = 2000
JOB_CALENDARS_MAX = 8
DAY_MAX = 3_652_059
"""31 December 9999, counted from 1 January of the year 1."""
PROPOSAL_COMMANDS_MAX = 65_536
RESULTS_KEPT_MAX = 4096
"""Results kept for a proposer that acknowledges none; the oldest go first (a repeat is then `stale_proposal`)."""
JOB_VERSIONS_KEPT_MAX = 16
"""Earlier definitions kept of a job, for its runs that are still being retried."""
OVERLAP_SCAN_MAX = 1000
"""Newest runs that are looked at when a job begins to be judged; older ones no longer count."""
JOB_CONCURRENT_MAX = 1000
"""The highest max_concurrent of a job: its active runs are read whenever one of them is released."""
PARKED_MAX = 1000
"""Runs of a job that others of it hold back; what comes beyond is skipped(overlap)."""
TIMED_OUT_POINTS, NEARLY_POINTS, IN_TIME_POINTS = 10, 5, -5
"""What an attempt adds to the score of its target: timed out, nearly did, succeeded well in time."""
NEARLY_TIMED_OUT = 0.9
"""Of its timeout_s: an attempt that took longer was nearly timed out."""
LASTING_MS = 1000
"""An attempt that took less holds no slot worth speaking of."""
TARGET_POINTS_MAX = 60
SLOW_FROM, SLOW_UNTIL = 30, 10
"""A target is slow from the first score on until it is no higher than the second: three timeouts in a row, or more than
a third of its attempts."""
SLOW_SHARE, SLOW_SHARE_ALL = 4, 2
"""A slow target holds a quarter of the cluster's slots at most, and all slow ones together a half (one slot at
least)."""
SLOW_BUCKETS = 64
"""Slow targets share lanes and room in so many groups."""
AGED_AFTER_MS = 5 * 60 * 1000
"""How long after its release a run that still waits counts one class higher."""
AGING_LANES_MAX = 64
AGING_RUNS_MAX = 64
"""Lanes that a renewal looks at for such runs, and how many it moves in each."""
HANDOUT_MAX = 2048
"""Runs that one apply hands out or finds superseded; the next apply goes on. Keeps an apply within some 30 ms."""
SETTLED_MAX = 2048
"""Ends of runs that one renewal settles: some 30 ms. Three nodes renew twice a second."""
PRUNED_RUNS_MAX = 512
"""Runs that one PruneRuns removes: some 10 ms."""
PRUNE_SCAN_MAX = 2048
"""Rows of a job that are looked at for what may go, before the next job's turn comes."""
PRUNE_AFTER_MS = 60_000
"""So long a run stays after its end, whatever is asked for: its end may not be settled yet, and late results of it
should still be told apart."""
COMPLETED_SCAN_MAX = 1000
"""Newest runs, of either class, that are looked at to tell whether all of a job's runs are over."""
KEEP_RUNS_MAX = 10_000
OUTBOX_MAX = 10_000
"""Notifications that are owed at once; what would be more is counted as failed, and not told."""
OUTBOX_TEAM_MAX = 1_000
"""Of those, a team's: a receiver that is dead must not fill the outbox for the others."""
NOTIFICATION_TRIES_MAX = 15
NOTIFICATION_BACK_OFF_MS = 5_000
"""From a failed try to the next, doubled each time."""
NOTIFICATION_BACK_OFF_MAX_MS = 3_600_000
"""With the tries: a receiver may be away for about six hours."""
LATE_NOTED_MS = 1000
"""A run that lasts is noted at its start if that was later than this; otherwise at its end."""
FULL_TEAMS_MAX = 400
"""Teams whose quota is full that one apply passes over in a class, a seek each; the next apply goes on from there. The
classes below have their turn meanwhile."""
IDEMPOTENCY_KEPT_MS = 7 * 24 * 3600 * 1000
IDEMPOTENCY_PRUNE_MAX = 2
"""Outdated idempotency keys that one new key removes: twice what it adds, so the table shrinks."""
RUNS_SCAN_MAX = 10_000
"""Rows that one page of a job's runs looks at before it answers what it has and where to go on."""
