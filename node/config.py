"""Every setting of a node in one frozen value: the unit in the name, the default and its reason at the field.

`ClusterSettings` must be the same on all nodes (a lease is judged by one node and kept by another); the rest is each
node's own. `validate()` checks the relations between the fields: one number can be fine alone and wrong beside another.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from node.text_rules import label_fault
from raftlog.auth import SECRET_BYTES_MIN
from raftlog.config import MIB, RaftConfig
from statemachine.limits import CLOCK_OFF_MS, FIRE_AHEAD_MAX_MS, TAGS_MAX

SLOTS_DEFAULT = 256
"""Attempts that run on a node at once: enough to keep callbacks of 100 ms at 2,500 a second."""
CONTAINER_SLOTS_DEFAULT = 32
"""Containers that run on a node at once: each costs its memory, and the engine's time to start it."""
AHEAD_DEFAULT = 50_000
"""Claims that a node holds ahead of their time: a third of a burst of 150,000 a node, about 50 MB."""
RUNS_KEEP_DAYS_DEFAULT = 90.0
"""As long as people ask for what happened; 50 GB a day at full size, so a big cluster keeps less."""
RAFT_LOG_MIB_DEFAULT = RaftConfig().log_keep_bytes // MIB
RAFT_LOG_MIB_MAX = 4_096
"""Eight times as much may stand while a copy of the state is under way: half of the map that log and state share."""
LOG_MIB_DEFAULT = 2_048
"""Some two million logs of a few lines, or two thousand of the longest that is kept, unpacked."""
DRAIN_REST_S = 3.0
"""Of `drain_s`: a second each to tell the cluster, to hand the buckets over, and to end the session."""
LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("text", "json")
COVER_MS = 2_500
"""A job that fires is accounted for this much further than the look-ahead: a job of every second then costs an item
each few seconds, not one a tick."""
LOG_STORE = re.compile(r"s3://(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(?P<prefix>[0-9A-Za-z!_.*'()/-]*))?\Z")
LOG_STORE_ENDPOINT = re.compile(r"https?://[^/\s@?#]+/?\Z")
NODE_ID = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}\Z")
CALLBACK_URL = re.compile(r"https?://[^/?#\s]+(/[^?#\s]*[^/?#\s])?")
"""A base that a path can be appended to."""


