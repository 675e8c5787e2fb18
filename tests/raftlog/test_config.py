from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from raftlog.config import Identity, RaftConfig
from raftlog.pysyncobj_bindings import library_settings


def test_the_defaults_fit() -> None:
    RaftConfig().validate()
    library_settings(RaftConfig()).validate()


@pytest.mark.parametrize(
    ("change", "relation"),
    [
        ({"heartbeat_s": 0.0}, "heartbeat_s > 0"),
        ({"election_min_s": 0.3}, "election_min_s > 3 x heartbeat_s"),
        ({"election_max_s": 0.6}, "election_max_s > election_min_s"),
        ({"leader_fallback_s": 0.2}, "leader_fallback_s > 3 x heartbeat_s"),
        ({"leader_fallback_s": 3.5}, "leader_fallback_s <= 3"),
        ({"connection_timeout_s": 1.0}, "connection_timeout_s >= election_max_s"),
        ({"retry_s": 0.1}, "retry_s > heartbeat_s"),
        ({"apply_slice_max_s": 0.1}, "apply_slice_max_s < heartbeat_s"),
        ({"apply_slice_s": 0.09}, "apply_slice_s <= apply_slice_max_s"),
        ({"group_bytes_max": 512 * 1024}, "group_bytes_max <= envelope_bytes_max"),
        ({"lane_bytes_min": 1024 * 1024}, "lane_bytes_min <= lane_bytes_max"),
        ({"client_target_s": 1.0}, "client_target_s <= work_target_s"),
        ({"client_waiting_bytes_max": 1024}, "command_bytes_max < client_waiting_bytes_max"),
        ({"appended_bytes_max": 0}, "appended_bytes_max > 0"),
        ({"tick_wait_max_s": 1.0}, "tick_wait_max_s <= election_min_s"),
        ({"command_bytes_max": 256 * 1024}, "a command and its header fit an envelope"),
        ({"append_batch_bytes": 256 * 1024}, "envelope_bytes_max < append_batch_bytes"),
        ({"in_flight_bytes_max": 1024 * 1024}, "append_batch_bytes < in_flight_bytes_max"),
        ({"envelope_commands_max": 0}, "envelope_commands_max >= 1"),
        ({"proposals_in_flight_max": 65}, "in flight <= pending"),
        ({"log_keep_bytes": 0}, "log_keep_... > 0"),
        ({"log_keep_entries": 0}, "log_keep_... > 0"),
        ({"log_trim_entries_max": 0}, "log_keep_... > 0"),
        ({"log_keep_follower_times": 0}, "1 <= log_keep_follower_times"),
        ({"log_keep_snapshot_times": 1}, "log_keep_follower_times <= log_keep_snapshot_times"),
        ({"snapshot_chunk_bytes": 2 * 1024 * 1024}, "snapshot_chunk_bytes < snapshot_chunk_bytes_max"),
        ({"snapshot_chunks_in_flight_max": 0}, "snapshot_chunks_in_flight_max > 0"),
        ({"snapshot_slice_s": 0.1}, "snapshot_slice_s < heartbeat_s"),
        ({"snapshot_idle_s": 4.0}, "connection_timeout_s < snapshot_idle_s"),
        ({"snapshot_life_s": 30.0}, "snapshot_idle_s < snapshot_life_s"),
    ],
)
def test_each_relation_is_checked(change: dict[str, Any], relation: str) -> None:
    with pytest.raises(ValueError, match=relation.split(":")[0]):
        dataclasses.replace(RaftConfig(), **change).validate()


def test_a_node_must_be_a_member() -> None:
    with pytest.raises(ValueError, match="not among the members"):
        Identity(node="n4", members=("n1", "n2"), cluster_id="c").validate()


def test_ids_are_distinct_and_the_cluster_is_named() -> None:
    with pytest.raises(ValueError, match="same id"):
        Identity(node="n1", members=("n1", "n2", "n2"), cluster_id="c").validate()
    with pytest.raises(ValueError, match="cluster id"):
        Identity(node="n1", members=("n1",), cluster_id="").validate()


@pytest.mark.parametrize(("size", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_a_majority_is_more_than_half(size: int, majority: int) -> None:
    members = tuple(f"n{number}" for number in range(size))
    assert Identity(node="n0", members=members, cluster_id="c").majority == majority