class ConfigError(Exception):
    """A setting, or the relation between two, cannot work; the message is one line for whoever started the node."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterSettings:
    """What all nodes must agree on."""

    session_ttl_s: float = 6.0
    """How long the leader waits for a renewal before it takes a node's claims away: a killed node's runs restart within
    10 s (TTL + election + poll), and a pause of a few seconds costs nothing."""
    renew_every_s: float = 1.5
    """Four renewals a TTL, so that two lost ones in a row do no harm."""
    fence_fraction: float = 0.7
    """A node starts nothing later than this part of the TTL after the send of its last acknowledged renewal."""
    kill_fraction: float = 0.9
    """By this part of the TTL it has killed what it runs."""
    kill_time_s: float = 0.3
    """How long the killing itself may take: it begins that much earlier."""
    drift_fraction: float = 0.01
    """How far two nodes' clocks may run apart in speed; a hundred times worse than a usual quartz."""
    suspect_after_s: float = 2.0
    """A node without a renewal for so long loses its buckets: longer than one renewal and a slow commit."""
    grant_after_stall_s: float = 1.0
    """A leader that did not look for so long cannot tell a dead node from its own absence: all get a full TTL."""
    look_ahead_s: float = 5.0
    """Ticks become claimed runs this long before they are due: longer than an election, so that one loses no tick."""
    look_ahead_max_s: float = 60.0
    """How far the look-ahead may stretch before a big burst."""
    fires_per_s: int = 5_000
    """Ticks a second that a slow cluster turns into runs; how far the look-ahead stretches is computed from it."""

    @property
    def fence_s(self) -> float:
        return self.session_ttl_s * self.fence_fraction

    @property
    def kill_s(self) -> float:
        return self.session_ttl_s * self.kill_fraction - self.kill_time_s

    def faults(self) -> list[str]:
        """What is wrong with the relations between these settings."""
        checks = (
            (
                self.kill_s + self.kill_time_s + self.session_ttl_s * self.drift_fraction < self.session_ttl_s,
                "kill_fraction: killing must be over, with the drift of the clocks, before session_ttl_s",
            ),
            (
                self.fence_s < self.kill_s,
                "fence_fraction: nothing may start once killing has begun (kill_fraction - kill_time_s)",
            ),
            (
                self.renew_every_s * 2 < self.fence_s,
                "renew_every_s: at least two renewals must fit before the fence, or one slow commit stops a node",
            ),
            (
                self.renew_every_s < self.suspect_after_s,
                "suspect_after_s: must be longer than renew_every_s, or every node is always suspect",
            ),
            (self.suspect_after_s < self.session_ttl_s, "suspect_after_s: must be shorter than session_ttl_s"),
            (
                self.suspect_after_s < self.look_ahead_s,
                "look_ahead_s: must be longer than suspect_after_s, or a dead owner's ticks fire late",
            ),
            (
                self.grant_after_stall_s < self.suspect_after_s,
                "grant_after_stall_s: must be shorter than suspect_after_s, or a stalled leader suspects the healthy",
            ),
            (
                self.look_ahead_max_s * 1000 + COVER_MS + CLOCK_OFF_MS <= FIRE_AHEAD_MAX_MS,
                "look_ahead_max_s: the cluster refuses what is fired so long before it is due",
            ),
            (self.look_ahead_s <= self.look_ahead_max_s, "look_ahead_max_s: must not be shorter than look_ahead_s"),
            (self.fires_per_s > 0, "fires_per_s: must be positive"),
        )
        return [fault for holds, fault in checks if not holds]


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeConfig:
    """One node's settings. Limits bound memory and the time that one step may take."""

    node: str
    http: str
    raft: str
    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    callback_url: str | None = None
    """Where targets reach the API, if that is elsewhere than at `http`: a balancer of all nodes, say."""
    slots: int = SLOTS_DEFAULT
    ahead: int = AHEAD_DEFAULT
    kind_slots: Mapping[str, int] = field(default_factory=dict)
    """Of the slots, how many a kind of targets may take; a kind that is not named may take all."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """What this node has and others may not, for the `run_on` of jobs."""
    takes_buckets: bool = True
    """Whether it fires ticks; a worker-only node runs what others fired."""
    step_every_s: float = 0.1
    """The longest sleep of the loops that act on time; they wake earlier when they know why."""
    duties_every_s: float = 0.25
    """How often the leader looks at sessions and buckets: an eighth of the time to suspicion."""
    rescan_every_s: float = 1.0
    """How often the ticker reads its whole look-ahead again, in case an event was lost."""
    reconcile_every_s: float = 5.0
    """How often the release timers are compared with the claims in the state, for the same reason."""
    quorum_probe_every_s: float = 1.0
    """How often a read barrier proves that this node reaches a majority: /readyz, and how stale local reads are."""
    start_report_after_s: float = 1.0
    """Only attempts that last longer report a start: short ones cost two commands, not three."""
    late_result_grace_s: float = 0.05
    """Between the order to kill and the killing, so that results which came while the process was paused are still
    read and reported (the state machine refuses and counts them)."""
    propose_timeout_s: float = 5.0
    """How long a proposal of the node itself is retried under the same id."""
    fires_in_flight_max: int = 8
    """Fire commands that wait for their result at once: fills the log's pipeline without hiding its congestion."""
    releases_in_flight_max: int = 1_024
    """Release commands that wait for their result at once."""
    finishes_waiting_max: int = 100_000
    """Results that may wait for the log; beyond it no further attempt starts."""
    drain_s: float = 8.0
    """From SIGTERM until the session has ended. The log's leadership and the API are left to end then, and the whole is
    over within ten seconds: what stops a service usually kills it after that."""
    drain_attempts_s: float = 5.0
    """How long running attempts may take to end by themselves while draining; then they are killed and given back."""
    runs_keep_days: float = RUNS_KEEP_DAYS_DEFAULT
    """Days that runs stay in the history, unless their job or team says something else. Counts beside the leader."""
    logs_keep_days: int = 7
    """Days that the output of attempts is kept."""

    @property
    def api_url(self) -> str:
        """The base URL that targets are told, to complete attempts at."""
        return self.callback_url or f"http://{self.http}"

    def validate(self) -> None:
        """Raises ConfigError naming every relation that does not hold."""
        faults = self.cluster.faults() + [fault for holds, fault in self._own_checks() if not holds]
        if faults:
            raise ConfigError("; ".join(faults))

    def _tag_faults(self) -> list[tuple[str, str, str | None]]:
        return [(name, value, label_fault(name, value)) for name, value in self.tags.items()]

    def _own_checks(self) -> tuple[tuple[bool, str], ...]:
        return (
            (
                NODE_ID.match(self.node) is not None,
                f"node id {self.node!r}: must be 1-63 of a-z 0-9 . _ - and begin with a letter or digit",
            ),
            (
                self.callback_url is None or CALLBACK_URL.fullmatch(self.callback_url) is not None,
                f"callback_url {self.callback_url!r}: must be an absolute URL without a slash at its "
                "end, such as https://horae.example",
            ),
            (1 <= self.slots <= 100_000, "slots: must be 1 to 100,000"),
            (0 <= self.ahead <= 1_000_000, "ahead: must be 0 to 1,000,000"),
            *(
                (0 <= most <= self.slots, f"{kind}_slots: must be 0 to slots ({self.slots})")
                for kind, most in self.kind_slots.items()
            ),
            (len(self.tags) <= TAGS_MAX, f"tag: a node may have {TAGS_MAX} tags"),
            *((fault is None, f"tag {name}={value}: {fault}") for name, value, fault in self._tag_faults()),
            (
                self.duties_every_s * 2 <= self.cluster.grant_after_stall_s,
                "duties_every_s: must be well below grant_after_stall_s, or the leader always thinks it stalled",
            ),
            (
                self.step_every_s + self.late_result_grace_s < self.cluster.kill_time_s,
                "step_every_s: must, with late_result_grace_s, be below kill_time_s, or killing begins too late",
            ),
            (
                self.drain_attempts_s + DRAIN_REST_S <= self.drain_s,
                f"drain_attempts_s: must leave {DRAIN_REST_S:g} s of drain_s for telling, handing over and reporting",
            ),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ServeSettings:
    """What `horae serve` is told. `peers` maps the members' ids to their raft addresses. It includes this node, unless
    that is a worker: no member, so it votes for nothing and listens for no other node."""

    data_dir: Path
    node_id: str
    http: str
    raft: str
    peers: Mapping[str, str]
    cluster_secret_file: Path
    bootstrap: bool = False
    """True at the very first start of a new cluster only: an empty store may then vote."""
    worker: bool = False
    """Run what the members fire, and follow their log, as no member of the cluster."""
    insecure: bool = False
    """Listen elsewhere than on loopback although there are no API tokens yet."""
    slots: int = SLOTS_DEFAULT
    container_slots: int = CONTAINER_SLOTS_DEFAULT
    command_slots: int | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    ahead: int = AHEAD_DEFAULT
    callback_url: str | None = None
    """Where targets reach the API to complete attempts: NodeConfig's."""
    keep_days: float = RUNS_KEEP_DAYS_DEFAULT
    """How long runs stay in the history, in days. The same on every node: whoever leads goes by its own."""
    raft_log_mib: int = RAFT_LOG_MIB_DEFAULT
    """How much of the replicated log is kept, in MiB: a node that was away for longer gets a copy of the state."""
    log_mib: int = LOG_MIB_DEFAULT
    """What the logs of runs may take of this node's disk, in MiB; beyond it those of the runs due first go."""
    log_store: str | None = None
    """Where logs of ended attempts go besides this node's disk: 's3://bucket/prefix'."""
    log_store_endpoint: str | None = None
    """The URL of a server that is not AWS."""
    allow_link_local: bool = False
    """Let jobs call link-local addresses, those of the cloud's metadata among them."""
    allow_commands: bool = False
    """Run programs of this machine for jobs, as this node's user: whoever may create a job can then do what it can."""
    docker_socket: str | None = None
    """Run containers with the engine that listens there: a path, or unix:// and a path."""
    allow_host_network: bool = False
    """Let containers use this machine's own network: what listens on its loopback, and its addresses."""
    access_log: bool = False
    """Log a line a request: at hundreds of requests a second that is most of what a node logs."""
    log_level: str = "info"
    log_format: str = "text"

    def node_config(self) -> NodeConfig:
        return NodeConfig(
            node=self.node_id,
            http=self.http,
            raft="" if self.worker else self.raft,
            callback_url=self.callback_url,
            slots=self.slots,
            ahead=self.ahead,
            kind_slots=self._kind_slots(),
            tags=self.tags,
            takes_buckets=not self.worker,
            runs_keep_days=self.keep_days,
        )

    def _kind_slots(self) -> dict[str, int]:
        """The default of containers is for big machines; a small one has no more of them than slots."""
        containers = self.container_slots
        if containers == CONTAINER_SLOTS_DEFAULT:
            containers = min(containers, self.slots)
        commands = {} if self.command_slots is None else {"command": self.command_slots}
        return {"container": containers} | commands

    def validate(self) -> None:
        """Raises ConfigError. Looks at no file and opens no socket."""
        self.node_config().validate()
        if self.docker_socket is not None:
            socket_path(self.docker_socket)
        check_log_store(self.log_store, self.log_store_endpoint)
        listens = (("http", self.http),) if self.worker else (("http", self.http), ("raft", self.raft))
        for name, address in listens:
            host, _ = split_address(name, address)
            if not self.insecure and not is_loopback(host):
                raise ConfigError(
                    f"{name} {address}: not a loopback address, and there are no API tokens yet; "
                    "--insecure accepts that"
                )
        self._check_place()
        for node, address in self.peers.items():
            if NODE_ID.match(node) is None:
                raise ConfigError(f"peers: {node!r} is not a node id")
            split_address(f"peers {node}", address)
        if len(set(self.peers.values())) != len(self.peers):
            raise ConfigError("peers: two nodes have the same address")

    def _check_place(self) -> None:
        """Whether this node is where its role has it, among the peers or beside them."""
        if self.worker:
            if self.node_id in self.peers:
                raise ConfigError(f"peers: name the members; {self.node_id} is a worker, and so none of them")
            if self.bootstrap:
                raise ConfigError("bootstrap: is for the members' first start; a worker joins a cluster that is there")
        elif self.node_id not in self.peers:
            raise ConfigError(f"peers: must name this node ({self.node_id}) too, unless it is to be a --worker")
        elif self.peers[self.node_id] != self.raft:
            raise ConfigError(f"peers: says {self.node_id}={self.peers[self.node_id]}, but raft is {self.raft}")


def socket_path(address: str) -> str:
    """The path in `unix:///path`, or a path as it is. Raises ConfigError: an engine must be on this machine, or what a
    node that died left there would be out of reach."""
    path = address.removeprefix("unix://")
    if not path.startswith("/"):
        raise ConfigError(f"docker_socket {address!r}: must be a Unix socket, such as unix:///var/run/docker.sock")
    return path


def check_log_store(address: str | None, endpoint: str | None) -> None:
    """Raises ConfigError. What is refused is not repeated: it may hold a password."""
    if address is None and endpoint is not None:
        raise ConfigError("log-store-endpoint: says where the log store is, and there is no --log-store")
    if address is not None and LOG_STORE.match(address) is None:
        raise ConfigError("log-store: must be like s3://bucket or s3://bucket/prefix, without credentials")
    if endpoint is not None and LOG_STORE_ENDPOINT.match(endpoint) is None:
        raise ConfigError("log-store-endpoint: must be like https://host or http://host:port, without credentials")


def split_address(name: str, address: str) -> tuple[str, int]:
    """'host:port' (or '[v6]:port') in parts. Raises ConfigError naming the setting."""
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ConfigError(f"{name} {address!r}: must be HOST:PORT, such as 127.0.0.1:8101")
    return host, int(port)


def is_loopback(host: str) -> bool:
    """True only for what cannot be reached from another machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_secret(path: Path) -> bytes:
    """The cluster secret. Raises ConfigError when the file is missing, unreadable or too short."""
    try:
        secret = path.read_bytes().strip()
    except OSError as error:
        raise ConfigError(f"cluster secret file {path}: {error.strerror or error}") from None
    if len(secret) < SECRET_BYTES_MIN:
        raise ConfigError(f"cluster secret file {path}: must hold at least {SECRET_BYTES_MIN} bytes")
    return secret
